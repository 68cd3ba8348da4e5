/**
 * The time of a step by its rows, for one range of batch sizes: pace x relative cost of the rows. The pace changes
 * all the time (longer contexts, other processes); the rows in use set it. Other numbers of rows are measured against
 * it in trials. Without a measurement, they follow the expected shape, scaled by the nearest measurements.
 */
const paceWindow = 7;
const costWindow = 15;

export class StepCosts {
  private readonly paces: number[] = [];
  /** [rows] Measured over expected relative cost. */
  private readonly ratios = new Map<number, number[]>();

  private readonly fitted = new Map<number, number>();

  /** @param expect the relative cost of a step by its rows, before any measurement */
  constructor(private readonly expect: (rows: number) => number) {}

  /** Milliseconds for a relative cost of 1; undefined before the first step. */
  get pace(): number | undefined {
    return median(this.paces);
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
    if (pace === undefined) this.ratios.set(rows, [1]);
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
function median(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}
