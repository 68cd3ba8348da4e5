import type { StepRecord } from '../acceptance.js';

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
