/** What a worker process of an audit is started with, and what it can be asked. */
import type { RecordedDevice } from '../../runtime/device-choice.js';
import type { AuditRequest } from '../audit-request.js';
import type { Effort } from '../effort.js';

export interface ProcessSetup {
  /** Folders of models on this machine, by the hash of the model. */
  readonly folders: Readonly<Record<string, string>>;
  readonly device: RecordedDevice;
  readonly threads: number;
  readonly cacheFolder: string | null;
  readonly verifyCache: boolean;
}

/** Opens all models of a run and estimates its effort. */
export interface ProcessQuestion {
  readonly open: AuditRequest;
}

export interface ProcessAnswer {
  readonly effort: Effort;
}
