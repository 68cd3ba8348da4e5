/** Progress events of an audit. */
import type { WorkerName } from '../runs/unit.js';
import type { TracePoint } from './result.js';

/** An arm of a prompt on a drafter, the universal search, or a transfer measurement. */
export interface UnitName {
  readonly drafter: string;
  readonly prompt: string;
  /** An arm with its number (`attack`, `attack#2`), `universal` or `transfer`. */
  readonly arm: string;
}

/** Progress within one unit. */
export interface UnitEvents {
  onStep?(unit: UnitName, point: TracePoint, steps: number): void;
  onNotice?(message: string): void;
}

export interface AuditPlanned {
  readonly target: string;
  readonly drafters: readonly string[];
  readonly preset: string;
  readonly folder: string;
  readonly units: number;
  /** Null if there is nothing to estimate from. */
  readonly expectedMs: number | null;
}

export interface AuditEvents {
  /** Once, before anything expensive. */
  onPlan?(plan: AuditPlanned): void;
  /** In order, including those that an earlier start finished. */
  onStart?(units: readonly UnitName[]): void;
  /** `done` units are finished. With several workers, units overlap; without, there is no worker. */
  onUnitStart?(unit: UnitName, done: number, total: number, worker?: WorkerName): void;
  onStep?(unit: UnitName, point: TracePoint, steps: number, worker?: WorkerName): void;
  onUnitEnd?(unit: UnitName, acceptedLength: number | undefined, worker?: WorkerName): void;
  onNotice?(message: string): void;
}
