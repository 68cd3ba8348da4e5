/** One suffix for many prompts: scores and gradients are averages, and a candidate must survive in every prompt. */
import type { Candidate } from './candidates.js';
import type { Scored, SuffixGradients } from './scoring.js';
import type { SuffixScorer } from './search.js';

export function combineScorers(scorers: readonly SuffixScorer[]): SuffixScorer {
  const count = scorers.length;
  return {
    async score(base: readonly number[], candidates: readonly Candidate[]): Promise<Scored[]> {
      const order = new Map(candidates.map((candidate, index) => [candidate.suffixIds, index]));
      const totals = candidates.map((candidate) => ({ ...candidate, degradation: 0, divergence: 0 }));
      for (const scorer of scorers) {
        for (const { suffixIds, degradation, divergence } of await scorer.score(base, candidates)) {
          const total = totals[order.get(suffixIds)!]!;
          total.degradation += degradation / count;
          total.divergence += divergence / count;
        }
      }
      return totals;
    },
    async differentiate(suffixIds: readonly number[]): Promise<SuffixGradients> {
      const all: SuffixGradients[] = [];
      for (const scorer of scorers) all.push(await scorer.differentiate(suffixIds));
      return {
        degradation: all.reduce((total, { degradation }) => total + degradation / count, 0),
        divergence: all.reduce((total, { divergence }) => total + divergence / count, 0),
        degradationGradient: average(all.map(({ degradationGradient }) => degradationGradient)),
        divergenceGradient: average(all.map(({ divergenceGradient }) => divergenceGradient)),
      };
    },
    async differentiatePositions(suffixIds: readonly number[]): Promise<Float32Array[]> {
      const all: Float32Array[] = [];
      for (const scorer of scorers) all.push(...(await scorer.differentiatePositions(suffixIds)));
      return all;
    },
    async keepRoundTrips(suffixes: readonly (readonly number[])[]): Promise<boolean[]> {
      const kept = suffixes.map(() => true);
      for (const scorer of scorers) {
        (await scorer.keepRoundTrips(suffixes)).forEach((survives, index) => (kept[index] &&= survives));
      }
      return kept;
    },
  };
}

function average(vectors: readonly Float32Array[]): Float32Array {
  const total = new Float32Array(vectors[0]!.length);
  for (const vector of vectors) vector.forEach((value, index) => (total[index]! += value / vectors.length));
  return total;
}
