/** What runs the units of an audit, whichever it is. */
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import type { Runtime } from '../../runtime/program.js';
import type { UnitExecutor } from '../../runs/unit.js';
import type { WorkerPlan } from '../../runs/worker-devices.js';
import type { Effort } from '../effort.js';
import type { AuditUnitInput } from './audit-unit.js';

/** Opened before the run's folder is made: what is refused leaves nothing behind. */
export interface AuditBackend {
  readonly executor: UnitExecutor<AuditUnitInput>;
  /** Null if no model was opened. */
  readonly effort: Effort | null;
  /** For the machine in reports; empty for this process. */
  readonly label: string;
  /** Called once everything is recorded. */
  finish?(): Promise<void>;
  close(): Promise<void>;
}

export interface BackendOptions {
  readonly signal?: AbortSignal | undefined;
  readonly cache: CacheOptions;
  readonly runtime?: Runtime | undefined;
  readonly workers?: WorkerPlan | undefined;
  /** URL of a Redis or Valkey server. */
  readonly queue?: string | undefined;
  readonly onNotice: (message: string) => void;
}
