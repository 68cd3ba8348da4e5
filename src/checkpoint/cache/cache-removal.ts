/**
 * Removes cache files. Files are unlinked one at a time: a process that has mapped one keeps it, and a killed
 * removal leaves a smaller, valid cache. Files that a running process uses stay.
 */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { kernelFileName, kernelsFolder } from '../../core/files.js';
import { describeCause } from '../../core/errors.js';
import { hostTag, isRunning } from '../../core/processes.js';
import { notePath } from './cache-file.js';
import type { CachedWeights, CacheSurvey, SmallFile } from './cache-contents.js';
import { countBytes, surveyCache } from './cache-contents.js';
import { listKeysInUse } from './cache-folder.js';

export interface Removal {
  readonly removed: readonly CachedWeights[];
  /** Kept only because a running process uses them. */
  readonly inUse: readonly CachedWeights[];
  readonly failures: readonly { readonly path: string; readonly reason: string }[];
  readonly leftBytes: number;
}

/** Removes the least recently used files until the rest takes at most `maxBytes`. */
export async function trimCache(folder: string, maxBytes: number): Promise<Removal> {
  const survey = await surveyCache(folder);
  return remove(survey, findAbandoned(survey), maxBytes);
}

/** Removes all files except those in use, those being written, and those of other programs. */
export async function clearCache(folder: string): Promise<Removal> {
  const survey = await surveyCache(folder);
  const hashes = survey.small.filter(({ name }) => name.kind === 'hash');
  // Small files that are compiled again when needed; they do not count towards the limit.
  const kernels = join(folder, kernelsFolder);
  for (const name of await readdir(kernels).catch(() => []))
    if (kernelFileName.test(name)) await rm(join(kernels, name), { force: true }).catch(() => undefined);
  return remove(survey, [...hashes, ...findAbandoned(survey)], -1);
}

/** Makes room for a file, which may replace one of the same key. If it cannot fit, returns false and removes nothing. */
export async function makeRoom(
  folder: string,
  key: string,
  sizeBytes: number,
  limitBytes: number,
): Promise<boolean> {
  const survey = await surveyCache(folder);
  const abandoned = new Set(findAbandoned(survey));
  const weights = survey.weights.filter((each) => each.key !== key);
  const stays = {
    weights: weights.filter((each) => each.isInUse),
    small: survey.small.filter((file) => !abandoned.has(file)),
  };
  const maxBytes = limitBytes - sizeBytes;
  const canFit = countBytes(stays) <= maxBytes;
  const { leftBytes } = await remove({ ...survey, weights }, [...abandoned], canFit ? maxBytes : Infinity);
  return leftBytes <= maxBytes;
}

const restMs = 60 * 60 * 1000;

/**
 * Files left by killed processes. If the writer's state is unknown, an hour without a write means that it is dead.
 */
function findAbandoned({ weights, small }: CacheSurvey): readonly SmallFile[] {
  const keys = new Set(weights.map(({ key }) => key));
  const oldestMs = Date.now() - restMs;
  return small.filter(({ name, changedMs }) => {
    const isOld = changedMs < oldestMs;
    if (name.kind === 'temporary')
      return isOld || (name.writer.host === hostTag() && !isRunning(name.writer.pid));
    return isOld && name.kind === 'note' && !keys.has(name.key);
  });
}

async function remove(
  { folder, ...survey }: CacheSurvey,
  small: readonly SmallFile[],
  maxBytes: number,
): Promise<Removal> {
  const removed: CachedWeights[] = [];
  const inUse: CachedWeights[] = [];
  const failures: { path: string; reason: string }[] = [];
  let leftBytes = countBytes(survey);
  const unlink = async (path: string): Promise<boolean> => {
    try {
      await rm(path, { force: true });
      return true;
    } catch (cause) {
      failures.push({ path, reason: describeCause(cause) });
      return false;
    }
  };
  for (const file of small) {
    if (await unlink(file.path)) leftBytes -= countBytes({ weights: [], small: [file] });
  }
  for (const each of survey.weights) {
    if (leftBytes <= maxBytes) break;
    // Checked again: another process may have started to use it since the survey.
    if (each.isInUse || (await listKeysInUse(folder)).has(each.key)) {
      inUse.push(each);
    } else if (await unlink(each.path)) {
      // The weights first: if this process is killed in between, the note that remains is harmless.
      await unlink(notePath(each.path));
      removed.push(each);
      leftBytes -= each.sizeBytes;
    }
  }
  return { removed, inUse, failures, leftBytes };
}
