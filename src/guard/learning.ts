/**
 * What the monitor has learnt of the operator's traffic, and what it learns from a request once that is judged: the baseline, how much
 * evidence rings (sensitivity.ts, tenant-caution.ts), and how usual prompts end. Nothing is learnt from what was flagged or came
 * near it, from tenants that rang lately, and from a stream under siege.
 */
import type { Expectation, Population, SavedBaseline } from './baseline.js';
import { Baseline } from './baseline.js';
import type { HalfLives } from './baseline-cell.js';
import type { Verdict } from './page-state.js';
import type { Likeness } from './prompt-likeness.js';
import { PromptLikeness } from './prompt-likeness.js';
import type { UnlikelyTail } from './prompt-tail.js';
import { PromptTails } from './prompt-tail.js';
import type { RequestCounts } from './request-counts.js';
import type { PromptTail, RequestRecord } from './request-record.js';
import { Sensitivity } from './sensitivity.js';
import type { AlarmLevels, Evidence } from './sequential-test.js';
import { TenantCaution } from './tenant-caution.js';

export interface LearningOptions {
  readonly levels: AlarmLevels;
  readonly tenantLimit: number;
  readonly halfLives: Partial<HalfLives> | undefined;
  /** Whether nothing is to be learnt from a tenant now. */
  readonly isHeld: (tenant: string) => boolean;
}

/** A request after its verdict. */
export interface Judged {
  readonly record: RequestRecord;
  readonly population: Population;
  readonly counts: RequestCounts;
  readonly verdict: Verdict;
  readonly hasRungLow: boolean;
  readonly peak: Evidence | undefined;
  readonly expectation: Expectation | undefined;
}

export interface SavedLearning {
  readonly baseline: SavedBaseline;
  readonly sensitivity: ReturnType<Sensitivity['save']>;
  readonly caution: readonly (readonly [string, number])[];
  readonly tails: readonly (readonly [string, readonly number[]])[];
}

/**
 * Evidence from which a request that did not ring is not learnt from, either: against the floors, and against the sharp
 * ones, whose threshold a flood of alarms can raise.
 */
const suspicious = { low: 3, sharp: 100 };

export class Learning {
  private readonly baseline: Baseline;
  private readonly sensitivity: Sensitivity;
  private readonly caution: TenantCaution;
  private readonly likeness = new PromptLikeness();
  private readonly tails = new PromptTails();
  private readonly isHeld: (tenant: string) => boolean;

  constructor({ levels, tenantLimit, halfLives, isHeld }: LearningOptions) {
    const rate = levels.lowShare + levels.lowLevel;
    this.sensitivity = new Sensitivity(rate);
    this.caution = new TenantCaution(rate, tenantLimit);
    this.baseline = new Baseline({ levels, isHeld, ...(halfLives === undefined ? {} : { halfLives }) });
    this.isHeld = isHeld;
  }

  expect(population: Population): Expectation | undefined {
    return this.baseline.expect(population);
  }

  /** Evidence against the sharp floors from which a request of the stream rings. */
  threshold(population: Population, expectation: Expectation | undefined): number {
    return expectation?.isSharp === true ? this.sensitivity.threshold(nameOf(population)) : Infinity;
  }

  /** What the evidence of a tenant's requests is divided by. */
  cautionOf(tenant: string): number {
    return this.caution.factor(tenant);
  }

  /** How a flagged prompt stands to those before it; it is remembered. */
  likenessOf(print: readonly number[]): Likeness {
    return this.likeness.flag(print);
  }

  /** Undefined where the end of a prompt is a usual one, as far as is known. */
  findUnlikely(model: string, tail: PromptTail | undefined): UnlikelyTail | undefined {
    return tail === undefined ? undefined : this.tails.findUnlikely(model, tail);
  }

  /** Streams that have learnt something, with the number of requests. */
  populations(): readonly (Population & { readonly learnt: number })[] {
    return this.baseline.populations();
  }

  /** How much evidence rings from now on. */
  tune({ record: { tenant }, population, hasRungLow, peak, expectation }: Judged): void {
    if (expectation?.isSharp === true && !this.isHeld(tenant))
      this.sensitivity.learn(nameOf(population), hasRungLow, hasRungLow || isSuspicious(peak));
    this.caution.learn(tenant, hasRungLow);
  }

  /** Whether the request was learnt from. */
  learn({ record, population, counts, verdict, peak }: Judged): boolean {
    const { tenant, endedMs, promptTokens, promptPrint, promptTail } = record;
    if (this.sensitivity.isBesieged(nameOf(population))) return false;
    const side = verdict === 'high' ? 'high' : verdict === 'low' || isSuspicious(peak) ? 'low' : undefined;
    if (side !== undefined) this.baseline.flag(population, endedMs, side);
    if (side !== undefined || this.isHeld(tenant)) return false;
    const { steps, accepted } = counts;
    const shares = counts.sums.map((sum) => sum / steps);
    const lesson = { atMs: endedMs, steps, length: 1 + accepted / steps, shares, promptTokens };
    this.baseline.offer(population, tenant, lesson);
    if (promptPrint !== null) this.likeness.learnUsual(promptPrint);
    if (promptTail !== undefined) this.tails.learnUsual(record.model, promptTail);
    return true;
  }

  /** The tenant itself rang: its requests are judged as strictly as those of others. */
  accuse(tenant: string): void {
    this.caution.forget(tenant);
  }

  forget(model: string): void {
    this.baseline.forget(model);
    this.sensitivity.forget();
    this.tails.forget(model);
  }

  save(): SavedLearning {
    return {
      baseline: this.baseline.save(),
      ...{ sensitivity: this.sensitivity.save(), caution: this.caution.save(), tails: this.tails.save() },
    };
  }

  restore({ baseline, sensitivity, caution, tails }: SavedLearning): void {
    this.baseline.restore(baseline);
    this.sensitivity.restore(sensitivity);
    this.caution.restore(caution);
    this.tails.restore(tails);
  }
}

function isSuspicious(peak: Evidence | undefined): boolean {
  return peak !== undefined && (peak.low >= suspicious.low || peak.sharp >= suspicious.sharp);
}

const nameOf = ({ sort, model, route }: Population): string => JSON.stringify([sort, model, route]);
