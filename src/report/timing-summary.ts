/** Measured times by row: the median over prompts, which one slow moment of a shared machine cannot move far. */
import type { ArmName } from '../audit/arms/arms.js';
import type { ArmTiming, AuditTimings } from '../audit/arms/phase-clock.js';

export interface TimingSummary {
  readonly n: number;
  readonly speedup: number | null;
  readonly tokensPerSecond: number | null;
  readonly plainTokensPerSecond: number | null;
  readonly prefillMs: number | null;
  readonly decodeMs: number | null;
}

export function summariseTimings(timings: AuditTimings, drafter: string, arm: ArmName): TimingSummary {
  const rows = timings.arms.filter((row) => row.drafter === drafter && row.arm === arm);
  const medianOf = (valueOf: (row: ArmTiming) => number | null): number | null =>
    median(rows.flatMap((row) => valueOf(row) ?? []));
  return {
    n: rows.length,
    speedup: medianOf((row) => row.speedup),
    tokensPerSecond: medianOf((row) => row.tokensPerSecond),
    plainTokensPerSecond: medianOf((row) => row.plainTokensPerSecond),
    prefillMs: medianOf((row) => row.prefillMs),
    decodeMs: medianOf((row) => row.decodeMs),
  };
}

export function median(values: readonly number[]): number | null {
  const sorted = values.filter(Number.isFinite).sort((left, right) => left - right);
  const middle = sorted.length / 2;
  if (sorted.length === 0) return null;
  return Number.isInteger(middle) ? (sorted[middle - 1]! + sorted[middle]!) / 2 : sorted[Math.floor(middle)]!;
}
