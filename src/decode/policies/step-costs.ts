/**
 * The time of a step, for one range of batch sizes: pace x relative cost. The pace changes all the time (longer
 * contexts, other processes). The relative cost of each kind of step is the expected one times a line over the rows
 * that the target reads, fitted to measured steps; so a few of them tell about all numbers of rows. A step is measured
 * against the pace of the steps before it, if it is a trial or unlike them.
 */
import { median } from './draft-estimates.js';

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

export class StepCosts {
  private readonly paces: number[] = [];
  /** [kind][rows] Measured over expected cost. */
  private readonly ratios = new Map<StepKind, Map<number, number[]>>();
  /** [kind and rows] */
  private readonly fitted = new Map<string, number>();
  private previous: string | undefined;

  /** @param expect the relative cost before any measurement */
  constructor(private readonly expect: (kind: StepKind, rows: number) => number) {}

  /** Milliseconds for a relative cost of 1; undefined until a few steps have shown it. */
  get pace(): number | undefined {
    return this.paces.length < minPaces ? undefined : median(this.paces);
  }

  get isMeasured(): boolean {
    return this.allPoints().length > 0;
  }

  /** Steps of other contexts take other times. */
  forgetPace(share: number): void {
    this.paces.splice(0, Math.ceil(this.paces.length * share));
  }

  countSamples(kind: StepKind, rows: number): number {
    return this.samplesOf(kind).get(rows)?.length ?? 0;
  }

  costOf(kind: StepKind, rows: number): number {
    const key = `${kind} ${rows}`;
    const cost = this.fitted.get(key) ?? this.expect(kind, rows) * this.fitRatio(kind, rows);
    this.fitted.set(key, cost);
    return cost;
  }

  learn(kind: StepKind, rows: number, ms: number, isTrial: boolean): void {
    if (!(ms > 0)) return;
    const { pace } = this;
    const samples = this.samplesOf(kind);
    const step = `${kind} ${rows}`;
    const isUnlike = step !== this.previous || !samples.has(rows);
    this.previous = step;
    if (!this.isMeasured) {
      samples.set(rows, [1]);
      this.fitted.clear();
    }
    const isMeasure = pace !== undefined && (isTrial || isUnlike);
    if (!isMeasure || (!isTrial && samples.has(rows)))
      pushWithin(paceWindow, this.paces, ms / this.costOf(kind, rows));
    if (!isMeasure) return;
    const own = samples.get(rows) ?? [];
    samples.set(rows, own);
    pushWithin(costWindow, own, ms / pace / this.expect(kind, rows));
    this.fitted.clear();
  }

  private fitRatio(kind: StepKind, rows: number): number {
    const own = this.pointsOf(kind);
    return own.length > 0 ? ratioAt(own, rows) : ratioAt(this.allPoints());
  }

  private samplesOf(kind: StepKind): Map<number, number[]> {
    const samples = this.ratios.get(kind) ?? new Map<number, number[]>();
    this.ratios.set(kind, samples);
    return samples;
  }

  private pointsOf(kind: StepKind): readonly Point[] {
    return [...this.samplesOf(kind)].map(([rows, own]) => ({
      rows,
      ratio: median(own)!,
      samples: own.length,
    }));
  }

  private allPoints(): readonly Point[] {
    return [...this.ratios.keys()].flatMap((kind) => this.pointsOf(kind));
  }
}

/** By a least-squares line through the points, weighted by their samples; without `rows`, their mean. */
function ratioAt(points: readonly Point[], rows?: number): number {
  let [total, sumRows, sumRatio] = [0, 0, 0];
  for (const point of points) {
    total += point.samples;
    sumRows += point.samples * point.rows;
    sumRatio += point.samples * point.ratio;
  }
  if (total === 0) return 1;
  const [meanRows, mean] = [sumRows / total, sumRatio / total];
  if (rows === undefined) return mean;
  let [spread, together] = [flatWeight, 0];
  for (const point of points) {
    spread += point.samples * (point.rows - meanRows) ** 2;
    together += point.samples * (point.rows - meanRows) * (point.ratio - mean);
  }
  return Math.max(minShare * mean, mean + (together / spread) * (rows - meanRows));
}

function pushWithin(length: number, window: number[], value: number): void {
  window.push(value);
  if (window.length > length) window.shift();
}
