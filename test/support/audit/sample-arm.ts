/** One measured arm of one prompt from the few numbers that a test is about. */
import type { KeptClass } from '../../../src/measure/kept-class.js';
import type { ArmName, ArmResult, PromptResult } from '../../../src/audit/result.js';

export interface SampleNumbers {
  readonly steps: number;
  readonly accepted: number;
  readonly repeat?: number;
  readonly divergence?: number;
  readonly suffixPerplexity?: number | null;
  readonly kept?: KeptClass;
  readonly withoutSuffix?: string | null;
  readonly passes?: readonly [own: number, clean: number];
}

export function sampleArm(name: ArmName, numbers: SampleNumbers): ArmResult {
  const {
    steps,
    accepted,
    repeat = 1,
    divergence = 0,
    suffixPerplexity = null,
    kept = 'identical',
  } = numbers;
  const [passes, cleanPasses] = numbers.passes ?? [10, 10];
  const acceptance = {
    ...{ steps, accepted, proposed: steps, emitted: steps + accepted },
    meanAcceptedLength: 1 + accepted / steps,
    acceptanceByDepth: [accepted / steps],
    // Chains of one: a step accepts its draft or does not.
    histogram: [Math.max(0, steps - accepted), accepted],
  };
  return {
    arm: name,
    repeat,
    suffix: '',
    suffixIds: [],
    withoutSuffix: numbers.withoutSuffix ?? null,
    sameAnswer: { ...acceptance, origins: '' },
    answer: { text: '', tokenIds: [1, 2, 3], pieces: [], origins: '', finishReason: 'length' },
    freeRunning: acceptance,
    compared: { tokens: 20, passes, cleanPasses },
    preservation: {
      ...{ divergence, suffixPerplexity, kept, firstDifference: 5, editSimilarity: 0.8 },
      ...{ answerPerplexity: 2, repetition: 0, withinBound: divergence <= 0.1 },
    },
    slowOther: null,
  };
}

export const samplePrompt = (
  id: string,
  arms: readonly ArmResult[],
  skipped: string | null = null,
): PromptResult => ({
  ...{ promptId: id, category: null, prompt: id, skipped, arms, traces: [] },
});
