/**
 * The time of a unit by phase. Phases may overlap (finalists are decoded together): each moment is divided among
 * them, so they never add up to more than the wall time.
 */
import * as z from '../../core/schema.js';
import { workingMs } from '../../runtime/preparation-clock.js';
import type { Runtime } from '../../runtime/program.js';
import { arms } from '../result.js';
import type { SuffixScorer } from '../search/search-problem.js';

const number = z.number();
const phaseTimesSchema = z.object({
  gradientMs: number,
  scoringMs: number,
  exactLengthsMs: number,
  decodingMs: number,
  /** Compiling and loading programs, which no other time includes. */
  preparationMs: number,
  /** Includes preparation, and time outside the phases. */
  totalMs: number,
});
export type PhaseTimes = Readonly<z.infer<typeof phaseTimesSchema>>;

/** They differ from run to run, so they are never part of AuditResult. */
export const timingSchema = z.object({
  drafter: z.string(),
  promptId: z.string(),
  arm: z.enum(arms),
  repeat: number,
  prefillMs: number,
  decodeMs: number,
  draftMs: number,
  verifyMs: number,
  tokensPerSecond: number,
  /** Null if not run. */
  plainTokensPerSecond: number.nullable(),
  speedup: number.nullable(),
  phases: phaseTimesSchema,
  /** Absent if the audit ran in one process. */
  worker: z.string().exactOptional(),
});
export type ArmTiming = Readonly<z.infer<typeof timingSchema>>;

export interface AuditTimings {
  readonly machine: string;
  readonly arms: readonly ArmTiming[];
  /** All starts together, without the time between them. */
  readonly totalMs: number;
}

export const phases = ['gradient', 'scoring', 'exactLengths', 'decoding'] as const;
/**
 * `gradient`: gradients and ranking. `scoring`: candidates, including whether their texts survive. `exactLengths`:
 * decoding along the clean answer. `decoding`: free decoding, speculative and plain.
 */
export type Phase = (typeof phases)[number];

type Times = Record<Phase, number>;
const zeros = (): Times => ({ gradient: 0, scoring: 0, exactLengths: 0, decoding: 0 });

export class PhaseClock {
  private readonly spent = zeros();
  private readonly running = zeros();
  private lastMs = 0;

  constructor(private readonly runtime: Pick<Runtime, 'preparationMs'> = {}) {}

  async during<Result>(phase: Phase, work: () => Promise<Result>): Promise<Result> {
    this.advance();
    this.running[phase] += 1;
    try {
      return await work();
    } finally {
      this.advance();
      this.running[phase] -= 1;
    }
  }

  /** One measurement at a time. */
  async measure<Result>(work: () => Promise<Result>): Promise<{ value: Result; times: PhaseTimes }> {
    const before = { ...this.spent };
    const [startMs, startWorkMs] = [performance.now(), this.now()];
    const value = await work();
    const since = (phase: Phase): number => round(this.spent[phase] - before[phase]);
    const totalMs = performance.now() - startMs;
    return {
      value,
      times: {
        gradientMs: since('gradient'),
        scoringMs: since('scoring'),
        exactLengthsMs: since('exactLengths'),
        decodingMs: since('decoding'),
        preparationMs: round(totalMs - (this.now() - startWorkMs)),
        totalMs: round(totalMs),
      },
    };
  }

  private now(): number {
    return workingMs(this.runtime);
  }

  private advance(): void {
    const now = this.now();
    const tasks = phases.reduce((sum, phase) => sum + this.running[phase], 0);
    if (tasks > 0) {
      for (const phase of phases) this.spent[phase] += ((now - this.lastMs) * this.running[phase]) / tasks;
    }
    this.lastMs = now;
  }
}

const round = (milliseconds: number): number => Math.round(milliseconds * 100) / 100;

export function timeScorer(scorer: SuffixScorer, clock: PhaseClock): SuffixScorer {
  return {
    answerLength: scorer.answerLength,
    score: (...given) => clock.during('scoring', () => scorer.score(...given)),
    keepRoundTrips: (...given) => clock.during('scoring', () => scorer.keepRoundTrips(...given)),
    rankTokens: (...given) => clock.during('gradient', () => scorer.rankTokens(...given)),
  };
}
