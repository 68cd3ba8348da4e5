/** Tail probabilities of the tenant tests. */

/** Probability of `count` or more among `requests` where each has the given probability. */
export function binomialTail(count: number, requests: number, probability: number): number {
  let term = (1 - probability) ** requests;
  let below = 0;
  for (let index = 0; index < count; index++) {
    below += term;
    term *= ((requests - index) / (index + 1)) * (probability / (1 - probability));
  }
  // Far in the tail the difference from 1 has no digits left, so the terms are added instead.
  if (below < 0.99) return 1 - below;
  let tail = 0;
  for (let index = count; index <= requests && term > 0; index++) {
    tail += term;
    term *= ((requests - index) / (index + 1)) * (probability / (1 - probability));
  }
  return tail;
}

/** Probability that a standard normal value exceeds z. */
export function normalTail(z: number): number {
  if (z < 0) return 1 - normalTail(-z);
  // The continued fraction of the Mills ratio converges slowly near 0, where no test decides anything.
  if (z < 0.5) return 0.5 - 0.383 * z;
  let fraction = z;
  for (let depth = 60; depth >= 1; depth--) fraction = z + depth / fraction;
  return Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI) / fraction;
}
