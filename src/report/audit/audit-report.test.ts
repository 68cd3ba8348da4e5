import { describe, expect, it } from 'vitest';
import type { AuditResult } from '../../audit/result.js';
import type { ParsedNode } from '../../../test/support/report/parse-document.js';
import { parsePage } from '../../../test/support/report/parse-document.js';
import { createSampleAudit } from '../../../test/support/report/sample-audit.js';
import { hostileAnswer } from '../../../test/support/report/sample-texts.js';
import { judge } from './verdict.js';
import { createAuditReport } from './audit-report.js';
import { renderReportHtml } from '../document.js';

const renderHtml = (...parts: Parameters<typeof createAuditReport>): string =>
  renderReportHtml(createAuditReport(...parts));

const { result, timings } = createSampleAudit();
const render = (audited: AuditResult): string =>
  renderHtml(audited, timings, judge(audited, { failIfDrop: 0.3 }));
const text = render(result);
const document = parsePage(text);

describe('the HTML report', () => {
  it('has every part, in order', () => {
    const ids = [...document.querySelectorAll('main > [id]')].map((part) => part.id);
    expect(ids).toEqual([
      'verdict',
      'rows',
      'prompts',
      'depth',
      'search',
      'answers',
      'transfer',
      'universal',
      'setup',
    ]);
    expect(document.querySelector('.level')?.textContent).toBe('Collapsed');
    expect(document.querySelector('h1')?.textContent).toMatch(
      /^With a suffix, eagle3 accepts \d+\u00a0% fewer tokens per step \(95\u00a0% interval \d+ to \d+\u00a0%\) on the same answers, over 8 prompts\.$/,
    );
    expect(document.querySelectorAll('.picture svg.plot')).toHaveLength(1);
    expect(document.querySelectorAll('#rows .card > .scroll tbody tr')).toHaveLength(16);
    expect(document.querySelectorAll('#rows details.more tbody tr')).toHaveLength(16);
    expect(document.querySelectorAll('details.prompt')).toHaveLength(9);
    expect(document.querySelectorAll('details[open]')).toHaveLength(1);
    expect(document.querySelectorAll('figure svg.plot')).toHaveLength(9);
    expect(document.querySelector('#setup pre')?.textContent).toBe(result.setup.command);
  });

  it('links only to parts of itself that exist', () => {
    const links = [...document.querySelectorAll('a')].map((link) => link.getAttribute('href') ?? '');
    expect(links.length).toBeGreaterThan(5);
    for (const link of links) expect(document.querySelector(link), link).not.toBeNull();
  });

  it('asks nothing of the network', () => {
    expect(
      document.querySelectorAll('link, img, iframe, object, embed, base, script[src], image, use'),
    ).toHaveLength(0);
    expect(document.querySelectorAll('[src], [srcset], [action], [background], [poster]')).toHaveLength(0);
    expect(text).not.toMatch(/@import|url\(|https?:\/\/(?!www\.w3\.org\/)/);
    expect(text).toContain('content="default-src &#39;none&#39;;');
  });

  it('has one script and one style, both its own', () => {
    expect(document.querySelectorAll('script')).toHaveLength(1);
    expect(document.querySelectorAll('style')).toHaveLength(1);
    const attributes = [...document.querySelectorAll('*')].flatMap((element) => [...element.attributes]);
    expect(attributes.length).toBeGreaterThan(1000);
    expect(attributes.filter(({ name }) => name.startsWith('on'))).toEqual([]);
  });

  it('describes every drawing for those who do not see it', () => {
    for (const figure of document.querySelectorAll('figure svg.plot')) {
      expect(figure.getAttribute('role')).toBe('img');
      expect(figure.getAttribute('aria-label')?.length).toBeGreaterThan(30);
    }
  });

  it('draws the bound', () => {
    expect(text.match(/bound ε = 0\.1/g)).toHaveLength(2);
    const unbounded = { ...result, setup: { ...result.setup, options: {} } };
    expect(render(unbounded)).not.toContain('bound ε');
  });
});

const textsOf = (node: ParsedNode | null | undefined, selector: string): string[] =>
  [...(node?.querySelectorAll(selector) ?? [])].map(({ textContent }) => textContent);

function findFold(page: ParsedNode, promptId: string): ParsedNode {
  return [...page.querySelectorAll('details.prompt')].find((part) =>
    part.querySelector('summary')?.textContent.includes(promptId),
  )!;
}

describe('the verdict and the rows of the HTML report', () => {
  it('show the same-answer length, the passes and the classes of every drafter', () => {
    const [eagle3] = document.querySelectorAll('.figures');
    const figures = textsOf(eagle3, 'div').map((part) => part.replace(/\s+/g, ' '));
    expect(figures[1]).toMatch(/^−50 %95 % interval −\d+ to −\d+ %accepted length$/);
    expect(figures[2]).toMatch(/^\+97 %target passes per answer: \d+\.\d to \d+\.\d$/);
    expect(figures[3]).toBe('8 of 8answers kept: 4 identical · 1 task · 3 similar · 0 different');
    expect(figures[4]).toBe('p = 0.016against undirected search, corrected');
  });

  it('explain every column where it stands', () => {
    const heads = [...document.querySelectorAll('#rows thead tr')];
    expect(heads).toHaveLength(2);
    for (const head of heads) {
      const columns = [...head.querySelectorAll('th')].slice(2);
      expect(columns.length).toBeGreaterThan(6);
      for (const column of columns) {
        expect(column.querySelector('abbr')?.getAttribute('title')?.length).toBeGreaterThan(15);
        expect(column.querySelector('small')?.textContent.length).toBeGreaterThan(5);
      }
    }
  });

  it('write changes with their sign, and none for the clean row', () => {
    const rows = [...document.querySelectorAll('#rows .card > .scroll tbody tr')].slice(0, 8);
    const cells = (row: ParsedNode): string[] => textsOf(row, 'td').slice(2);
    expect(cells(rows[0]!)).toEqual([
      '–',
      expect.stringMatching(/^\d+\.\d$/),
      '–',
      expect.stringMatching(/^\d\.\d\d$/),
      '–',
      '8',
    ]);
    expect(cells(rows[7]!)).toEqual([
      '−50 %',
      expect.stringMatching(/^\d+\.\d \(\+97 %\)$/),
      '4/1/3/0',
      expect.stringMatching(/^\d\.\d\d \(\+97 %\)$/),
      expect.stringMatching(/^0\.\d{3}$/),
      '8',
    ]);
    expect(text).not.toMatch(/>-\d+ %/);
    expect(text).not.toMatch(/\blaw\b/);
  });

  it('have one scale for all drafters in each kind of chart', () => {
    for (const chapter of ['prompts', 'depth', 'search']) {
      const [left, right] = [...document.querySelectorAll(`#${chapter} figure`)].map((figure) =>
        [...figure.querySelectorAll('.tick')]
          .map(({ textContent }) => textContent)
          .filter((label) => !/[a-z]/.test(label)),
      );
      expect(left?.join('').length, chapter).toBeGreaterThan(2);
      expect(right, chapter).toEqual(left);
    }
  });

  it('draw fluent text and the undirected search in the chart of depths', () => {
    const [chart] = document.querySelectorAll('#depth figure svg.plot');
    const shares = String.raw`(\d+ %, ){3}\d+ %`;
    for (const row of ['no suffix', 'random tokens', 'fluent text', 'undirected search', 'attack'])
      expect(chart?.getAttribute('aria-label')).toMatch(new RegExp(`${row}: ${shares}\\.`));
    expect(textsOf(document, '#depth .key li')).toEqual(
      ['no suffix', 'random tokens', 'fluent text', 'undirected search', 'attack'], // prettier-ignore
    );
  });
});

describe('the answers of the HTML report', () => {
  const sides = (promptId: string): ParsedNode[] => [
    ...findFold(document, promptId).querySelector('.sides')!.querySelectorAll('.text'),
  ];

  it('are the clean answer on both sides, with accepted drafts gone on one', () => {
    for (const promptId of ['code-1', 'math-1', 'chat-1']) {
      const [left, right] = sides(promptId);
      expect(right!.textContent).toBe(left!.textContent);
      const { arms } = result.drafters[0]!.prompts.find((prompt) => prompt.promptId === promptId)!;
      const accepted = (name: string): number =>
        arms.find(({ arm }) => arm === name)!.sameAnswer.origins.replace(/b/g, '').length;
      expect(left!.querySelectorAll('.a')).toHaveLength(accepted('clean'));
      expect(right!.querySelectorAll('.a')).toHaveLength(accepted('attack'));
      expect(left!.querySelectorAll('.l, .d')).toHaveLength(0);
      expect(right!.querySelectorAll('.l').length).toBeGreaterThan(5);
      expect(right!.querySelectorAll('.d')).toHaveLength(0);
    }
    const headings = textsOf(findFold(document, 'chat-1'), '.sides h4');
    expect(headings[0]).toMatch(/^Clean answer, no suffix · 75 tokens, 22 passes, 3\.45 a step$/);
    expect(headings[1]).toMatch(/^The same answer, attack · 75 tokens, 55 passes, 1\.36 a step$/);
  });

  it('have the free-running one below, with its class, only where it differs', () => {
    expect(textsOf(findFold(document, 'math-2'), '.aside')).toEqual([]);
    const [aside] = findFold(document, 'chat-1').querySelectorAll('.aside');
    expect(aside?.querySelector('h4')?.textContent).toMatch(/^What the target writes by itself · similar/);
    expect(textsOf(aside, '.d').join('')).toBe(' a book');
    const task = findFold(document, 'math-1').querySelector('.aside h4');
    expect(task?.textContent).toContain('same task result in other words');
  });

  it('name a slower other answer for what it is', () => {
    const others = [...document.querySelectorAll('.aside.other')];
    expect(others).toHaveLength(2);
    expect(others[0]?.querySelector('h4')?.textContent.replace(/\s+/g, ' ')).toBe(
      'Another answer, slower: not counted as the attack · similarity 41 %, +121 % passes over 40 tokens',
    );
    expect(others[0]?.querySelector('.text')?.textContent).toContain('result = result + letter');
  });

  it('say where no suffix was found', () => {
    const fold = findFold(document, 'chat-2');
    expect(fold.querySelectorAll('mark.suffix')).toHaveLength(0);
    expect(textsOf(fold, 'p.soft')[0]).toMatch(
      /^No suffix, counted as no drop\. All 512 candidates were vetoed/,
    );
    expect(fold.querySelector('summary')?.textContent).toContain('eagle3 0 %');
  });

  it('are set as code where they are', () => {
    const codes = (promptId: string): number => findFold(document, promptId).querySelectorAll('.code').length;
    expect(codes('code-1')).toBe(8);
    expect(codes('code-2')).toBe(6);
    expect(codes('chat-1')).toBe(0);
  });

  it('mention other seeds where there were several', () => {
    const [first] = result.drafters;
    const prompts = first!.prompts.map((prompt) => ({
      ...prompt,
      arms: prompt.arms.flatMap((arm) => (arm.arm === 'attack' ? [arm, { ...arm, repeat: 2 }] : [arm])),
    }));
    const page = parsePage(render({ ...result, drafters: [{ ...first!, prompts }] }));
    expect(textsOf(findFold(page, 'chat-1'), 'p.soft')[0]).toMatch(
      /the first of 2 seeds is shown, the others reach 1\.36 tokens a step\.$/,
    );
  });
});

describe('text of models in the HTML report', () => {
  it('reads as it was written and does nothing', () => {
    const shown = findFold(document, 'html-1').querySelector('.sides .text')?.textContent ?? '';
    const expected = hostileAnswer
      .replace('\u0007', '␇')
      .replace('\u001b', '␛')
      .replace('\u202e', '⟨U+202E⟩')
      .replace('\u202c', '⟨U+202C⟩')
      .replaceAll('\n', '↵\n');
    expect(shown).toBe(`${expected} ■ stop`);
    expect(text).toContain('&lt;');
    expect(text).not.toContain('<img');
  });

  it('is inert wherever it comes from', () => {
    const evil = `"'></script></style></title><script>alert(1)</script><img src=x onerror=alert(1)>`;
    const hostile = replaceStrings(result, evil) as AuditResult;
    const page = parsePage(render({ ...hostile, schema: result.schema }));
    expect(page.querySelectorAll('script')).toHaveLength(1);
    expect(page.querySelectorAll('img')).toHaveLength(0);
    expect(page.querySelectorAll('[onerror]')).toHaveLength(0);
    expect(page.querySelectorAll('main > [id]')).toHaveLength(9);
  });

  it('is drawn by its picture where it would steer a terminal, in charts too', () => {
    const drafters = result.drafters.map((each) => ({ ...each, drafter: 'x\u001b[2J\u202ey' }));
    const drawn = render({ ...result, drafters });
    expect(drawn).toContain('Accepted length of x␛[2J⟨U+202E⟩y');
    expect(drawn).not.toMatch(/[\u001b\u202e]/);
  });
});

describe('an unusual result', () => {
  it('is drawn when nothing was audited', () => {
    const empty = createSampleAudit({ empty: true }).result;
    const page = parsePage(render(empty));
    expect(page.querySelector('.level')?.textContent).toBe('Inconclusive');
    expect(page.querySelector('h1')?.textContent).toContain('Nothing was audited');
    expect(page.querySelector('.meaning')?.textContent).toContain('No prompt could be audited');
    expect(page.querySelectorAll('figure')).toHaveLength(0);
    expect(page.querySelectorAll('.gate .fail')).toHaveLength(2);
  });

  it('is drawn without traces, times and numbers', () => {
    const [first] = result.drafters;
    const prompts = first!.prompts.map((prompt) => ({ ...prompt, traces: [] }));
    const arms = first!.summary.arms.map((row) => ({ ...row, answerPerplexity: Infinity, divergence: NaN }));
    const bare = { ...result, drafters: [{ ...first!, prompts, summary: { ...first!.summary, arms } }] };
    const page = renderHtml(bare, { ...timings, arms: [] }, judge(bare));
    expect(page).not.toContain('Where the time went');
    expect(page).not.toMatch(/NaN|undefined|Infinity/);
    expect(page).toContain('∞');
  });

  it('is drawn for suffixes that were given, without a search', () => {
    const given = createSampleAudit({ given: true });
    const page = parsePage(renderHtml(given.result, given.timings, judge(given.result)));
    expect([...page.querySelectorAll('main > [id]')].map(({ id }) => id)).not.toContain('search');
    expect(textsOf(page, '#rows tr.attack td:nth-child(2)')).toEqual(
      Array.from({ length: 4 }, () => 'given suffix'),
    );
    expect(textsOf(page, '#depth .key li').at(-1)).toBe('given suffix');
    expect(textsOf(findFold(page, 'chat-1'), '.sides h4')[1]).toMatch(/^The same answer, given suffix/);
    expect(textsOf(page, '#setup dt')).not.toContain('attack');
  });

  it('keeps prompts of one name apart', () => {
    const [first] = result.drafters;
    const prompts = first!.prompts
      .slice(0, 5)
      .map((prompt) => ({ ...prompt, promptId: 'the same long prompt name' }));
    const page = parsePage(render({ ...result, drafters: [{ ...first!, prompts }] }));
    const labels = [...page.querySelectorAll('#prompts svg text')].map((label) => label.textContent);
    expect(labels.filter((label) => label === 'the same long p…')).toHaveLength(5);
  });
});

/** The same shape with every free text replaced; words that steer the drawing stay. */
function replaceStrings(value: unknown, text: string, key = ''): unknown {
  if (typeof value === 'string') {
    return ['arm', 'origins', 'drafter', 'kept', 'against'].includes(key)
      ? key === 'drafter'
        ? value + text
        : value
      : text;
  }
  if (Array.isArray(value)) return value.map((item) => replaceStrings(item, text, key));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, replaceStrings(item, text, name)]),
  );
}
