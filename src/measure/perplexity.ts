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
