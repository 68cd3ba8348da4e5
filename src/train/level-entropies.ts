/**
 * The mean cross-entropy of each drafted token over the rows that count for it. A deeper token has fewer rows: drafts end
 * with their text, and only tokens of the draft vocabulary count. A sum divided by all learned tokens would make deeper
 * tokens look easier than they are.
 */
import type { LogLine, UpdateLine } from './training-log.js';

/** An update whose log line says how many rows each level counted; lines up to version 0.2 do not. */
export type CountedUpdate = UpdateLine & Required<Pick<UpdateLine, 'levelRows'>>;

export interface LevelEntropy {
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
