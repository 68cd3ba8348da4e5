/** Measures of answers, token by token: perplexity, repetition, steps over equal lengths, similarity. */
import { logSumExp } from '../core/vector.js';

/** exp of the mean surprisal of a continuation. */
export function perplexityOf(
  logits: Float32Array, // [continuation, vocabulary] row i predicts token i
  continuation: readonly number[],
): number {
  const width = logits.length / continuation.length;
  const total = continuation.reduce((sum, token, row) => {
    const scores = logits.subarray(row * width, (row + 1) * width);
    return sum + logSumExp(scores) - scores[token]!;
  }, 0);
  return Math.exp(total / continuation.length);
}

/** Share of repeated n-grams, 1 - distinct / total; Rep-4 by default. 0 for a text shorter than one n-gram. */
export function repetitionShare(tokens: readonly number[], size = 4): number {
  const total = tokens.length - size + 1;
  if (total <= 0) return 0;
  const distinct = new Set<string>();
  for (let start = 0; start < total; start++) distinct.add(tokens.slice(start, start + size).join(' '));
  return 1 - distinct.size / total;
}

/**
 * The verification passes of the first tokens of an answer, given the accepted lengths of all its steps. A suffix may
 * shorten or lengthen an answer, and accepted lengths change along it, so answers are compared over equally many tokens.
 * The prefill gives the first token. A step that runs past the last of these tokens counts as one pass; a shorter
 * answer counts whole.
 */
export function countPasses(acceptedLengths: readonly number[], tokens: number): number {
  let passes = 0;
  let reached = 1;
  for (const length of acceptedLengths) {
    if (reached >= tokens) break;
    reached += length;
    passes++;
  }
  return passes;
}

/** Length of the common prefix. */
export function firstDifference(left: readonly number[], right: readonly number[]): number {
  const shorter = Math.min(left.length, right.length);
  let index = 0;
  while (index < shorter && left[index] === right[index]) index++;
  return index;
}

/** 1 - Levenshtein distance / longer length; 1 for two empty sequences. */
export function editSimilarity(left: readonly number[], right: readonly number[]): number {
  const longer = Math.max(left.length, right.length);
  return longer === 0 ? 1 : 1 - editDistance(left, right) / longer;
}

function editDistance(left: readonly number[], right: readonly number[]): number {
  let previous = Uint32Array.from({ length: right.length + 1 }, (_, column) => column);
  let current = new Uint32Array(right.length + 1);
  for (let row = 1; row <= left.length; row++) {
    current[0] = row;
    for (let column = 1; column <= right.length; column++) {
      const replaced = previous[column - 1]! + (left[row - 1] === right[column - 1] ? 0 : 1);
      current[column] = Math.min(replaced, previous[column]! + 1, current[column - 1]! + 1);
    }
    [previous, current] = [current, previous];
  }
  return previous[right.length]!;
}

/** Positions of the right side that are not part of a longest common subsequence. */
export function findAdded(left: readonly number[], right: readonly number[]): ReadonlySet<number> {
  const skipsLeft = chooseSkips(left, right);
  const added = new Set(right.keys());
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) {
      added.delete(j);
      i++;
      j++;
    } else if (skipsLeft[i * right.length + j] === 1) i++;
    else j++;
  }
  return added;
}

/** [left, right] 1 where dropping the left token keeps the longest common rest. */
function chooseSkips(left: readonly number[], right: readonly number[]): Uint8Array {
  const width = right.length;
  const skipsLeft = new Uint8Array(left.length * width);
  // [column]: length of the longest common subsequence of the rests, for the row below and for this one.
  let below = new Uint32Array(width + 1);
  let current = new Uint32Array(width + 1);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = width - 1; j >= 0; j--) {
      const withoutLeft = below[j]!;
      const withoutRight = current[j + 1]!;
      if (withoutLeft >= withoutRight) skipsLeft[i * width + j] = 1;
      current[j] = left[i] === right[j] ? below[j + 1]! + 1 : Math.max(withoutLeft, withoutRight);
    }
    [below, current] = [current, below];
  }
  return skipsLeft;
}
