/** What lies in a cache folder, by name and stat: no weights are read, and what is not Mistletoe's is only counted. */
import { lstat, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describeCause, MistletoeError } from '../core/errors.js';
import { errnoOf } from './binary-file.js';
import type { CacheName } from './cache-folder.js';
import { classifyName } from './cache-folder.js';
import { readLastUse } from './cache-note.js';
import { listKeysInUse } from './cache-use.js';

export interface CachedWeights {
  readonly key: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly lastUsed: Date;
  /** By a process that runs now. */
  readonly isInUse: boolean;
}

/** Notes, hashes, and what is being written or was left behind. */
export interface SmallFile {
  readonly name: CacheName;
  readonly path: string;
  readonly sizeBytes: number;
  readonly changedMs: number;
}

export interface CacheSurvey {
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
