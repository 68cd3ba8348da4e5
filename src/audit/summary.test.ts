import { describe, expect, it } from 'vitest';
import type { ArmName, ArmResult, PromptResult } from './result.js';
import { summariseDrafter } from './summary.js';

interface Numbers {
  readonly steps: number;
  readonly accepted: number;
  readonly divergence?: number;
  readonly suffixPerplexity?: number | null;
  readonly taskAgrees?: boolean | null;
}

function arm(name: ArmName, numbers: Numbers): ArmResult {
  const { steps, accepted, divergence = 0, suffixPerplexity = null, taskAgrees = null } = numbers;
  return {
    arm: name,
    suffix: '',
    suffixIds: [],
    answer: { text: '', tokenIds: [], pieces: [], origins: '', finishReason: 'length' },
    acceptance: {
      steps,
      accepted,
      proposed: 4 * steps,
      emitted: steps + accepted,
      meanAcceptedLength: 1 + accepted / steps,
      acceptanceByDepth: [accepted / steps],
      histogram: [],
    },
    preservation: {
      ...{ divergence, suffixPerplexity, taskAgrees },
      ...{ firstDifference: 5, editSimilarity: 0.8, answerPerplexity: 2, repetition: 0, withinBound: divergence <= 0.1 }, // prettier-ignore
    },
  };
}

const prompt = (id: string, arms: readonly ArmResult[], skipped: string | null = null): PromptResult => ({
  promptId: id,
  category: null,
  prompt: id,
  skipped,
  arms,
  traces: [],
  repeats: [],
});

const audited = [
  prompt('one', [
    arm('clean', { steps: 10, accepted: 20 }),
    arm('random', { steps: 10, accepted: 15, divergence: 0.2, suffixPerplexity: 10 }),
    arm('attack', { steps: 20, accepted: 10, divergence: 0.08, suffixPerplexity: 100, taskAgrees: true }),
  ]),
  prompt('two', [
    arm('clean', { steps: 30, accepted: 30 }),
    arm('random', { steps: 30, accepted: 30, divergence: 0.2, suffixPerplexity: 10 }),
    arm('attack', { steps: 40, accepted: 20, divergence: 0.12, suffixPerplexity: 10000, taskAgrees: false }),
  ]),
];

describe('the summary of a drafter', () => {
  const summary = summariseDrafter(
    [...audited, prompt('three', [arm('clean', { steps: 10, accepted: 1 })], 'Vetoed.')],
    1,
  );
  const row = (name: ArmName) => summary.arms.find((entry) => entry.arm === name)!;

  it('pools accepted lengths over steps, and gives the mean of means as well', () => {
    expect(row('clean').meanAcceptedLength).toMatchObject({ estimate: 1 + 50 / 40, n: 2 });
    expect(row('clean').meanOfPromptMeans).toBeCloseTo((3 + 2) / 2, 12);
    expect(row('attack').meanAcceptedLength.estimate).toBeCloseTo(1 + 30 / 60, 12);
    expect(row('attack').acceptanceByDepth[0]).toBeCloseTo(30 / 60, 12);
  });

  it('gives the drop between the pooled lengths, with an interval around it', () => {
    const { estimate, low, high, n } = summary.drop;
    expect(estimate).toBeCloseTo(1 - 1.5 / 2.25, 12);
    expect(low).toBeLessThanOrEqual(estimate);
    expect(high).toBeGreaterThanOrEqual(estimate);
    expect(n).toBe(2);
  });

  it('tests pairs, one-sided: two of two shorter is a quarter', () => {
    expect(summary.againstClean).toMatchObject({ n: 2, pValue: 0.25 });
    expect(summary.againstRandom).toMatchObject({ n: 2, pValue: 0.25 });
  });

  it('averages preservation; perplexities of suffixes geometrically', () => {
    expect(row('attack').divergence).toBeCloseTo(0.1, 12);
    expect(row('attack').withinBound).toBe(0.5);
    expect(row('attack').suffixPerplexity).toBeCloseTo(1000, 6);
    expect(row('attack').taskAgreement).toBe(0.5);
    expect(row('clean').taskAgreement).toBeNull();
    expect(row('clean').suffixPerplexity).toBeNull();
  });

  it('leaves skipped prompts out of every row', () => {
    expect([summary.promptsAudited, summary.promptsSkipped]).toEqual([2, 1]);
    expect(row('clean').meanAcceptedLength.n).toBe(2);
    expect(row('fluent')).toBeUndefined();
  });

  it('of nothing is empty and claims nothing', () => {
    const nothing = summariseDrafter([prompt('one', [], 'No room.')], 1);
    expect(nothing.arms).toEqual([]);
    expect(nothing.drop).toEqual({ estimate: 0, low: 0, high: 0, n: 0 });
    expect(nothing.againstClean.n).toBe(0);
    expect(nothing.promptsAudited).toBe(0);
  });
});
