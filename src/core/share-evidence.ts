/**
 * Evidence that values in [0, 1] have a mean below a floor, as a factor that may be read after every value.
 *
 * For any alternative a below the floor m, each value x multiplies the factor by
 *
 *   (a / m)^x ((1 - a) / (1 - m))^(1 - x)
 *
 * which for x in {0, 1} is the likelihood ratio of two coins. It is convex in x, so its expectation is at most that of its
 * chord between 0 and 1, and the chord falls in x and is 1 at x = m. Hence as long as each value, given all before it,
 * has a mean of at least m, the product never grows on average: it is a supermartingale that starts at 1, whatever the
 * values' distribution and however they depend on each other. By Ville's inequality its supremum reaches 1 / level
 * with a probability of at most `level`: one may stop at any time, for any reason. (The bets of Waudby-Smith and Ramdas,
 * arXiv 2010.09686, are the chord itself; the power is a little smaller, but needs nothing of the values but number and
 * sum, so that totals of a finished request say the same as its steps.) A mean over several alternatives is again such
 * a process and needs no guess of how deep a fall will be.
 */
import { MistletoeError } from './errors.js';

/** Alternatives as fractions of the floor. */
const alternatives = [0.05, 0.25, 0.5, 0.75];
/** Keeps the logarithms finite. */
const minFloor = 1e-6;
const maxFloor = 1 - 1e-6;

export class ShareEvidence {
  /** What a value adds to the logarithm: [alternative] for x = 0, and what x = 1 adds beyond that. */
  private readonly base: readonly number[];
  private readonly slope: readonly number[];

  /** No mean is below a floor of 0, so the evidence stays 1. */
  constructor(readonly floor: number) {
    if (!(floor >= 0 && floor <= 1)) {
      throw new MistletoeError('usage', `The floor of a share is ${floor}; 0 to 1 was expected.`);
    }
    const mean = Math.min(floor, maxFloor);
    const parts = floor < minFloor ? [] : alternatives;
    this.base = parts.map((part) => Math.log((1 - part * mean) / (1 - mean)));
    this.slope = parts.map((part, index) => Math.log(part) - this.base[index]!);
  }

  /** The factor after `count` values that add up to `total`. */
  value(count: number, total: number): number {
    if (this.base.length === 0) return 1;
    let sum = 0;
    for (let index = 0; index < this.base.length; index++)
      sum += Math.exp(Math.min(count * this.base[index]! + total * this.slope[index]!, maxLog));
    return sum / this.base.length;
  }

  /** Whether the factor may be above 1: cheaper than the factor, which most of the time is not. */
  isAboveOne(count: number, total: number): boolean {
    for (let index = 0; index < this.base.length; index++)
      if (count * this.base[index]! + total * this.slope[index]! > 0) return true;
    return false;
  }
}

/** Keeps sums of factors finite. */
const maxLog = 600;
