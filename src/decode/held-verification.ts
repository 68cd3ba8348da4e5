/**
 * Verification along an answer that is given beforehand. At temperature 0 a draft token counts as accepted if it is the
 * answer's. Above it the question is how likely the token, which is known to come out, came out through an accepted
 * draft: min(p, q) / p = min(1, q / p), where p is the target's and q the drafter's probability of it. Over answers
 * drawn from the target both give the accepted lengths that decoding freely gives.
 */
import type { Random } from '../core/random.js';
import type { TokenTree } from '../draft/token-tree.js';
import type { TargetDistribution } from './node-chances.js';

/** The path whose tokens are the given ones, as far as the tree has it. */
export function followTokens({ tokens, parents }: TokenTree, answer: readonly number[]): number[] {
  const path: number[] = [];
  for (let node = 1; node < tokens.length && path.length < answer.length; node++) {
    if (parents[node] === (path.at(-1) ?? 0) && tokens[node] === answer[path.length]) path.push(node);
  }
  return path;
}

/** For a chain that was drafted along the answer, with the drafter's distributions. */
export function followDrawn(
  { tokens, draftDistributions }: TokenTree,
  targetDistribution: TargetDistribution,
  random: Random,
): number[] {
  const path: number[] = [];
  for (let node = 1; node < tokens.length; node++) {
    const token = tokens[node]!;
    const targetProbability = targetDistribution(node - 1)[token]!;
    const draftProbability = draftDistributions[node - 1]![token]!;
    if (random.next() * targetProbability >= draftProbability) break;
    path.push(node);
  }
  return path;
}
