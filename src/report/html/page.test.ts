import { describe, expect, it } from 'vitest';
import type { AuditResult } from '../../audit/result.js';
import { parsePage } from '../testing/parse-document.js';
import { createSampleAudit } from '../testing/sample-audit.js';
import { hostileAnswer } from '../testing/sample-texts.js';
import { judge } from '../verdict.js';
import { renderHtml } from './page.js';

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
    expect(document.querySelector('h1')?.textContent).toBe('Collapsed');
    expect(document.querySelectorAll('#rows tbody tr')).toHaveLength(14);
    expect(document.querySelectorAll('details.prompt')).toHaveLength(6);
    expect(document.querySelectorAll('details[open]')).toHaveLength(1);
    expect(document.querySelectorAll('figure svg')).toHaveLength(10);
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
    for (const figure of document.querySelectorAll('figure svg')) {
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

describe('text of models in the HTML report', () => {
  it('reads as it was written and does nothing', () => {
    const answers = [...document.querySelectorAll('details.prompt')].find((part) =>
      part.querySelector('summary')?.textContent.includes('html-1'),
    );
    const shown = answers?.querySelector('.sides .text')?.textContent ?? '';
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
});

describe('an unusual result', () => {
  it('is drawn when nothing was audited', () => {
    const empty = createSampleAudit({ empty: true }).result;
    const page = parsePage(render(empty));
    expect(page.querySelector('h1')?.textContent).toBe('Inconclusive');
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
    expect(page).not.toMatch(/NaN|undefined|Infinity/);
    expect(page).toContain('∞');
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
    return ['arm', 'origins', 'drafter'].includes(key) ? (key === 'drafter' ? value + text : value) : text;
  }
  if (Array.isArray(value)) return value.map((item) => replaceStrings(item, text, key));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, replaceStrings(item, text, name)]),
  );
}
