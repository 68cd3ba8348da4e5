/** The result of a training run, for result.json and reports. */
import type { describeMachine } from '../measure/machine.js';
import type { ModelIdentity } from '../runs/identity.js';
import type { BatchPlan } from './data/batches.js';
import type { ExampleCounts } from './data/examples.js';
import type { TrainSettings } from './settings.js';
import type { LengthLine, LogLine, UpdateLine } from './loop/training-state.js';
import type { TrainingEnd } from './loop/training-loop.js';

export const resultVersion = 'mistletoe-training/1';

export interface TrainingResult {
  readonly schema: typeof resultVersion;
  readonly version: string;
  readonly target: ModelIdentity;
  readonly system: string;
  readonly from?: ModelIdentity | undefined;
  readonly targetLayers?: number | undefined;
  readonly parameterCount: number;
  readonly data: TrainingData;
  readonly settings: TrainSettings;
  readonly ended: TrainingEnd;
  readonly updates: number;
  /** Before the first update, at the best and at the last measurement on held-out texts. */
  readonly lengths: MeasuredLengths | undefined;
  readonly log: readonly LogLine[];
  /** Over all starts, training only. */
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

interface LevelEntropy {
  /** In nats, over the first and the last tenth of the updates; NaN without rows. */
  readonly first: number;
  readonly last: number;
  readonly rows: number;
}

/**
 * [level] Mean cross-entropy over the rows that count for it. Deeper levels have fewer rows: drafts end with their
 * text, and only tokens of the draft vocabulary count.
 */
export function summariseLevels(log: readonly LogLine[]): readonly LevelEntropy[] {
  const updates = log.filter((line): line is UpdateLine => line.kind === 'update');
  const tenth = Math.ceil(updates.length / 10);
  const depth = updates[0]?.levels.length ?? 0;
  return Array.from({ length: depth }, (_, level) => ({
    first: meanOf(updates.slice(0, tenth), level),
    last: meanOf(updates.slice(-tenth), level),
    rows: countRows(updates, level),
  }));
}

const countRows = (updates: readonly UpdateLine[], level: number): number =>
  updates.reduce((sum, { levelRows }) => sum + levelRows[level]!, 0);

function meanOf(updates: readonly UpdateLine[], level: number): number {
  const total = updates.reduce((sum, line) => sum + line.levels[level]! * line.levelRows[level]!, 0);
  return total / countRows(updates, level);
}
