/**
 * Question 2: is it unusual here? The rank of a request among the recent ones of the same model, route and kind of evidence.
 * Short requests vary more, so their means are drawn towards that of the baseline before ranking. `low` requests enter the
 * baseline like others, so that the share of benign requests below its quantile stays the configured one; collapsed
 * requests and those of suspected tenants do not. One tenant fills at most a quarter of the baseline.
 */
import type { Evidence, Speculation, Stream } from '../observation.js';
import { meanAcceptedLength } from '../observation.js';
import { RecentMap } from '../state/recent-map.js';

export interface Sample {
  readonly tenant: string;
  readonly steps: number;
  readonly accepted: number;
}

export interface Rank {
  /** Share of the baseline that is this low or lower, this request included. */
  readonly lowOrLower: number;
  /** One half on average for a request like those of the baseline. */
  readonly middle: number;
  readonly samples: number;
}

export interface SavedCell {
  readonly samples: readonly Sample[];
  readonly prior: number;
  readonly learned: number;
  readonly longChunks: number;
}

export interface Band {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

/** A request weighs as much as the baseline's mean when it has this many steps. */
const priorSteps = 8;
const refreshPriorEvery = 64;
const maxCells = 256;
const tenantShare = 0.25;
/** A stream whose chunks carried several tokens in this many requests sends one chunk per step. */
const minLongChunks = 3;
const longChunk = { steps: 8, length: 1.2 } as const;

export class Baselines {
  private readonly cells = new RecentMap<BaselineCell>(maxCells);
  /** Requests before the baseline can rank at the configured rate. */
  readonly minSamples: number;
  private readonly maxSamples: number;

  constructor(private readonly falseAlerts: number) {
    this.minSamples = Math.ceil(1 / falseAlerts) - 1;
    this.maxSamples = Math.max(1000, Math.ceil(4 / falseAlerts));
  }

  of(stream: Stream, evidence: Evidence): BaselineCell {
    return this.cells.getOrCreate(
      keyOf(stream, evidence),
      () => new BaselineCell(this.minSamples, this.maxSamples),
    );
  }

  isLow({ lowOrLower }: Rank): boolean {
    return lowOrLower <= this.falseAlerts;
  }

  /** The baseline with most samples for a stream. */
  largest({ model, route }: Stream): BaselineCell | undefined {
    const own = (['reported', 'derived', 'estimated'] as const).flatMap(
      (evidence) => this.cells.peek(keyOf({ model, route }, evidence)) ?? [],
    );
    return own.sort((left, right) => right.size - left.size)[0];
  }

  forget(model: string): void {
    for (const [key] of [...this.cells.entries()])
      if ((JSON.parse(key) as string[])[1] === model) this.cells.delete(key);
  }

  save(): readonly (readonly [string, SavedCell])[] {
    return [...this.cells.entries()].map(([key, cell]) => [key, cell.save()] as const);
  }

  restore(saved: readonly (readonly [string, SavedCell])[]): void {
    for (const [key] of [...this.cells.entries()]) this.cells.delete(key);
    for (const [key, cell] of saved)
      this.cells.set(key, new BaselineCell(this.minSamples, this.maxSamples, cell));
  }
}

const keyOf = ({ model, route }: Stream, evidence: Evidence): string =>
  JSON.stringify([evidence, model, route]);

export class BaselineCell {
  /** Oldest first. */
  private readonly samples: Sample[] = [];
  private readonly tenants = new Map<string, number>();
  /** Scores of all samples, ascending. */
  private scores: number[] = [];
  /** Accepted draft tokens per step that short requests are drawn towards. */
  private prior = 0;
  private learned = 0;
  private longChunks = 0;

  constructor(
    private readonly minSamples: number,
    private readonly maxSamples: number,
    saved?: SavedCell,
  ) {
    if (saved === undefined) return;
    for (const sample of saved.samples.slice(-maxSamples)) this.push(sample);
    const { prior, learned, longChunks } = saved;
    Object.assign(this, { prior, learned, longChunks });
    this.rescore();
  }

  get size(): number {
    return this.samples.length;
  }

  /** Whether chunks of this stream are known to be steps; asked of estimates only. */
  learnChunks(speculation: Speculation): boolean {
    const isLong =
      speculation.steps >= longChunk.steps && meanAcceptedLength(speculation) >= longChunk.length;
    if (isLong && this.longChunks < minLongChunks) this.longChunks += 1;
    return this.longChunks >= minLongChunks;
  }

  /** Undefined while there are too few samples. */
  rank(request: { readonly steps: number; readonly accepted: number }): Rank | undefined {
    const samples = this.samples.length;
    if (samples < this.minSamples) return undefined;
    const score = this.score(request);
    const below = countBelow(this.scores, score, false);
    const notAbove = countBelow(this.scores, score, true);
    return {
      lowOrLower: (notAbove + 1) / (samples + 1),
      middle: ((below + notAbove) / 2 + 0.5) / (samples + 1),
      samples,
    };
  }

  learn(sample: Sample): void {
    const { samples, maxSamples } = this;
    const isCapped = (this.tenants.get(sample.tenant) ?? 0) >= tenantShare * maxSamples;
    if (isCapped) this.drop(samples.findIndex(({ tenant }) => tenant === sample.tenant));
    else if (samples.length >= maxSamples) this.drop(0);
    this.push(sample);
    this.learned += 1;
    const score = this.score(sample);
    this.scores.splice(countBelow(this.scores, score, true), 0, score);
    if (this.learned % refreshPriorEvery !== 0 && this.learned > 8) return;
    const steps = samples.reduce((sum, each) => sum + each.steps, 0);
    this.prior = samples.reduce((sum, each) => sum + each.accepted, 0) / Math.max(1, steps);
    this.rescore();
  }

  /** 1 %, middle and 99 % of accepted lengths; null while too few are known. */
  band(): Band | null {
    if (this.samples.length < this.minSamples) return null;
    const lengths = this.samples.map(meanAcceptedLength).sort((left, right) => left - right);
    const at = (share: number): number => lengths[Math.floor(share * (lengths.length - 1))]!;
    return { low: at(0.01), middle: at(0.5), high: at(0.99) };
  }

  save(): SavedCell {
    const { samples, prior, learned, longChunks } = this;
    return { samples: [...samples], prior, learned, longChunks };
  }

  private push(sample: Sample): void {
    this.samples.push(sample);
    this.tenants.set(sample.tenant, (this.tenants.get(sample.tenant) ?? 0) + 1);
  }

  private drop(index: number): void {
    const [gone] = this.samples.splice(index, 1);
    const left = this.tenants.get(gone!.tenant)! - 1;
    if (left === 0) this.tenants.delete(gone!.tenant);
    else this.tenants.set(gone!.tenant, left);
    this.scores.splice(countBelow(this.scores, this.score(gone!), false), 1);
  }

  private rescore(): void {
    this.scores = this.samples.map((sample) => this.score(sample)).sort((left, right) => left - right);
  }

  private score({ steps, accepted }: { readonly steps: number; readonly accepted: number }): number {
    return (accepted + priorSteps * this.prior) / (steps + priorSteps);
  }
}

/** How many of the ascending values are below the given one, or equal to it where `orEqual`. */
function countBelow(values: readonly number[], value: number, orEqual: boolean): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const other = values[middle]!;
    if (other < value || (orEqual && other === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}
