/**
 * The cost of a step with drafts, in plain steps, from the passes of one request:
 * verifying pass / plain pass + drafting / plain pass
 * The first ratio compares neighboring steps with and without drafts, so that both have the same pace and context.
 * The second highest of the last few counts, and at least 1: underestimating a plain step is safe for the bound, and
 * one outlier decides nothing. The present time of a plain pass follows from the last three verifying passes (their
 * median).
 */
import { lowerMedian } from './draft-estimates.js';
import type { StepOutcome } from './policy-chooser.js';

const ratioWindow = 8;
const paceWindow = 3;
const draftWindow = 7;
/** From this many on, at least two plain steps were measured. */
export const minMeasures = 3;

export class StepPrices {
  private readonly paces: number[] = [];
  /** [draft tokens] */
  private readonly ratios = new Map<number, number[]>();
  /** [rung] In plain steps: drafting, and reading a missed step. */
  private readonly drafts = new Map<number, number[]>();
  private readonly reads = new Map<number, number[]>();
  private readonly proposals = new Map<number, number>();
  private readonly unsettled: {
    readonly rung: number;
    readonly draftMs: number;
    readonly proposed: number;
    readonly missed: number;
    readonly cost: number;
  }[] = [];
  private steps = 0;
  private previous: { readonly proposed: number; readonly verifyMs: number } | undefined;

  /** Time of a plain step now; undefined before the first step. */
  get plainMs(): number | undefined {
    return lowerMedian(this.paces);
  }

  measuredBy(rung: number): number {
    return this.ratios.get(this.proposals.get(rung) ?? 0)?.length ?? 0;
  }

  /** Expected cost of the next step; undefined before the first one. */
  priceOf(rung: number): number | undefined {
    const drafting = lowerMedian(this.drafts.get(rung) ?? []);
    return drafting === undefined ? undefined : this.ratioOf(this.proposals.get(rung) ?? 0) + drafting;
  }

  readingOf(rung: number): number {
    return lowerMedian(this.reads.get(rung) ?? []) ?? 0;
  }

  /**
   * Cost of this step, plus what earlier steps turn out to have cost beyond their estimate. `missed`: steps that the
   * drafter had to read first.
   */
  learn(
    rung: number | undefined,
    { draftMs, verifyMs }: Pick<StepOutcome, 'draftMs' | 'verifyMs'>,
    proposed: number,
    missed: number,
  ): number {
    this.compare(proposed, verifyMs);
    const ratio = this.ratioOf(proposed);
    remember(this.paces, verifyMs / ratio, paceWindow);
    const owed = this.ratios.size > 0 ? this.settle() : 0;
    // A plain step is the unit.
    if (rung === undefined) return 1 + owed;
    const drafting = this.inPlainSteps(draftMs);
    if (proposed > 0) this.proposals.set(rung, proposed);
    if (this.ratios.size === 0) {
      this.unsettled.push({ rung, draftMs, proposed, missed, cost: ratio + drafting });
      return ratio + drafting;
    }
    this.keepDrafting(rung, drafting, missed);
    return ratio + drafting + owed;
  }

  /** Before the first comparison, a plain step was only known to cost at most a verifying pass. */
  private settle(): number {
    let owed = 0;
    for (const { rung, draftMs, proposed, missed, cost } of this.unsettled.splice(0)) {
      const ratio = this.ratioOf(proposed);
      const drafting = this.inPlainSteps(draftMs);
      this.keepDrafting(rung, drafting, missed);
      owed += ratio + drafting - cost;
    }
    return owed;
  }

  private keepDrafting(rung: number, drafting: number, missed: number): void {
    if (missed === 0) {
      remember(windowOf(this.drafts, rung), drafting, draftWindow);
      return;
    }
    const usual = lowerMedian(this.drafts.get(rung) ?? []) ?? drafting;
    remember(windowOf(this.reads, rung), Math.max(0, drafting - usual) / missed, draftWindow);
  }

  private inPlainSteps(ms: number): number {
    const { plainMs = 0 } = this;
    return plainMs === 0 ? 0 : ms / plainMs;
  }

  /** Compares neighboring steps, one with drafts and one without. */
  private compare(proposed: number, verifyMs: number): void {
    const { previous } = this;
    // The first pass after a prompt is slower and is not measured.
    this.previous = this.steps++ === 0 ? undefined : { proposed, verifyMs };
    if (
      previous === undefined ||
      this.previous === undefined ||
      (previous.proposed === 0) === (proposed === 0)
    )
      return;
    const drafted = proposed === 0 ? previous : this.previous;
    const plain = proposed === 0 ? this.previous : previous;
    const ratio = drafted.verifyMs / plain.verifyMs;
    remember(windowOf(this.ratios, drafted.proposed), ratio, ratioWindow);
  }

  /** With too few measurements, the highest of all. */
  private ratioOf(proposed: number): number {
    if (proposed === 0) return 1;
    const own = this.ratios.get(proposed) ?? [];
    const known = own.length >= minMeasures ? [own] : [...this.ratios.values()];
    return known.reduce((most, ratios) => Math.max(most, upper(ratios) ?? 1), 1);
  }
}

function windowOf(windows: Map<number, number[]>, key: number): number[] {
  const window = windows.get(key) ?? [];
  windows.set(key, window);
  return window;
}

function remember(window: number[], value: number, length: number): void {
  if (!Number.isFinite(value)) return;
  window.push(value);
  if (window.length > length) window.shift();
}

/** The second highest; the third highest of six or more. */
function upper(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((left, right) => right - left);
  return sorted[sorted.length < 6 ? 1 : 2] ?? sorted[0];
}
