/** What an audit tells whoever watches it. */
import type { TracePoint } from './result.js';

/** One unit of work: one row of one prompt on one drafter, or the universal search, or one suffix carried over. */
export interface UnitName {
  readonly drafter: string;
  readonly prompt: string;
  /** A row with its number (`attack`, `attack#2`), `universal` or `transfer`. */
  readonly arm: string;
}

export interface AuditPlanned {
  readonly target: string;
  readonly drafters: readonly string[];
  readonly preset: string;
  /** Folder of the run. */
  readonly folder: string;
  readonly units: number;
  /** Null where nothing is known that time could be estimated from. */
  readonly expectedMs: number | null;
}

export interface AuditEvents {
  /** What is about to run, said once before anything heavy. */
  onPlan?(plan: AuditPlanned): void;
  /** All units in the order in which they run, those that a resumed run has already done included. */
  onStart?(units: readonly UnitName[]): void;
  /** `done` units are finished. */
  onUnitStart?(unit: UnitName, done: number, total: number): void;
  onStep?(unit: UnitName, point: TracePoint, steps: number): void;
  onUnitEnd?(unit: UnitName, acceptedLength: number | undefined): void;
  onNotice?(message: string): void;
}
