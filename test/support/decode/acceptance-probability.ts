/** sum min(p, q) = 1 - total variation: the probability that one drawn draft token is accepted. */
export function acceptanceProbability(
  targetDistribution: Float32Array,
  draftDistribution: Float32Array,
): number {
  const { length } = targetDistribution;
  let overlap = 0;
  for (let token = 0; token < length; token++)
    overlap += Math.min(targetDistribution[token]!, draftDistribution[token]!);
  return overlap;
}
