/**
 * The time of a step, for one range of batch sizes: pace x relative cost. The pace changes all the time (longer
 * contexts, other processes). The relative cost of each kind of step is the expected one times a line over the rows
 * that the target reads, fitted to measured steps; so a few of them tell about all numbers of rows. A step is measured
 * against the pace of the steps before it, if it is a trial or unlike them.
 */
import { lowerMedian } from './draft-estimates.js';

/** Without a drafter, with its chains, and with its trees. */
export type StepKind = 'read' | 'chain' | 'tree';

const paceWindow = 7;
const minPaces = 3;
const costWindow = 15;
/** In samples times squared rows: with few samples, a kind costs a constant multiple of what was expected. */
const flatWeight = 12;
const minShare = 0.1;

interface Point {
  readonly rows: number;
  /** Measured over expected cost. */
  readonly ratio: number;
  readonly samples: number;
}

/** Measured over expected cost by rows. */
interface Line {
  readonly mean: number;
  readonly meanRows: number;
  readonly slope: number;
}

export class StepCosts {
  private readonly paces: number[] = [];
  /** [kind][rows] Measured over expected cost. */
  private readonly ratios = new Map<StepKind, Map<number, number[]>>();
  /** [kind][rows] */
  private readonly points = new Map<StepKind, Map<number, Point>>();
  /** [kind] Lines through the points; for kinds without any, that of all points. */
  private readonly lines = new Map<StepKind, Line>();
  private previous: string | undefined;

  /** @param expect the relative cost before any measurement */
  constructor(private readonly expect: (kind: StepKind, rows: number) => number) {}

  /** Milliseconds for a relative cost of 1; undefined until a few steps have shown it. */
  get pace(): number | undefined {
    return this.paces.length < minPaces ? undefined : lowerMedian(this.paces);
  }

  get isMeasured(): boolean {
    return this.points.size > 0;
  }

  /** Steps of other contexts take other times. */
  forgetPace(share: number): void {
    this.paces.splice(0, Math.ceil(this.paces.length * share));
  }

  countSamples(kind: StepKind, rows: number): number {
    return this.samplesOf(kind).get(rows)?.length ?? 0;
  }

  costOf(kind: StepKind, rows: number): number {
    const { mean, meanRows, slope } = this.lineOf(kind);
    return this.expect(kind, rows) * Math.max(minShare * mean, mean + slope * (rows - meanRows));
  }

  learn(kind: StepKind, rows: number, ms: number, isTrial: boolean): void {
    if (!(ms > 0)) return;
    const { pace } = this;
    const samples = this.samplesOf(kind);
    const step = `${kind} ${rows}`;
    const isUnlike = step !== this.previous || !samples.has(rows);
    this.previous = step;
    if (!this.isMeasured) this.add(kind, rows, 1, true);
    const isMeasure = pace !== undefined && (isTrial || isUnlike);
    if (!isMeasure || (!isTrial && samples.has(rows)))
      pushWithin(paceWindow, this.paces, ms / this.costOf(kind, rows));
    if (isMeasure) this.add(kind, rows, ms / pace / this.expect(kind, rows), isTrial);
  }

  private add(kind: StepKind, rows: number, ratio: number, isTrial: boolean): void {
    const own = this.samplesOf(kind).get(rows) ?? [];
    pushWithin(costWindow, own, ratio);
    this.samplesOf(kind).set(rows, own);
    // Lookups are not tried: a slow first run over a number of rows might keep it from being chosen again.
    if (own.length === 1 && !isTrial && kind === 'read') return;
    const points = this.points.get(kind) ?? new Map<number, Point>();
    points.set(rows, { rows, ratio: lowerMedian(own)!, samples: own.length });
    this.points.set(kind, points);
    this.lines.clear();
  }

  private lineOf(kind: StepKind): Line {
    const known = this.lines.get(kind);
    if (known !== undefined) return known;
    const own = [...(this.points.get(kind)?.values() ?? [])];
    const all = [...this.points.values()].flatMap((points) => [...points.values()]);
    const line = own.length > 0 ? fitLine(own) : { ...fitLine(all), slope: 0 };
    this.lines.set(kind, line);
    return line;
  }

  private samplesOf(kind: StepKind): Map<number, number[]> {
    const samples = this.ratios.get(kind) ?? new Map<number, number[]>();
    this.ratios.set(kind, samples);
    return samples;
  }
}

/** By least squares, weighted by the samples. */
function fitLine(points: readonly Point[]): Line {
  let [total, sumRows, sumRatio] = [0, 0, 0];
  for (const point of points) {
    total += point.samples;
    sumRows += point.samples * point.rows;
    sumRatio += point.samples * point.ratio;
  }
  if (total === 0) return { mean: 1, meanRows: 0, slope: 0 };
  const [meanRows, mean] = [sumRows / total, sumRatio / total];
  let [spread, together] = [flatWeight, 0];
  for (const point of points) {
    spread += point.samples * (point.rows - meanRows) ** 2;
    together += point.samples * (point.rows - meanRows) * (point.ratio - mean);
  }
  return { mean, meanRows, slope: together / spread };
}

export function pushWithin(length: number, window: number[], value: number): void {
  window.push(value);
  if (window.length > length) window.shift();
}
