import type { StepRecord } from '../acceptance.js';
import { MistletoeError } from '../../core/errors.js';
import { LevelRates } from '../../draft/level-rates.js';

/**
 * Expected accepted draft tokens of a chain. Each depth has a rate: the share of drafts accepted there of those that
 * reached it. Recent steps count most; the long-term rate fills in where they are few, then the rate of the level
 * above.
 */
const recentDecay = 0.98;
const longDecay = 0.998;
/** Prior weight of the long-term rate, in steps. */
const longWeight = 8;

export class DraftAcceptance {
  private readonly recent = new LevelRates(recentDecay);
  private readonly long = new LevelRates(longDecay);
  /** Decaying counts of steps that asked for a draft and got one. */
  private readonly proposals = { asked: 1, made: 1 };

  get proposalRate(): number {
    return this.proposals.made / this.proposals.asked;
  }

  learn({ accepted, depth }: StepRecord): void {
    this.proposals.asked = this.proposals.asked * recentDecay + 1;
    this.proposals.made = this.proposals.made * recentDecay + Number(depth > 0);
    for (let level = 0; level < Math.min(accepted + 1, depth); level++) {
      this.recent.count(level, Number(accepted > level));
      this.long.count(level, Number(accepted > level));
    }
  }

  fade(share: number): void {
    this.recent.fade(share);
  }

  expect(length: number): number {
    let [survival, tokens] = [this.proposalRate, 0];
    for (const [level, longRate] of this.long.listRates(length).entries()) {
      survival *= this.recent.rateOf(level, longRate, longWeight);
      tokens += survival;
    }
    return tokens;
  }
}

/** Of an even number, the lower one in the middle: interruptions only make a step slower. */
export function lowerMedian(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}

// Evidence that values in [0, 1] have a mean below a floor, as a factor that may be read after every value.
// For any alternative a below the floor m, each value x multiplies the factor by
//   (a / m)^x ((1 - a) / (1 - m))^(1 - x)
// which for x in {0, 1} is the likelihood ratio of two coins. It is convex in x, so its expectation is at most that of its
// chord between 0 and 1, and the chord falls in x and is 1 at x = m. Hence as long as each value, given all before it,
// has a mean of at least m, the product never grows on average: it is a supermartingale that starts at 1, whatever the
// values' distribution and however they depend on each other. By Ville's inequality its supremum reaches 1 / level
// with a probability of at most `level`: one may stop at any time, for any reason. (The bets of Waudby-Smith and Ramdas,
// arXiv 2010.09686, are the chord itself; the power is a little smaller, but needs nothing of the values but number and
// sum, so that totals of a finished request say the same as its steps.) A mean over several alternatives is again such
// a process and needs no guess of how deep a fall will be.
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
}

/** Keeps sums of factors finite. */
const maxLog = 600;
