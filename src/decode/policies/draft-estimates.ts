import type { StepRecord } from '../acceptance.js';
import { MistletoeError } from '../../core/errors.js';

/**
 * Expected accepted draft tokens of a chain. Each depth has a rate: the share of drafts accepted there of those that
 * reached it. Recent steps count most; the long-term rate fills in where they are few, then the rate of the level
 * above.
 */
const recentDecay = 0.98;
const longDecay = 0.998;
/** Prior weights in steps: of the long-term rate, and of the level above. */
const longWeight = 8;
const levelWeight = 4;
/** Acceptance at the first level before any step. */
const initialRate = 0.6;

interface Tally {
  /** [level] Decaying counts. */
  readonly tried: number[];
  readonly accepted: number[];
}

export class DraftAcceptance {
  private readonly recent: Tally = { tried: [], accepted: [] };
  private readonly long: Tally = { tried: [], accepted: [] };
  /** Decaying counts of steps that asked for a draft and got one. */
  private readonly proposals = { asked: 1, made: 1 };

  get proposalRate(): number {
    return this.proposals.made / this.proposals.asked;
  }

  learn({ accepted, depth }: StepRecord): void {
    this.proposals.asked = this.proposals.asked * recentDecay + 1;
    this.proposals.made = this.proposals.made * recentDecay + Number(depth > 0);
    for (let level = 0; level < Math.min(accepted + 1, depth); level++) {
      count(this.recent, level, accepted > level, recentDecay);
      count(this.long, level, accepted > level, longDecay);
    }
  }

  fade(share: number): void {
    for (const counts of [this.recent.tried, this.recent.accepted])
      counts.forEach((value, level) => (counts[level] = value * share));
  }

  expect(length: number): number {
    let [longRate, survival, tokens] = [initialRate, this.proposalRate, 0];
    for (let level = 0; level < length; level++) {
      longRate = rateOf(this.long, level, longRate, levelWeight);
      survival *= rateOf(this.recent, level, longRate, longWeight);
      tokens += survival;
    }
    return tokens;
  }
}

function count({ tried, accepted }: Tally, level: number, isAccepted: boolean, decay: number): void {
  tried[level] = (tried[level] ?? 0) * decay + 1;
  accepted[level] = (accepted[level] ?? 0) * decay + Number(isAccepted);
}

/** A rate with a prior that counts like `weight` steps. */
function rateOf({ tried, accepted }: Tally, level: number, prior: number, weight: number): number {
  return ((accepted[level] ?? 0) + prior * weight) / ((tried[level] ?? 0) + weight);
}

/**
 * The time of a step by its rows, for one range of batch sizes: pace x relative cost of the rows. The pace changes
 * all the time (longer contexts, other processes); the rows in use set it. Other numbers of rows are measured against
 * it in trials. Without a measurement, they follow the expected shape, scaled by the nearest measurements.
 */
const paceWindow = 7;
const minPaces = 3;
const costWindow = 15;

export class StepCosts {
  private readonly paces: number[] = [];
  /** [rows] Measured over expected relative cost. */
  private readonly ratios = new Map<number, number[]>();

  private readonly fitted = new Map<number, number>();

  /** @param expect the relative cost of a step by its rows, before any measurement */
  constructor(private readonly expect: (rows: number) => number) {}

  /** Milliseconds for a relative cost of 1; undefined until a few steps have shown it. */
  get pace(): number | undefined {
    return this.paces.length < minPaces ? undefined : median(this.paces);
  }

  get isMeasured(): boolean {
    return this.ratios.size > 0;
  }

  /** Steps of other contexts take other times. */
  forgetPace(share: number): void {
    this.paces.splice(0, Math.ceil(this.paces.length * share));
  }

  countSamples(rows: number): number {
    return this.ratios.get(rows)?.length ?? 0;
  }

  costOf(rows: number): number {
    const cost = this.fitted.get(rows) ?? this.expect(rows) * this.interpolateRatio(rows);
    this.fitted.set(rows, cost);
    return cost;
  }

  learn(rows: number, ms: number, isTrial: boolean): void {
    if (!(ms > 0)) return;
    const { pace } = this;
    if (!this.isMeasured) this.ratios.set(rows, [1]);
    if (pace !== undefined && (isTrial || !this.ratios.has(rows))) {
      const samples = this.ratios.get(rows) ?? [];
      this.ratios.set(rows, samples);
      pushWithin(costWindow, samples, ms / pace / this.expect(rows));
      this.fitted.clear();
    } else pushWithin(paceWindow, this.paces, ms / this.costOf(rows));
  }

  /** Linear between measured numbers of rows, constant beyond them. */
  private interpolateRatio(rows: number): number {
    const known = [...this.ratios.keys()].sort((left, right) => left - right);
    const ratioAt = (count: number | undefined): number | undefined =>
      count === undefined ? undefined : median(this.ratios.get(count)!);
    const lower = known.findLast((count) => count <= rows);
    const upper = known.find((count) => count >= rows);
    const [low, high] = [ratioAt(lower), ratioAt(upper)];
    if (low === undefined || high === undefined || lower === upper) return low ?? high ?? 1;
    return low + ((rows - lower!) / (upper! - lower!)) * (high - low);
  }
}

function pushWithin(length: number, window: number[], value: number): void {
  window.push(value);
  if (window.length > length) window.shift();
}

/** The lower one of two: interruptions only make a step slower. */
export function median(values: readonly number[]): number | undefined {
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
