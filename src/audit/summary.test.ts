import { describe, expect, it } from 'vitest';
import type { ArmName, PromptResult } from './result.js';
import { summariseDrafter } from './summary.js';
import { sampleArm as arm, samplePrompt as prompt } from '../../test/support/audit/sample-arm.js';

const audited = [
  prompt('one', [
    arm('clean', { steps: 10, accepted: 10 }),
    arm('random', { steps: 10, accepted: 8, divergence: 0.2, suffixPerplexity: 10 }),
    arm('random', { repeat: 2, steps: 10, accepted: 6, kept: 'different' }),
    arm('undirected', { steps: 10, accepted: 9 }),
    arm('attack', { steps: 16, accepted: 4, divergence: 0.08, suffixPerplexity: 100, passes: [16, 10] }),
  ]),
  prompt('two', [
    arm('clean', { steps: 30, accepted: 30 }),
    arm('random', { steps: 30, accepted: 30, divergence: 0.2, suffixPerplexity: 10 }),
    arm('random', { repeat: 2, steps: 30, accepted: 30 }),
    arm('undirected', { steps: 30, accepted: 20 }),
    arm('attack', { steps: 44, accepted: 16, divergence: 0.12, suffixPerplexity: 10000, kept: 'similar' }),
  ]),
];

describe('the summary of a drafter', () => {
  const summary = summariseDrafter([
    ...audited,
    prompt('three', [arm('clean', { steps: 10, accepted: 1 })], 'Too short.'),
  ]);
  const row = (name: ArmName) => summary.arms.find((entry) => entry.arm === name)!;

  it('pools accepted lengths along the same answer over steps, and gives the mean of means as well', () => {
    expect(row('clean').sameAnswer).toMatchObject({ estimate: 2, n: 2 });
    expect(row('attack').sameAnswer.estimate).toBeCloseTo(1 + 20 / 60, 12);
    expect(row('attack').meanOfPromptMeans).toBeCloseTo((1.25 + 1 + 16 / 44) / 2, 12);
    expect(row('attack').acceptanceByDepth).toEqual([20 / 60]);
    expect(row('attack').passes).toBe(30);
  });

  it('pools draws and seeds of a prompt before prompts are compared', () => {
    expect(row('random').sameAnswer).toMatchObject({ estimate: 1 + 74 / 80, n: 2 });
  });

  it('gives the drop between the pooled lengths, with an interval around it', () => {
    const { estimate, low, high, n } = summary.drop;
    expect(estimate).toBeCloseTo(1 - (1 + 20 / 60) / 2, 12);
    expect(low).toBeLessThanOrEqual(estimate);
    expect(high).toBeGreaterThanOrEqual(estimate);
    expect(n).toBe(2);
  });

  it('tests the attack against every control that is there: two of two shorter is a quarter', () => {
    expect(summary.tests.map(({ against }) => against)).toEqual(['clean', 'random', 'undirected']);
    for (const { n, pValue } of summary.tests) expect([n, pValue]).toEqual([2, 0.25]);
  });

  it('counts classes of answers, and passes over as many tokens', () => {
    expect(row('attack').kept).toEqual({ identical: 1, task: 0, similar: 1, different: 0 });
    expect(row('random').kept).toEqual({ identical: 3, task: 0, similar: 0, different: 1 });
    expect(row('attack').passRatio).toBeCloseTo(26 / 20, 12);
    expect(row('attack').answerLength).toBe(3);
  });

  it('averages preservation; perplexities of suffixes geometrically', () => {
    expect(row('attack').divergence).toBeCloseTo(0.1, 12);
    expect(row('attack').withinBound).toBe(0.5);
    expect(row('attack').suffixPerplexity).toBeCloseTo(1000, 6);
    expect(row('clean').suffixPerplexity).toBeNull();
  });

  it('leaves skipped prompts out of every row', () => {
    expect([summary.promptsAudited, summary.promptsSkipped]).toEqual([2, 1]);
    expect(row('clean').sameAnswer.n).toBe(2);
    expect(row('fluent')).toBeUndefined();
  });

  it('counts a prompt without a suffix as no drop, and says how many there are', () => {
    const failed = prompt('four', [
      arm('clean', { steps: 20, accepted: 20 }),
      arm('attack', { steps: 20, accepted: 20, withoutSuffix: 'All vetoed.' }),
    ]);
    const { drop, promptsAudited, promptsWithoutSuffix } = summariseDrafter([...audited, failed]);
    expect([promptsAudited, promptsWithoutSuffix]).toEqual([3, 1]);
    expect(drop.estimate).toBeCloseTo(1 - (1 + 40 / 80) / 2, 12);
  });

  it('weighs a prompt the same however many seeds attacked it', () => {
    const [one, two] = audited as [PromptResult, PromptResult];
    const again = arm('attack', { repeat: 2, steps: 16, accepted: 4 });
    const repeated = summariseDrafter([{ ...one, arms: [...one.arms, again] }, two]);
    expect(repeated.drop.estimate).toBeCloseTo(summary.drop.estimate, 12);
  });

  it('counts given suffixes where there are some', () => {
    const given = prompt('five', [
      arm('clean', { steps: 10, accepted: 10 }),
      arm('given', { steps: 15, accepted: 5 }),
    ]);
    const { drop, tests } = summariseDrafter([given]);
    expect(drop.estimate).toBeCloseTo(1 - (1 + 5 / 15) / 2, 12);
    expect(tests.map(({ against }) => against)).toEqual(['clean']);
  });

  it('tests nothing where a prompt chose the suffix that was given, and keeps the lengths', () => {
    const origin = { chosenOn: [], replayed: true };
    const replayed = prompt('five', [
      arm('clean', { steps: 10, accepted: 10 }),
      { ...arm('given', { steps: 15, accepted: 5 }), origin },
    ]);
    const { drop, tests, promptsReplayed } = summariseDrafter([replayed, ...audited]);
    expect(drop.estimate).toBeGreaterThan(0.3);
    expect(tests).toEqual([]);
    expect(promptsReplayed).toBe(1);
  });

  it('of nothing is empty and claims nothing', () => {
    const nothing = summariseDrafter([prompt('one', [], 'No room.')]);
    expect(nothing.arms).toEqual([]);
    expect(nothing.drop).toEqual({ estimate: 0, low: 0, high: 0, n: 0 });
    expect(nothing.tests).toEqual([]);
    expect(nothing.promptsAudited).toBe(0);
  });
});
