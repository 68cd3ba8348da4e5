/**
 * The accepted length on held-out texts without decoding. The texts are the target's greedy answers, so a draft token
 * is accepted exactly if it is the text's token, and a chain drafted along accepted tokens is the graph's draft
 * there. Walking an answer this way is greedy decoding with a chain, step by step. For sampled or given answers it is
 * an estimate.
 */
import type { StepCounts } from '../../measure/step-counts.js';
import type { TextBatch } from '../data/text-batch.js';
import type { Trainer } from './trainer.js';
import type { Pair } from './training-graph.js';

export interface HeldOutLength extends StepCounts {
  /** [level] how many steps accepted the draft up to this level. */
  readonly reached: readonly number[];
}

export function addLengths(left: HeldOutLength, right: HeldOutLength): HeldOutLength {
  return {
    steps: left.steps + right.steps,
    accepted: left.accepted + right.accepted,
    reached: left.reached.map((count, level) => count + right.reached[level]!),
  };
}

export async function measureLength(
  { pair, trainer }: { readonly pair: Pair; readonly trainer: Trainer },
  batches: readonly TextBatch[],
  chain: number,
): Promise<HeldOutLength> {
  const targetTokens = pair.drafter.graph?.targetTokens;
  let sum: HeldOutLength = { steps: 0, accepted: 0, reached: new Array<number>(chain).fill(0) };
  for (const batch of batches) {
    const choices = await trainer.choose(batch, chain);
    const tokens =
      targetTokens === undefined
        ? choices
        : choices.map((level) => level.map((place) => targetTokens[place]!));
    sum = addLengths(sum, walkAnswers(batch, tokens));
  }
  return sum;
}

/** `choices`: [level] most likely target token of each draft row. [batch, position - 2 - level] */
export function walkAnswers(
  { tokens, weights, shape: [, length], texts }: TextBatch,
  choices: readonly Int32Array[],
): HeldOutLength {
  const reached = choices.map(() => 0);
  let [steps, accepted] = [0, 0];
  for (const { row, start, length: own } of texts) {
    const beginning = row * length + start;
    for (const { first, end } of listAnswers(weights.subarray(beginning, beginning + own))) {
      // The prefill gives the first token. The draft after `root` is in the row before it.
      for (let root = Math.max(first, 1); root < end - 1;) {
        let kept = 0;
        const isHit = (level: number): boolean => {
          const width = length - 2 - level;
          return choices[level]![row * width + start + root - 1] === tokens[beginning + root + 1 + level];
        };
        while (kept < choices.length && root + 1 + kept < end && isHit(kept)) reached[kept++]! += 1;
        steps += 1;
        accepted += kept;
        root += kept + 1;
      }
    }
  }
  return { steps, accepted, reached };
}

function listAnswers(weights: Float32Array): { readonly first: number; readonly end: number }[] {
  const answers: { first: number; end: number }[] = [];
  for (let position = 0; position < weights.length; position++) {
    if (weights[position] === 0) continue;
    const first = position;
    while (position < weights.length && weights[position] !== 0) position += 1;
    answers.push({ first, end: position });
  }
  return answers;
}
