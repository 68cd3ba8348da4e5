/** Log probabilities of tokens under the target, before temperature, top-k and top-p. */
import { topIndices } from '../core/vector.js';
import type { ForwardOutput, ForwardResult } from '../model/forward.js';

export interface TokenLikelihood {
  readonly logprob: number;
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

export interface LikelihoodReader {
  readonly want: readonly ForwardOutput[];
  /** Of the token after a row; undefined if not requested. */
  read(result: ForwardResult, row: number, id: number): TokenLikelihood | undefined;
}

const silent: LikelihoodReader = { want: [], read: () => undefined };

export function createLikelihoodReader(
  topCount: number | undefined,
  vocabularySize: number,
): LikelihoodReader {
  if (topCount === undefined) return silent;
  return {
    want: ['logits'],
    read: ({ logits }, row, id) =>
      scoreToken(logits!.subarray(row * vocabularySize, (row + 1) * vocabularySize), id, topCount),
  };
}

export function scoreToken(
  logits: Float32Array, // [vocabulary]
  id: number,
  topCount: number,
): TokenLikelihood {
  let most = -Infinity;
  for (const logit of logits) most = Math.max(most, logit);
  let mass = 0;
  for (const logit of logits) mass += Math.exp(logit - most);
  const base = most + Math.log(mass);
  const top = Array.from(topIndices(logits, topCount), (index) => ({
    id: index,
    logprob: logits[index]! - base,
  }));
  return { logprob: logits[id]! - base, top };
}
