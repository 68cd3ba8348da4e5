import { describe, expect, it } from 'vitest';
import { renderHardeningMarkdown } from './hardening-markdown.js';
import { renderHardeningHtml } from './hardening-report.js';
import { describeComparison, describeOutcome, listRounds, listRows } from './hardening-words.js';
import type { SamplePrompt } from '../../../test/support/train/sample-hardening.js';
import {
  createAuditResult,
  createHardeningResult,
  createPrompts,
} from '../../../test/support/train/sample-hardening.js';

const resultOf = (...drafters: readonly (readonly SamplePrompt[])[]) =>
  createHardeningResult([['fresh', createAuditResult(drafters)]]);

const better = resultOf(
  createPrompts(12, 2.5, 0.4),
  createPrompts(12, 2.4, 0.1),
  createPrompts(12, 2.5, 0.4),
);

describe('a drop that is smaller', () => {
  it('is said with what is left of it, its price and its evidence', () => {
    expect(describeOutcome(better)).toBe('The drop is smaller');
    const [hardened, random, against] = describeComparison(better.audits[0]!);
    expect(hardened).toMatch(
      /^The hardened drafter loses less under attack: \d+\.\d % where the drafter before loses \d+\.\d %, \d+\.\d % \(.* to .*\) of it \(p < 0\.001, over 12 prompts\)\. On clean prompts it accepts less than before: −4\.0 %/,
    );
    expect(random).toMatch(
      /a difference of 0\.0 points that is not beyond chance \(p = 1\.000 for a smaller drop/,
    );
    expect(against).toMatch(
      /^The hardened drafter loses less under attack: .* where the drafter trained on random suffixes loses/,
    );
  });

  it('is said against each baseline', () => {
    const four = resultOf(
      ...[createPrompts(12, 2.5, 0.4), createPrompts(12, 2.4, 0.1)],
      ...[createPrompts(12, 2.5, 0.4), createPrompts(12, 2.5, 0.3)],
    );
    const sentences = describeComparison(four.audits[0]!);
    expect(sentences).toHaveLength(5);
    expect(sentences[2]).toMatch(
      /^The drafter trained on reworded questions loses less .* where the drafter before/,
    );
    expect(sentences[4]).toMatch(
      /^The hardened drafter loses less .* where the drafter trained on reworded questions loses 29/,
    );
    expect(listRows(four.audits[0]!)[3]![0]).toBe('reworded questions');
  });

  it('has a row for each drafter', () => {
    const rows = listRows(better.audits[0]!);
    expect(rows.map(([name]) => name)).toEqual(['before', 'hardened', 'random suffixes']);
    expect(rows[0]!.slice(4)).toEqual(['–', '–', '–', '12']);
    expect(rows[1]![6]).toBe('< 0.001');
  });
});

describe('a drop that is not smaller', () => {
  it('is said so', () => {
    const same = resultOf(createPrompts(12, 2.5, 0.3), createPrompts(12, 2.5, 0.3));
    expect(describeOutcome(same)).toBe('No smaller drop was shown');
    const worse = resultOf(createPrompts(12, 2.5, 0.1), createPrompts(12, 2.5, 0.4));
    expect(describeOutcome(worse)).toBe('The drop is larger');
    expect(describeComparison(worse.audits[0]!)[0]).toMatch(/loses more under attack: .* points more \(p/);
  });

  it('of a few prompts proves nothing, and that is said', () => {
    const few = resultOf(createPrompts(3, 2.5, 0.4), createPrompts(3, 2.5, 0.1));
    expect(describeOutcome(few)).toBe('No smaller drop was shown');
    expect(describeComparison(few.audits[0]!)[0]).toMatch(/not beyond chance \(p = 0\.125/);
  });

  it('of nothing has no ratio', () => {
    const none = resultOf(createPrompts(12, 2.5, 0), createPrompts(12, 2.5, 0));
    expect(listRows(none.audits[0]!)[1]![4]).toBe('undefined');
  });

  it('cannot be told where no prompt counts', () => {
    const skipped = createPrompts(3, 2, 0.4).map((one) => ({ ...one, skipped: 'too short' }));
    const none = resultOf(skipped, skipped);
    expect(describeOutcome(none)).toBe('Nothing could be compared');
    expect(describeComparison(none.audits[0]!)).toEqual([
      'The hardened drafter and the drafter before have no audited prompt in common: nothing can be compared.',
    ]);
    expect(renderHardeningHtml(none)).toContain('Nothing could be compared');
  });
});

describe('reports', () => {
  const both = createHardeningResult([
    ['fresh', createAuditResult([createPrompts(12, 2.5, 0.4), createPrompts(12, 2.4, 0.1)])],
    ['stronger', createAuditResult([createPrompts(4, 2.5, 0.5), createPrompts(4, 2.4, 0.3)])],
  ]);

  it('have a row for each round', () => {
    expect(listRounds(both)).toEqual([
      ['searched', '1', '32', '118 of 30', '24', '1.31', '200', '2.41', '2.39', '−0.8 %'],
      ['searched', '2', '32', '118 of 30', '36', '1.62', '200', '2.39', '2.38', '−0.4 %'],
      ['random', '1', '32', '118 of 30', '–', '–', '200', '2.41', '2.39', '−0.8 %'],
      ['reworded', '1', '32', '118 of 30', '–', '–', '200', '2.41', '2.39', '−0.8 %'],
    ]);
  });

  it('link to the report of each audit and load nothing', () => {
    const page = renderHardeningHtml(both);
    for (const audit of ['fresh', 'stronger']) expect(page).toContain(`href="audits/${audit}/report.html"`);
    expect(page).not.toMatch(/src=|https?:\/\/(?!www\.w3\.org)/);
    expect(page.match(/role="img"/g)).toHaveLength(2);
  });

  it('escape what comes from outside', () => {
    const named = { ...both, from: { ...both.from, name: '<img src=x>|`' } };
    expect(renderHardeningHtml(named)).not.toContain('<img');
    expect(renderHardeningMarkdown(named)).not.toMatch(/(?<!\\)<img/);
  });

  it('say in Markdown what the page says', () => {
    const text = renderHardeningMarkdown(both);
    for (const sentence of describeComparison(both.audits[1]!)) expect(text).toContain(sentence.slice(0, 60));
    expect(text).toContain('### Ten times the steps');
    expect(text).not.toContain('/data/questions.jsonl');
  });
});
