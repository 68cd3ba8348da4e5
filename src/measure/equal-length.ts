/**
 * Two decodings compared over equally many tokens. A suffix may shorten an answer or draw it out, and accepted
 * lengths change along an answer, so whole answers of different lengths do not compare.
 */
import { MistletoeError } from '../core/errors.js';

export interface StepCount {
  /** Verification steps; the prefill, which gives the first token, is none. */
  readonly passes: number;
  /** Tokens behind the first for each pass: 1, what plain decoding has, where there was none. */
  readonly acceptedLength: number;
}

/**
 * What the first tokens of an answer took, given the accepted lengths of its steps in their order. A step that runs
 * past the last of these tokens is one whole pass. Of more tokens than there are, those that are there count.
 */
export function countSteps(acceptedLengths: readonly number[], tokens: number): StepCount {
  checkWhole(tokens, 0, 'The number of tokens to compare');
  let passes = 0;
  let reached = 1;
  for (const length of acceptedLengths) {
    if (reached >= tokens) break;
    checkWhole(length, 1, `The accepted length of step ${passes}`);
    reached += length;
    passes++;
  }
  const counted = Math.min(tokens, reached);
  return { passes, acceptedLength: passes === 0 ? 1 : (counted - 1) / passes };
}

function checkWhole(value: number, least: number, name: string): void {
  if (Number.isInteger(value) && value >= least) return;
  throw new MistletoeError('usage', `${name} is ${value}; expected a whole number of at least ${least}.`, {
    hint: 'Pass the accepted lengths of one answer, each with its bonus token, and a count of tokens.',
  });
}
