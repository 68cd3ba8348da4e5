/** What a finished or interrupted training run says of itself, for result.json, the report and callers. */
import type { describeMachine } from '../measure/machine.js';
import type { ModelIdentity } from '../runs/identity.js';
import type { BatchPlan } from './data/batches.js';
import type { ExampleCounts } from './data/examples.js';
import type { TrainSettings } from './settings.js';
import type { LengthLine, LogLine, UpdateLine } from './loop/training-log.js';
import type { TrainingEnd } from './loop/training-loop.js';

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

/**
 * The mean cross-entropy of each drafted token over the rows that count for it. A deeper token has fewer rows: drafts end
 * with their text, and only tokens of the draft vocabulary count. A sum divided by all learned tokens would make deeper
 * tokens look easier than they are.
 */
/** An update whose log line says how many rows each level counted; lines up to version 0.2 do not. */
type CountedUpdate = UpdateLine & Required<Pick<UpdateLine, 'levelRows'>>;

interface LevelEntropy {
  /** In nats, over the first and the last tenth of the updates; NaN where no row counted. */
  readonly first: number;
  readonly last: number;
  /** Rows in all updates. */
  readonly rows: number;
}

export function countedUpdates(log: readonly LogLine[]): readonly CountedUpdate[] {
  return log.filter((line): line is CountedUpdate => line.kind === 'update' && line.levelRows !== undefined);
}

/** [level], or nothing where the log has no counts. */
export function summariseLevels(log: readonly LogLine[]): readonly LevelEntropy[] {
  const updates = countedUpdates(log);
  const tenth = Math.ceil(updates.length / 10);
  const depth = updates[0]?.levels.length ?? 0;
  return Array.from({ length: depth }, (_, level) => ({
    first: meanOf(updates.slice(0, tenth), level),
    last: meanOf(updates.slice(-tenth), level),
    rows: countRows(updates, level),
  }));
}

const countRows = (updates: readonly CountedUpdate[], level: number): number =>
  updates.reduce((sum, { levelRows }) => sum + levelRows[level]!, 0);

function meanOf(updates: readonly CountedUpdate[], level: number): number {
  const total = updates.reduce((sum, line) => sum + line.levels[level]! * line.levelRows[level]!, 0);
  return total / countRows(updates, level);
}
