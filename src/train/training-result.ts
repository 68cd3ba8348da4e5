/** What a finished or interrupted training run says of itself, for result.json, the report and callers. */
import type { ModelIdentity } from '../runs/identity.js';
import type { describeMachine } from '../measure/machine.js';
import type { BatchPlan } from './batches.js';
import type { ExampleCounts } from './examples.js';
import type { TrainSettings } from './settings.js';
import type { TrainingEnd } from './training-loop.js';
import type { LengthLine, LogLine } from './training-log.js';

export const resultVersion = 'mistletoe-training/1';

export interface TrainingResult {
  readonly schema: typeof resultVersion;
  readonly version: string;
  readonly target: ModelIdentity;
  readonly system: string;
  /** The drafter that it went on from; absent for fresh weights. */
  readonly from?: ModelIdentity | undefined;
  /** How many layers of the target it began with; absent where it did not. */
  readonly targetLayers?: number | undefined;
  readonly parameterCount: number;
  readonly data: TrainingData;
  readonly settings: TrainSettings;
  readonly ended: TrainingEnd;
  /** Updates made. */
  readonly updates: number;
  /** On held-out texts: before the first update, after the best and after the last one measured. */
  readonly lengths: MeasuredLengths | undefined;
  readonly log: readonly LogLine[];
  /** All starts of the run together, in training alone. */
  readonly elapsedMs: number;
  readonly device: string;
  readonly machine: ReturnType<typeof describeMachine>;
}

export interface TrainingData {
  readonly file: string;
  readonly sha256: string;
  readonly conversations: number;
  readonly training: ExampleCounts;
  readonly heldOut: ExampleCounts;
  /** Conversations whose last turns did not fit the target's context. */
  readonly cutConversations: number;
  readonly batches: Pick<BatchPlan, 'batchesPerEpoch' | 'paddingShare'>;
  readonly draftVocabulary?: { readonly size: number; readonly coverage: number } | undefined;
}

export interface MeasuredLengths {
  readonly first: LengthLine;
  readonly best: LengthLine;
  readonly last: LengthLine;
}

export function findLengths(log: readonly LogLine[]): MeasuredLengths | undefined {
  const lengths = log.filter((line): line is LengthLine => line.kind === 'length');
  const [first] = lengths;
  if (first === undefined) return undefined;
  const best = lengths.reduce((left, right) => (right.length > left.length ? right : left));
  return { first, best, last: lengths.at(-1)! };
}
