import { describe, expect, it } from 'vitest';
import { compareAudits } from './comparison.js';
import { printReport, renderReportHtml } from '../document.js';
import type { Comparison } from './comparison.js';
import { createComparisonReport } from './comparison-report.js';
import type { ComparablePrompt, ComparedRun } from './finished-run.js';
import { parsePage } from '../../../test/support/report/parse-document.js';
import { stringifyStably } from '../audit/write-reports.js';
import { createSampleAudit, type SampleOptions } from '../../../test/support/report/sample-audit.js';
import type { Row } from '../../../test/support/report/comparable-run.js';
import { attacked, identity, prompt, run } from '../../../test/support/report/comparable-run.js';
import { judge } from '../audit/verdict.js';

const renderComparisonText = (comparison: Comparison): string =>
  printReport(createComparisonReport(comparison), 'text');
const renderComparisonHtml = (comparison: Comparison): string =>
  renderReportHtml(createComparisonReport(comparison));
const renderComparisonMarkdown = (comparison: Comparison): string =>
  printReport(createComparisonReport(comparison), 'markdown');

const sample = (options: SampleOptions, name = 'runs/sample'): ComparedRun => {
  const { result } = createSampleAudit(options);
  return { name, result: { ...result, verdict: judge(result) } };
};

describe('rows of two audits', () => {
  it('have lengths pooled over steps, and changes against the clean row of their own run', () => {
    const before = run({ d: [attacked('1', 1.5), attacked('2', 2.5)] });
    const after = run({
      d: [
        prompt('1', [['clean', 30, 10], ['attack', 10, 10, 'similar']]), // prettier-ignore
        prompt('2', [['clean', 30, 10], ['attack', 10, 30, 'different']]), // prettier-ignore
      ],
    });
    const [drafter] = compareAudits(before, after).drafters;
    expect(drafter!.rows.map(({ arm }) => arm.before)).toEqual(['clean', 'attack']);
    const [clean, attack] = drafter!.rows;
    expect(clean).toMatchObject({ length: { before: 3, after: 4 }, change: null, difference: null, n: 2 });
    expect(clean!.lengthChange.estimate).toBeCloseTo(1 / 3, 12);
    // Before: 1 + 20/20 = 2 of 3. After: 1 + 20/40 = 1.5 of 4.
    expect(attack!.length).toEqual({ before: 2, after: 1.5 });
    expect(attack!.change!.before).toBeCloseTo(-1 / 3, 12);
    expect(attack!.change!.after).toBeCloseTo(-5 / 8, 12);
    expect(attack!.difference!.estimate).toBeCloseTo(-5 / 8 + 1 / 3, 12);
    expect(attack!.passes).toEqual({ before: 10, after: 20 });
    expect(attack!.kept).toEqual({
      before: { identical: 2, task: 0, similar: 0, different: 0 },
      after: { identical: 0, task: 0, similar: 1, different: 1 },
    });
    expect(drafter!.counted).toMatchObject({ withoutSuffix: { before: 0, after: 0 } });
    expect(drafter!.counted!.drop.before).toBeCloseTo(1 / 3, 12);
    expect(drafter!.counted!.growth.estimate).toBeCloseTo(5 / 8 - 1 / 3, 12);
    expect(drafter!.level).toEqual({ before: 'level of d', after: 'level of d' });
  });

  it('weigh a prompt the same however many seeds attacked it', () => {
    const seeds: readonly Row[] = [['clean', 20, 10], ['attack', 0, 10], ['attack', 20, 10], ['attack', 10, 10]]; // prettier-ignore
    const before = run({ d: [prompt('1', seeds), attacked('2', 3)] });
    const [drafter] = compareAudits(before, before).drafters;
    expect(drafter!.rows.at(-1)!.length.before).toBe(2.5);
    expect(drafter!.rows.at(-1)!.passes.before).toBe(10);
    expect(drafter!.rows.at(-1)!.kept.before.identical).toBe(4);
  });

  it('resample prompts with both runs of each: what both share cancels out', () => {
    const lengths = [1.2, 1.4, 1.9, 2.2, 2.8, 3];
    const before = run({ d: lengths.map((length, index) => attacked(`${index}`, length)) });
    const same = compareAudits(before, before).drafters[0]!.counted!;
    expect(same.growth).toEqual({ estimate: 0, low: 0, high: 0, n: 6 });
    expect(same.pValue).toBe(1);
    const lower = lengths.map((length, index) => attacked(`${index}`, length - 0.15));
    const worse = compareAudits(before, run({ d: lower })).drafters[0]!.counted!;
    expect(worse.growth.estimate).toBeCloseTo(0.05, 12);
    expect(worse.growth.low).toBeCloseTo(0.05, 12);
    expect(worse.growth.high).toBeCloseTo(0.05, 12);
    expect(worse.pValue).toBe(2 / 2 ** 6);
  });

  it('that only some prompts have in both are compared on these', () => {
    const fluent = (id: string): ComparablePrompt =>
      prompt(id, [['clean', 20, 10], ['fluent', 10, 10], ['attack', 0, 10]]); // prettier-ignore
    const before = run({ d: [fluent('1'), fluent('2'), attacked('3', 2)] });
    const after = run({ d: [fluent('1'), attacked('2', 2), fluent('3')] });
    const rows = compareAudits(before, after).drafters[0]!.rows;
    expect(rows.map(({ arm, n }) => [arm.after, n])).toEqual([
      ['clean', 3],
      ['fluent', 1],
      ['attack', 3],
    ]);
  });

  it('compare an attack with the same suffixes given again', () => {
    const given = prompt('1', [['clean', 20, 10], ['given', 10, 10]]); // prettier-ignore
    const [drafter] = compareAudits(run({ d: [attacked('1', 1)] }), run({ d: [given] })).drafters;
    expect(drafter!.rows.at(-1)).toMatchObject({
      arm: { before: 'attack', after: 'given' },
      length: { before: 1, after: 2 },
    });
    expect(drafter!.counted!.growth.estimate).toBeCloseTo(-1 / 3, 12);
  });
});

describe('prompts of two audits', () => {
  it('count only where id and text are the same and both were audited', () => {
    const before = run({
      d: [
        attacked('same', 2),
        attacked('other text', 1),
        attacked('gone', 1),
        attacked('skipped after', 1),
        { ...attacked('skipped in both', 1), skipped: 'Too short.' },
      ],
    });
    const after = run({
      d: [
        attacked('new', 1),
        { ...attacked('skipped after', 1), skipped: 'Too short.' },
        { ...attacked('other text', 1), prompt: 'changed' },
        attacked('same', 2.5),
        prompt('without attack', [['clean', 1, 1]]),
      ],
    });
    const [drafter] = compareAudits(before, after).drafters;
    expect(drafter!.prompts).toEqual({ shared: 1, onlyBefore: 2, onlyAfter: 1, changed: 1 });
    expect(drafter!.rows.at(-1)!.length).toEqual({ before: 2, after: 2.5 });
  });

  it('on which nothing was found are counted', () => {
    const nothing = attacked('1', 3);
    const arms = nothing.arms.map((arm) => ({
      ...arm,
      withoutSuffix: arm.arm === 'attack' ? 'Vetoed.' : null,
    }));
    const before = run({ d: [{ ...nothing, arms }, attacked('2', 2)] });
    const [drafter] = compareAudits(before, run({ d: [nothing, attacked('2', 2)] })).drafters;
    expect(drafter!.counted!.withoutSuffix).toEqual({ before: 1, after: 0 });
  });
});

describe('drafters of two audits', () => {
  const prompts = [attacked('1', 2)];

  it('are paired by name, whatever their order', () => {
    const { drafters, unpaired } = compareAudits(
      run({ a: prompts, b: prompts, c: prompts }),
      run({ d: prompts, c: prompts, a: prompts }),
    );
    expect(drafters.map(({ drafter }) => drafter)).toEqual([
      { before: 'a', after: 'a' },
      { before: 'c', after: 'c' },
    ]);
    expect(unpaired).toEqual({ before: ['b'], after: ['d'] });
  });

  it('are a pair where there is one each', () => {
    const { drafters, unpaired, differences } = compareAudits(run({ old: prompts }), run({ new: prompts }));
    expect(drafters[0]!.drafter).toEqual({ before: 'old', after: 'new' });
    expect(drafters[0]!.level).toEqual({ before: 'level of old', after: 'level of new' });
    expect(unpaired).toEqual({ before: [], after: [] });
    expect(differences).toEqual([{ name: 'drafter', before: 'old', after: 'new' }]);
  });

  it('with other names are not guessed at where there are several', () => {
    const { drafters } = compareAudits(run({ a: prompts, b: prompts }), run({ c: prompts }));
    expect(drafters).toEqual([]);
  });
});

describe('what was set up differently', () => {
  it('is nothing in two runs of the same', () => {
    expect(compareAudits(run({ d: [] }), run({ d: [] })).differences).toEqual([]);
  });

  it('is named with both values', () => {
    const after = run(
      { d: [] },
      {
        ...{ version: '0.3.0', preset: 'quick', seed: 5, promptCount: 9, node: 'v22' },
        target: { ...identity, name: 'n', sha256: '2'.repeat(64) },
        drafters: [{ ...identity, sha256: '3'.repeat(64), id: 'd', system: 'EAGLE-3', policy: 'chain:5' }],
        options: { steps: 20, keep: 'task' },
      },
    );
    const { differences } = compareAudits(run({ d: [] }), after);
    expect(differences.map(({ name, ...values }) => [name, values.before, values.after])).toEqual([
      ['version', '0.2.0', '0.3.0'],
      ['node', 'v20', 'v22'],
      ['target', 'm', 'n'],
      ['target files (sha256)', '1'.repeat(64), '2'.repeat(64)],
      ['d system', 'EAGLE', 'EAGLE-3'],
      ['d draft policy', 'chain:4', 'chain:5'],
      ['d files (sha256)', '1'.repeat(64), '3'.repeat(64)],
      ['preset', 'standard', 'quick'],
      ['seed', 0, 5],
      ['prompts given', 2, 9],
      ['option steps', 40, 20],
      ['option keep', null, 'task'],
    ]);
  });
});

describe('a comparison in words', () => {
  const before = sample({ strength: 0.3, withoutSuffix: 'none' }, 'runs/a');
  const after = sample({ strength: 0.7, withoutSuffix: 'none' }, 'runs/b|<i>');
  const comparison = compareAudits(before, after);

  it('shows in a terminal what is in both, row by row', () => {
    const text = renderComparisonText(comparison);
    const lines = text.split('\n');
    expect(lines[0]).toMatch(
      /^eagle3 got worse: .* \(95 % interval \+\d+\.\d to \+\d+\.\d points\), over \d+ prompts\.$/,
    );
    expect(text).toMatch(/^before {2}runs\/a, target reference\/target, Mistletoe \d/m);
    expect(text).toContain('Both runs have the same setup.');
    const { rows, counted, prompts } = comparison.drafters[0]!;
    const table = lines.slice(lines.indexOf('eagle3') + 1, lines.indexOf('eagle3') + 2 + rows.length);
    expect(table[0]).toMatch(/^row +accepted length +against no suffix +difference, points \(95 %\)/);
    expect(table.at(-1)).toMatch(
      /^attack +\d\.\d\d → \d\.\d\d +−\d+ % → −\d+ % +−\d+\.\d \(−\d+\.\d to [−+]/,
    );
    expect(new Set(table.map(({ length }) => length)).size).toBe(1);
    expect(counted!.growth.estimate).toBeGreaterThan(0);
    expect(comparison.drafters.map(({ level }) => level)).toEqual([
      { before: 'collapsed', after: 'collapsed' },
      { before: 'fragile', after: 'collapsed' },
    ]);
    expect(text).toContain('Verdict: collapsed in both.');
    expect(text).toContain('Verdict: fragile → collapsed.');
    expect(text).toMatch(
      new RegExp(
        `^eagle3 \\(${prompts.shared} prompts in both\\): \\+\\d+\\.\\d points drop under attack: .*; p = `,
        'm',
      ),
    );
    expect(text).toMatch(/^Answers before: .*; after: /m);
    expect(text).toMatch(/; [+−]?\d+\.\d % accepted length without a suffix \(95 % /);
  });

  it('turns round with the runs', () => {
    const back = compareAudits(after, before).drafters[0]!.counted!;
    expect(back.growth.estimate).toBeCloseTo(-comparison.drafters[0]!.counted!.growth.estimate, 12);
    expect(renderComparisonText(compareAudits(after, before))).toMatch(
      /−\d+\.\d points drop under attack: .* \(95 % interval −\d/,
    );
  });

  it('escapes what comes from outside in Markdown, and has one table for each drafter', () => {
    const markdown = renderComparisonMarkdown({
      ...comparison,
      gate: { failIfWorse: 0.1, exitCode: 100, failures: ['Too <b>bad</b>.'] },
    });
    expect(markdown).toContain('runs/b\\|\\<i\\>');
    expect(markdown).toContain('**Gate failed.** Too \\<b\\>bad');
    expect(markdown.match(/^\| row +\|/gm)).toHaveLength(2);
    const cells = markdown
      .split('### The two runs')[0]!
      .split('\n')
      .filter((line) => line.startsWith('| '));
    expect(new Set(cells.map((line) => line.split(/(?<!\\)\|/).length)).size).toBe(1);
  });

  it('says what is missing where nothing is shared', () => {
    const nothing = compareAudits(before, sample({ empty: true }));
    for (const text of [
      renderComparisonText(nothing),
      renderComparisonMarkdown(nothing),
      renderComparisonHtml(nothing),
    ]) {
      expect(text).toContain('No prompt was audited in both runs');
      expect(text).not.toMatch(/NaN|Infinity|undefined/);
    }
  });

  it('says that few prompts decide nothing, and gives one prompt no interval', () => {
    const one = renderComparisonText(
      compareAudits(run({ d: [attacked('1', 2)] }), run({ d: [attacked('1', 1)] })),
    );
    expect(one).toContain('d (1 prompt in both): +33.3 points drop under attack: 33 % to 67 %;');
    expect(one).toContain('1 prompt is too few to rule out chance.');
    expect(one).not.toContain('p =');
    expect(one).toMatch(/−33\.3 +10\.0/);
  });

  it('names drafters that stand alone and prompts that were left out', () => {
    const text = renderComparisonText(
      compareAudits(
        run({ a: [attacked('1', 2), attacked('2', 2)], b: [] }),
        run({ a: [attacked('1', 2), { ...attacked('3', 2) }], c: [] }),
      ),
    );
    expect(text).toContain('Only before: b.\nOnly after: c.\n');
    expect(text).toContain('Left out: 1 prompt audited only before, 1 prompt audited only after.');
  });

  it('is the same JSON every time, with numbers as numbers', () => {
    const text = stringifyStably(comparison);
    expect(stringifyStably(compareAudits(before, after))).toBe(text);
    expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(comparison)));
    expect(JSON.parse(text)).toMatchObject({ schema: 'mistletoe.comparison/1', gate: null });
  });

  it('has a page that starts with one sentence and one picture', () => {
    const page = parsePage(renderComparisonHtml(comparison));
    expect(page.querySelector('.verdict .level')?.textContent).toBe('Worse');
    expect(page.querySelector('h1')?.textContent).toMatch(/got worse: .*over \d+\u00a0?.*prompts\.$/);
    expect(page.querySelectorAll('.picture svg.plot')).toHaveLength(1);
    expect(page.querySelectorAll('#drafters table')).toHaveLength(2);
    expect(renderComparisonHtml(comparison)).not.toContain('<i>runs');
    const few = compareAudits(run({ d: [attacked('1', 2)] }), run({ d: [attacked('1', 1)] }));
    expect(renderComparisonHtml(few)).toContain('1 prompt is too few to tell whether d changed');
    expect(renderComparisonHtml(few)).toContain('class="verdict inconclusive"');
  });
});
