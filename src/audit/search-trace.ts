/** The way of a search, step by step. */
import type { ArmName } from './arms.js';

export interface SearchTrace {
  readonly arm: ArmName;
  readonly repeat: number;
  readonly objective: string;
  readonly projection: string;
  /** The effort: candidates scored, and suffixes decoded at the end. */
  readonly scoredCandidates: number;
  readonly decodedSuffixes: number;
  readonly steps: readonly TracePoint[];
}

export interface TracePoint {
  readonly step: number;
  /** The objective and the divergence of the suffix that the search stands at; larger is worse for the service. */
  readonly degradation: number;
  readonly divergence: number;
  /** The lowest accepted length along the clean answer so far, inside the bounds; null where there is none. */
  readonly acceptedLength: number | null;
  /** Cosine between the search direction and the preservation gradient, before and after projection. */
  readonly cosineBefore: number;
  readonly cosineAfter: number;
  readonly candidates: number;
  readonly vetoed: number;
}
