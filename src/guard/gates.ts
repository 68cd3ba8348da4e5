/**
 * What engines do by themselves when drafts fail, rebuilt to be compared with. Both look at averages over whoever is being
 * served, so one tenant decides about all.
 *
 * TensorRT-LLM's speculation gate: a rolling mean over the last completed requests (of accepted draft tokens a step), or
 * in later versions over the last iterations (of the acceptance rate of the batch); once it falls below the threshold,
 * speculation is off for the whole server until it is restarted.
 *
 * SGLang's adaptive steps: an exponential mean of accepted draft tokens over batches; every few batches the draft length
 * moves along a list of tiers. Reversible, but again for the whole batch.
 */
import { MistletoeError } from '../core/errors.js';

/** Off once and for all. */
export class OneWayGate {
  private readonly samples: number[] = [];
  private sum = 0;
  private off = false;

  constructor(
    private readonly window: number,
    private readonly threshold: number,
  ) {
    if (!Number.isInteger(window) || window < 1 || !(threshold >= 0)) {
      throw new MistletoeError(
        'usage',
        `The gate has a window of ${window} and a threshold of ${threshold}; a whole number from 1 and a number from 0 were expected.`,
      );
    }
  }

  get isOff(): boolean {
    return this.off;
  }

  /** The first version hears of completed requests: tokens a step, the bonus token included. */
  complete(meanAcceptedLength: number): void {
    this.hear(Math.max(0, meanAcceptedLength - 1));
  }

  /** The second version hears of iterations: accepted over proposed draft tokens of the batch. */
  iterate(accepted: number, proposed: number): void {
    if (proposed > 0) this.hear(accepted / proposed);
  }

  private hear(sample: number): void {
    if (this.off) return;
    this.samples.push(sample);
    this.sum += sample;
    if (this.samples.length > this.window) this.sum -= this.samples.shift()!;
    if (this.samples.length === this.window && this.sum / this.window < this.threshold) this.off = true;
  }
}

export interface TierOptions {
  readonly tiers?: readonly number[];
  readonly smoothing?: number;
  readonly warmupBatches?: number;
  readonly updateEvery?: number;
  /** Added to the mean at which the next tier down or up is taken. */
  readonly downHysteresis?: number;
  readonly upHysteresis?: number;
}

/** One draft length for everybody in the batch. */
export class BatchTiers {
  private readonly options: Required<TierOptions>;
  private tier: number;
  private mean: number;
  private batches = 0;

  constructor(options: TierOptions = {}) {
    this.options = {
      ...{ tiers: [1, 3, 7], smoothing: 0.2, warmupBatches: 10, updateEvery: 5 },
      ...{ downHysteresis: -0.25, upHysteresis: 0 },
      ...options,
    };
    this.tier = Math.floor(this.options.tiers.length / 2);
    this.mean = this.draftLength - 1;
  }

  get draftLength(): number {
    return this.options.tiers[this.tier]!;
  }

  /** Accepted draft tokens of each sequence of a batch. */
  iterate(accepted: readonly number[]): void {
    if (accepted.length === 0) return;
    const { tiers, smoothing, warmupBatches, updateEvery, downHysteresis, upHysteresis } = this.options;
    const average = accepted.reduce((sum, count) => sum + count, 0) / accepted.length;
    this.mean += smoothing * (average - this.mean);
    this.batches += 1;
    const since = this.batches - warmupBatches;
    if (since <= 0 || since % updateEvery !== 0) return;
    const before = this.tier;
    while (this.tier > 0 && this.mean <= tiers[this.tier - 1]! - 0.5 + downHysteresis) this.tier -= 1;
    if (this.tier < before) return;
    while (this.tier < tiers.length - 1 && this.mean > this.draftLength - 0.5 + upHysteresis) this.tier += 1;
  }
}
