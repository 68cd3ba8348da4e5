/**
 * What steps of different kinds cost, compared fairly. A step's time is
 *
 *   pace of the moment x relative cost of its kind
 *
 * and the pace changes all the time: the context grows, the next request is shorter, something else runs. The kind in
 * use sets the pace; the others are measured against it in short trials, and keep what was measured however long ago.
 */
const paceWindow = 7;
const costWindow = 15;

export class StepCosts<Kind> {
  private readonly paces: number[] = [];
  private readonly relative = new Map<Kind, number[]>();

  /** Relative; Infinity for a kind that was never measured. */
  costOf(kind: Kind): number {
    return median(this.relative.get(kind) ?? []);
  }

  /** The pace in the unit in which costs are relative. */
  get pace(): number {
    return median(this.paces);
  }

  /** A step of the kind in use. */
  keepPace(kind: Kind, ms: number): void {
    if (!this.relative.has(kind)) this.relative.set(kind, [1]);
    remember(this.paces, ms / this.costOf(kind), paceWindow);
  }

  /** A step of a trial; the first of all sets the pace. */
  measure(kind: Kind, ms: number): void {
    if (this.paces.length === 0) {
      this.keepPace(kind, ms);
      return;
    }
    const samples = this.relative.get(kind) ?? [];
    this.relative.set(kind, samples);
    remember(samples, ms / this.pace, costWindow);
  }
}

function remember(window: number[], value: number, length: number): void {
  window.push(value);
  if (window.length > length) window.shift();
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  // The lower one of two: a first step may have met a cold machine.
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? Infinity;
}
