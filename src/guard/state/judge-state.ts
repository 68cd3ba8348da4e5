/**
 * Where the judge's state lives: in this process and a file, or shared by several guards. Requests are judged after they
 * end, so what follows from an observation may arrive later than `observe` returns; `decide` never waits.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { replaceFile } from '../../core/durable-files.js';
import { isMissing, readBoundedFile } from '../../core/files.js';
import type { Judge, SavedJudge } from '../judge/judge.js';
import type { ActionEvent, Alert, Decision, Judgment } from '../judge/verdict.js';
import type { Observation } from '../observation.js';

export interface JudgeState {
  decide(tenant: string, atMs: number): Decision;
  /** Judges a request that ended; the result goes to `onJudged`. */
  observe(observation: Observation): void;
  /** Null where the state is not shared. */
  readonly isConnected: boolean | null;
  /** Waits until everything observed has been judged. */
  close(): Promise<void>;
}

export interface StateCallbacks {
  /** One of this guard's own requests. */
  readonly onJudged: (observation: Observation, judgment: Judgment) => void;
  /** Alerts and measures that followed from requests of other guards. */
  readonly onShared?: (alerts: readonly Alert[], actions: readonly ActionEvent[]) => void;
  readonly onNotice?: (message: string) => void;
}

/** Changes with the fields of SavedJudge. */
const version = 6;

/** As JSON, with a digest by which damage is recognized. */
export function packState(judge: Pick<Judge, 'save'>): string {
  const state = JSON.stringify(judge.save());
  return `{"version":${version},"digest":"${digestOf(state)}","state":${state}}`;
}

export function unpackState(text: string): SavedJudge {
  const { version: found, digest, state } = (JSON.parse(text) ?? {}) as Partial<Record<string, unknown>>;
  if (found === version && digest === digestOf(JSON.stringify(state))) return state as SavedJudge;
  const reason = found === version ? 'it is damaged' : `it has version ${String(found)}, expected ${version}`;
  throw new MistletoeError('usage', `The saved state of the guard is not usable: ${reason}.`, {
    hint: 'Remove it; the baseline is then learned again from the traffic.',
  });
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Earlier versions wrote monitor.json, whose baselines cannot be converted. */
const pathIn = (folder: string): string => join(folder, 'judge.json');

/** The guard starts without a usable file; the baseline is then learned again. */
export async function restoreJudge(
  judge: Judge,
  folder: string,
  onNotice: (message: string) => void,
): Promise<void> {
  try {
    judge.restore(unpackState((await readBoundedFile(pathIn(folder))).toString('utf8')));
  } catch (cause) {
    if (isMissing(cause)) return;
    onNotice(`The saved baseline is not used, a new one is learned: ${describeCause(cause)}`);
  }
}

/** Where the disk fails, the state stays in memory. */
export async function saveJudge(judge: Judge, folder: string): Promise<void> {
  try {
    await replaceFile(pathIn(folder), packState(judge), { readers: 'private' });
  } catch {
    // Tried again later.
  }
}
