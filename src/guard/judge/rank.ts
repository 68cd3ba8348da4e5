/**
 * Question 2: is it unusual here? The rank of a request among the recent ones of the same model, route and kind of evidence.
 * Short requests vary more, so their means are drawn towards that of the baseline before ranking. `low` requests enter the
 * baseline, so that the share of benign requests below its quantile stays the configured one; collapsed ones do not.
 */
import { type Evidence, type Speculation, type Stream, meanAcceptedLength } from '../observation.js';
import { RecentMap } from '../state/recent-map.js';

type Counts = Pick<Speculation, 'steps' | 'accepted'>;

export interface Sample extends Counts {
  readonly tenant: string;
}

export type Rank = NonNullable<ReturnType<BaselineCell['rank']>>;

/** 1 %, median and 99 % of accepted lengths. */
export interface Band {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

export interface StreamBaseline extends Stream {
  /** Null while there are too few samples. */
  readonly baseline: Band | null;
  readonly learned: number;
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

  of({ model, route }: Stream, evidence: Evidence): BaselineCell {
    const key = `${evidence}\n${route}\n${model}`;
    return this.cells.getOrCreate(key, () => this.create());
  }

  isLow({ lowOrLower }: Rank): boolean {
    return lowOrLower <= this.falseAlerts;
  }

  /** Of each stream the baseline with most samples. */
  list(): readonly StreamBaseline[] {
    const largest = new Map<string, StreamBaseline>();
    for (const [key, cell] of this.cells.entries()) {
      const [, route = '', ...rest] = key.split('\n');
      const model = rest.join('\n');
      const learned = cell.size;
      const known = largest.get(model + route);
      if (known === undefined || learned > known.learned)
        largest.set(model + route, { model, route, baseline: cell.band(), learned });
    }
    return [...largest.values()];
  }

  save() {
    return [...this.cells.entries()].map(([key, cell]) => [key, cell.save()] as const);
  }

  restore(saved: ReturnType<Baselines['save']>): void {
    this.cells.replace(saved.map(([key, cell]) => [key, this.create().restore(cell)]));
  }

  private create(): BaselineCell {
    return new BaselineCell(this.minSamples, this.maxSamples);
  }
}

class BaselineCell {
  /** Oldest first. */
  private samples: Sample[] = [];
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
  ) {}

  get size(): number {
    return this.samples.length;
  }

  /** Whether chunks of this stream are known to be steps; asked of estimates only. */
  learnChunks(speculation: Counts): boolean {
    const isLong =
      speculation.steps >= longChunk.steps && meanAcceptedLength(speculation) >= longChunk.length;
    if (isLong && this.longChunks < minLongChunks) this.longChunks += 1;
    return this.longChunks >= minLongChunks;
  }

  /** Undefined while there are too few samples. */
  rank(request: Counts) {
    const samples = this.samples.length;
    if (samples < this.minSamples) return undefined;
    const score = this.score(request);
    const below = countBelow(this.scores, score, false);
    const notAbove = countBelow(this.scores, score, true);
    return {
      /** Share of the baseline that is this low or lower, this request included. */
      lowOrLower: (notAbove + 1) / (samples + 1),
      /** One half on average for a request like those of the baseline. */
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

  band(): Band | null {
    if (this.samples.length < this.minSamples) return null;
    const lengths = this.samples.map(meanAcceptedLength).sort((left, right) => left - right);
    const at = (share: number): number => lengths[Math.floor(share * (lengths.length - 1))]!;
    return { low: at(0.01), middle: at(0.5), high: at(0.99) };
  }

  save() {
    const { samples, prior, learned, longChunks } = this;
    return { samples, prior, learned, longChunks };
  }

  restore({ samples, prior, learned, longChunks }: ReturnType<BaselineCell['save']>): this {
    for (const sample of samples.slice(-this.maxSamples)) this.push(sample);
    Object.assign(this, { prior, learned, longChunks });
    this.rescore();
    return this;
  }

  private push(sample: Sample): void {
    this.samples.push(sample);
    this.tenants.set(sample.tenant, (this.tenants.get(sample.tenant) ?? 0) + 1);
  }

  private drop(index: number): void {
    const [gone] = this.samples.splice(index, 1) as [Sample];
    const left = this.tenants.get(gone.tenant)! - 1;
    if (left === 0) this.tenants.delete(gone.tenant);
    else this.tenants.set(gone.tenant, left);
    this.scores.splice(countBelow(this.scores, this.score(gone), false), 1);
  }

  private rescore(): void {
    this.scores = this.samples.map((sample) => this.score(sample)).sort((left, right) => left - right);
  }

  private score({ steps, accepted }: Counts): number {
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
