/**
 * Making room. Files go one at a time and by unlink alone: a process that has mapped one keeps it until it ends, and
 * whoever is killed in between leaves a smaller cache that is whole. What a running process uses stays.
 */
import { lstat, readdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { kernelFileName, kernelsFolder } from '../../core/default-cache-folder.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { hostTag, isRunning } from '../../core/processes.js';
import { errnoOf } from '../binary-file.js';
import { notePath, readLastUse } from './cache-check.js';
import type { CacheName } from './cache-folder.js';
import { classifyName } from './cache-folder.js';
import { isInUse, listKeysInUse } from './cache-use.js';

/** What lies in a cache folder, by name and stat: no weights are read, and what is not Mistletoe's is only counted. */
export interface CachedWeights {
  readonly key: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly lastUsed: Date;
  /** By a process that runs now. */
  readonly isInUse: boolean;
}

/** Notes, hashes, and what is being written or was left behind. */
interface SmallFile {
  readonly name: CacheName;
  readonly path: string;
  readonly sizeBytes: number;
  readonly changedMs: number;
}

interface CacheSurvey {
  readonly folder: string;
  /** The least recently used first. */
  readonly weights: readonly CachedWeights[];
  readonly small: readonly SmallFile[];
  readonly foreignCount: number;
}

/** A folder that does not exist is an empty one. */
export async function surveyCache(givenFolder: string): Promise<CacheSurvey> {
  const folder = resolve(givenFolder);
  const inUse = await listKeysInUse(folder);
  const weights: CachedWeights[] = [];
  const small: SmallFile[] = [];
  let foreignCount = 0;
  await visitAll(await listNames(folder), async (entry) => {
    const name = classifyName(entry);
    if (name.kind === 'marks' || name.kind === 'kernels') return;
    const path = join(folder, entry);
    const status = name.kind === 'foreign' ? undefined : await lstat(path).catch(() => undefined);
    if (status?.isFile() !== true) {
      foreignCount += 1; // also a folder or a link by the name of a cache file: Mistletoe makes none
    } else if (name.kind === 'weights') {
      const lastUsed = (await readLastUse(path)) ?? status.mtime;
      weights.push({
        ...{ key: name.key, path, sizeBytes: status.size, lastUsed },
        isInUse: inUse.has(name.key),
      });
    } else {
      small.push({ name, path, sizeBytes: status.size, changedMs: status.mtimeMs });
    }
  });
  weights.sort(
    (left, right) => left.lastUsed.getTime() - right.lastUsed.getTime() || (left.key < right.key ? -1 : 1),
  );
  return { folder, weights, small, foreignCount };
}

/** What the limit is held against: weights, finished or being written. Notes and hashes of some hundred bytes are not. */
export function countBytes({ weights, small }: Pick<CacheSurvey, 'weights' | 'small'>): number {
  const files = [...weights, ...small.filter(({ name }) => name.kind === 'temporary')];
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

async function listNames(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return [];
    throw new MistletoeError('usage', `The cache folder ${folder} cannot be read: ${describeCause(cause)}`, {
      hint: 'Give --cache-dir or set MISTLETOE_CACHE to a folder that you may read.',
      cause,
    });
  }
}

const atOnce = 64;

/** A folder may hold a hundred thousand files. */
async function visitAll(names: readonly string[], visit: (name: string) => Promise<void>): Promise<void> {
  for (let start = 0; start < names.length; start += atOnce) {
    await Promise.all(names.slice(start, start + atOnce).map(visit));
  }
}

export interface Removal {
  readonly removed: readonly CachedWeights[];
  /** By processes that run now; they would have been removed. */
  readonly inUse: readonly CachedWeights[];
  readonly failures: readonly { readonly path: string; readonly reason: string }[];
  readonly leftBytes: number;
}

/** Removes the least recently used until what is left takes no more than `maxBytes`. */
export async function trimCache(folder: string, maxBytes: number): Promise<Removal> {
  const survey = await surveyCache(folder);
  return remove(survey, findAbandoned(survey), maxBytes);
}

/** Removes everything but what is in use, what is being written, and what is not Mistletoe's. */
export async function clearCache(folder: string): Promise<Removal> {
  const survey = await surveyCache(folder);
  const hashes = survey.small.filter(({ name }) => name.kind === 'hash');
  await removeKernels(join(folder, kernelsFolder));
  return remove(survey, [...hashes, ...findAbandoned(survey)], -1);
}

/** They are few, small, and made by the next start that needs them: they do not count. */
async function removeKernels(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => []))
    if (kernelFileName.test(name)) await rm(join(folder, name), { force: true }).catch(() => undefined);
}

export interface RoomRequest {
  /** Of the file that is about to be written; an old one of the same key is replaced by it. */
  readonly key: string;
  readonly sizeBytes: number;
  readonly limitBytes: number;
}

/** Whether the file fits now. Where it cannot, because it or what is in use is too large, nothing is removed in vain. */
export async function makeRoom(
  folder: string,
  { key, sizeBytes, limitBytes }: RoomRequest,
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
 * Removes what killed processes of this host left behind, by the names alone: cheap enough for every start. What else
 * was left goes when room is made.
 */
export async function removeRemains(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    if (isRemains(classifyName(name))) await rm(join(folder, name), { force: true }).catch(() => undefined);
  }
}

function isRemains(name: CacheName): boolean {
  if (name.kind !== 'temporary' || name.writer?.host !== hostTag()) return false;
  return !isRunning(name.writer.pid);
}

/**
 * What killed processes left behind. Where the writer cannot be asked, an hour of rest means death: a living one
 * touches its file all the time.
 */
function findAbandoned({ weights, small }: CacheSurvey): readonly SmallFile[] {
  const keys = new Set(weights.map(({ key }) => key));
  const oldestMs = Date.now() - restMs;
  return small.filter(
    ({ name, changedMs }) =>
      isRemains(name) ||
      (changedMs < oldestMs && (name.kind === 'temporary' || (name.kind === 'note' && !keys.has(name.key)))),
  );
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
    // Asked again just before: another process may have come to use it since the survey.
    if (each.isInUse || (await isInUse(folder, each.key))) {
      inUse.push(each);
    } else if (await unlink(each.path)) {
      // The weights first: killed in between, it is the note that stays behind, and a note alone is harmless.
      await unlink(notePath(each.path));
      removed.push(each);
      leftBytes -= each.sizeBytes;
    }
  }
  return { removed, inUse, failures, leftBytes };
}
