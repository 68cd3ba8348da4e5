import { describe, expect, it } from 'vitest';
import { printReport, renderReportHtml } from '../document.js';
import { createHardeningReport } from './hardening-report.js';
import type { Table } from '../table.js';
import { cellText } from '../table.js';
import { auditTable, describeComparison, describeOutcome, roundTable } from './hardening-words.js';
import type { SamplePrompt } from '../../../test/support/train/sample-hardening.js';
import {
  createAuditResult,
  createHardeningResult,
  createPrompts,
} from '../../../test/support/train/sample-hardening.js';

const resultOf = (...drafters: readonly (readonly SamplePrompt[])[]) =>
  createHardeningResult([['fresh', createAuditResult(drafters)]]);

type Result = ReturnType<typeof createHardeningResult>;
const renderHtml = (result: Result): string => renderReportHtml(createHardeningReport(result));
const renderMarkdown = (result: Result): string => printReport(createHardeningReport(result), 'markdown');

const textsOf = ({ rows }: Table): string[][] =>
  rows.map(({ cells }) => cells.map((cell) => (typeof cell === 'string' ? cell : cellText(cell))));

const better = resultOf(
  createPrompts(12, 2.5, 0.4),
  createPrompts(12, 2.4, 0.1),
  createPrompts(12, 2.5, 0.4),
);

describe('a drop that is smaller', () => {
  it('has its remainder, its cost and its evidence in words', () => {
    expect(describeOutcome(better)).toMatch(
      /^Hardening helps: .* falls from \d+\.\d % to \d+\.\d % \(95 % interval of the difference −\d+\.\d to −\d+\.\d points\), over 12 prompts\.$/,
    );
    const [hardened, random, against] = describeComparison(better.audits[0]!);
    expect(hardened).toMatch(
      /^Under attack the hardened drafter loses \d+\.\d % where the drafter before loses \d+\.\d %: \d+\.\d points less \(p < 0\.001\), over 12 prompts\.$/,
    );
    expect(random).toMatch(
      /a difference of 0\.0 points that chance can explain \(p = 1\.000 for a smaller drop/,
    );
    expect(against).toMatch(
      /^Under attack the hardened drafter loses .* where the drafter trained on random suffixes loses/,
    );
  });

  it("is the training's and not the searches', where a baseline does as well", () => {
    const equal = resultOf(
      createPrompts(12, 2.5, 0.4),
      createPrompts(12, 2.4, 0.1),
      createPrompts(12, 2.4, 0.1),
    );
    expect(describeOutcome(equal)).toMatch(
      /^Training helps, the searches do not: .* falls from \d+\.\d % to \d+\.\d % \(.*\), and to 10\.\d % with random suffixes, over 12 prompts\.$/,
    );
    const clean = resultOf(
      createPrompts(12, 2.5, 0.4),
      ...Array.from({ length: 3 }, () => createPrompts(12, 2.4, 0.1)),
    );
    expect(describeOutcome(clean)).toMatch(/, and to 10\.\d % with clean texts, over 12 prompts\.$/);
    const alone = resultOf(createPrompts(12, 2.5, 0.4), createPrompts(12, 2.4, 0.1));
    expect(describeOutcome(alone)).toMatch(/^Hardening helps: /);
  });

  it('is said against each baseline', () => {
    const three = resultOf(
      createPrompts(12, 2.5, 0.4),
      createPrompts(12, 2.4, 0.1),
      createPrompts(12, 2.5, 0.3),
    );
    const sentences = describeComparison(three.audits[0]!);
    expect(sentences).toHaveLength(3);
    expect(sentences[1]).toMatch(
      /^Under attack the drafter trained on random suffixes loses .* where the drafter before loses .* less/,
    );
    expect(sentences[2]).toMatch(
      /^Under attack the hardened drafter loses .* where the drafter trained on random suffixes loses 29/,
    );
  });

  it('has a row for each drafter', () => {
    const rows = textsOf(auditTable(better.audits[0]!));
    expect(auditTable(better.audits[0]!).rows.map(({ tone }) => tone)).toEqual([
      undefined,
      'good',
      undefined,
    ]);
    expect(rows.map(([name]) => name)).toEqual(['before', 'hardened', 'random suffixes']);
    expect(rows[0]!.slice(4)).toEqual(['–', '–', '–', '12']);
    expect(rows[1]![5]).toMatch(/^−4\.0 % \(−4\.0 to −4\.0 %\)$/);
    expect(rows[1]![6]).toBe('p < 0.001');
  });
});

describe('a drop that is not smaller', () => {
  it('is said so', () => {
    const same = resultOf(createPrompts(12, 2.5, 0.3), createPrompts(12, 2.5, 0.3));
    expect(describeOutcome(same)).toMatch(/^No gain was shown: /);
    const worse = resultOf(createPrompts(12, 2.5, 0.1), createPrompts(12, 2.5, 0.4));
    expect(describeOutcome(worse)).toMatch(/^Hardening made it worse: /);
    expect(describeComparison(worse.audits[0]!)[0]).toMatch(/: \d+\.\d points more \(p/);
  });

  it('of a few prompts proves nothing, and that is said', () => {
    const few = resultOf(createPrompts(3, 2.5, 0.4), createPrompts(3, 2.4, 0.1));
    expect(describeOutcome(few)).toMatch(/^3 prompts are too few to tell whether hardening helped: /);
    expect(renderHtml(few)).toContain('class="verdict inconclusive"');
    expect(renderHtml(few)).not.toContain('<tr class="good">');
    expect(describeComparison(few.audits[0]!)[0]).toMatch(/chance can explain \(p = 0\.125/);
  });

  it('of nothing has no ratio', () => {
    const none = resultOf(createPrompts(12, 2.5, 0), createPrompts(12, 2.5, 0));
    expect(textsOf(auditTable(none.audits[0]!))[1]![4]).toBe('undefined');
  });

  it('is unknown where no prompt counts', () => {
    const skipped = createPrompts(3, 2, 0.4).map((one) => ({ ...one, skipped: 'too short' }));
    const none = resultOf(skipped, skipped);
    expect(describeOutcome(none)).toMatch(/^Nothing could be compared/);
    expect(describeComparison(none.audits[0]!)).toEqual([
      'No audited prompt in common: the hardened drafter and the drafter before cannot be compared.',
    ]);
    expect(renderHtml(none)).toContain('Nothing could be compared');
  });
});

describe('reports', () => {
  const both = createHardeningResult([
    ['fresh', createAuditResult([createPrompts(12, 2.5, 0.4), createPrompts(12, 2.4, 0.1)])],
    ['stronger', createAuditResult([createPrompts(4, 2.5, 0.5), createPrompts(4, 2.4, 0.3)])],
  ]);

  it('have a row for each round', () => {
    expect(textsOf(roundTable(both))).toEqual([
      ['searched', '1', '32', '30 (118 texts)', '24', '1.31', '200', '2.41', '2.39', '−0.8 %'],
      ['searched', '2', '32', '30 (118 texts)', '36', '1.62', '200', '2.39', '2.38', '−0.4 %'],
      ['random', '1', '32', '30 (118 texts)', '–', '–', '200', '2.41', '2.39', '−0.8 %'],
    ]);
  });

  it('link to the report of each audit and load nothing', () => {
    const page = renderHtml(both);
    for (const audit of ['fresh', 'stronger']) expect(page).toContain(`href="audits/${audit}/report.html"`);
    expect(page).not.toMatch(/src=|https?:\/\/(?!www\.w3\.org)/);
    expect(page.match(/role="img"/g)).toHaveLength(1);
  });

  it('escape what comes from outside', () => {
    const named = { ...both, from: { ...both.from, name: '<img src=x>|`' } };
    expect(renderHtml(named)).not.toContain('<img');
    expect(renderMarkdown(named)).not.toMatch(/(?<!\\)<img/);
  });

  it('say in Markdown what the page says', () => {
    const text = renderMarkdown(both);
    for (const sentence of describeComparison(both.audits[1]!)) expect(text).toContain(sentence.slice(0, 60));
    expect(text).toContain('### Ten times the steps');
    expect(text).not.toContain('/data/questions.jsonl');
  });
});
