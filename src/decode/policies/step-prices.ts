/**
 * What a step with drafts costs, in plain steps, from the passes of one request.
 *
 *   cost  =  verifying pass / plain pass  +  drafting / plain pass
 *
 * The first ratio is measured where a plain step and one with drafts are neighbours, so that both had the same pace, context and
 * company; of the last few the second highest counts, and never less than 1: a pass over more rows is no cheaper than one over
 * a single row. Hence a plain step is rather taken for too cheap than for too dear, which whoever promises a bound can live
 * with, and one hiccup of the machine decides nothing. What a plain pass takes at the moment follows from the verifying
 * passes themselves, of the last three the middle one: what chance does to passes of the target it does with and without drafts.
 */
const ratioWindow = 8;
const paceWindow = 3;
const draftWindow = 7;
/** From so many on, two plain steps at least have had a say. */
export const minMeasures = 3;

export interface StepTimes {
  readonly draftMs: number;
  readonly verifyMs: number;
}

interface Unsettled {
  readonly rung: number;
  readonly draftMs: number;
  readonly proposed: number;
  readonly missed: number;
  readonly cost: number;
}

export class StepPrices {
  private readonly paces: number[] = [];
  /** [draft tokens in a pass] */
  private readonly ratios = new Map<number, number[]>();
  /** [rung] In plain steps: what drafting took, what reading a step took that was missed; and how much was drafted last. */
  private readonly drafts = new Map<number, number[]>();
  private readonly reads = new Map<number, number[]>();
  private readonly proposals = new Map<number, number>();
  private readonly unsettled: Unsettled[] = [];
  private steps = 0;
  private previous: { readonly proposed: number; readonly verifyMs: number } | undefined;

  /** A plain step at this moment; undefined before the first step. */
  get plainMs(): number | undefined {
    return middle(this.paces);
  }

  /** Neighbours of plain steps that the ratio of a rung's passes comes from; those of one plain step share its chance. */
  measuredBy(rung: number): number {
    return this.ratios.get(this.proposals.get(rung) ?? 0)?.length ?? 0;
  }

  /** What the next step of a rung is taken to cost; undefined before its first one. */
  priceOf(rung: number): number | undefined {
    const drafting = middle(this.drafts.get(rung) ?? []);
    return drafting === undefined ? undefined : this.ratioOf(this.proposals.get(rung) ?? 0) + drafting;
  }

  /** What a step costs a rung's drafter that it has not drafted in, when it drafts again. */
  readingOf(rung: number): number {
    return middle(this.reads.get(rung) ?? []) ?? 0;
  }

  /**
   * What this step cost; with it what steps before the first comparison turn out to have cost beyond what was said of them.
   * `missed`: steps that its drafter had to read first.
   */
  learn(
    rung: number | undefined,
    { draftMs, verifyMs }: StepTimes,
    proposed: number,
    missed: number,
  ): number {
    this.compare(proposed, verifyMs);
    const ratio = this.ratioOf(proposed);
    remember(this.paces, verifyMs / ratio, paceWindow);
    const owed = this.ratios.size > 0 ? this.settle() : 0;
    // What a plain step takes is what everything is compared with.
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

  /** Until then a plain step was only known to be no dearer than the verifying pass. */
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
    const usual = middle(this.drafts.get(rung) ?? []) ?? drafting;
    remember(windowOf(this.reads, rung), Math.max(0, drafting - usual) / missed, draftWindow);
  }

  private inPlainSteps(ms: number): number {
    const { plainMs = 0 } = this;
    return plainMs === 0 ? 0 : ms / plainMs;
  }

  /** Neighbours of which one has drafts and the other has none measure what drafts cost in the target's pass. */
  private compare(proposed: number, verifyMs: number): void {
    const { previous } = this;
    // The first pass behind a prompt has more to do than those that follow and measures nothing.
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

  /** Where too little has been measured, the highest of all. */
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

/** The lower one of two. */
function middle(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}

/** The second highest of a few, the third highest of more. */
function upper(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((left, right) => right - left);
  return sorted[sorted.length < 6 ? 1 : 2] ?? sorted[0];
}
