import { lstat, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { runWithLimit } from '../../core/promises.js';
import { errnoOf, withFile } from '../binary-file.js';
import type { CacheContent, CheckResult } from './cache-file.js';
import { checkThoroughly, readFooter, readLastUse, readNote } from './cache-file.js';
import { classifyName, listKeysInUse, readCacheLimit, type CacheName } from './cache-folder.js';

export interface CachedWeights {
  readonly key: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly lastUsed: Date;
  /** By a running process. */
  readonly isInUse: boolean;
}

/** Notes, hashes and temporary files. */
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

/** The files of a cache folder by name and stat; their content is not read. A missing folder counts as empty. */
export async function surveyCache(givenFolder: string): Promise<CacheSurvey> {
  const folder = resolve(givenFolder);
  const inUse = await listKeysInUse(folder);
  const weights: CachedWeights[] = [];
  const small: SmallFile[] = [];
  let foreignCount = 0;
  const visit = async (entry: string): Promise<void> => {
    const name = classifyName(entry);
    if (name.kind === 'marks' || name.kind === 'kernels') return;
    const path = join(folder, entry);
    const status = name.kind === 'foreign' ? undefined : await lstat(path).catch(() => undefined);
    if (status?.isFile() !== true) {
      foreignCount += 1; // also folders and links with the name of a cache file
    } else if (name.kind === 'weights') {
      const lastUsed = (await readLastUse(path)) ?? status.mtime;
      const { key } = name;
      weights.push({ key, path, sizeBytes: status.size, lastUsed, isInUse: inUse.has(key) });
    } else {
      small.push({ name, path, sizeBytes: status.size, changedMs: status.mtimeMs });
    }
  };
  const names = await listNames(folder);
  await runWithLimit(
    names.map((name) => () => visit(name)),
    64,
  );
  weights.sort(
    (left, right) => left.lastUsed.getTime() - right.lastUsed.getTime() || (left.key < right.key ? -1 : 1),
  );
  return { folder, weights, small, foreignCount };
}

/** The size that counts towards the limit: finished and unfinished weights. Notes and hashes are too small to count. */
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

export interface DescribedWeights extends CachedWeights {
  /** Folder of the checkpoint that it was last used for, if known. */
  readonly checkpoint: string | undefined;
  /** Undefined if the file is damaged or of another version. */
  readonly content: CacheContent | undefined;
}

export interface CacheContents {
  readonly folder: string;
  /** Infinity: no limit. */
  readonly limitBytes: number;
  readonly totalBytes: number;
  /** The most recently used first. */
  readonly weights: readonly DescribedWeights[];
  /** Unfinished files, of running or killed processes. */
  readonly temporaryCount: number;
  /** Files and folders of other programs. */
  readonly foreignCount: number;
}

/**
 * @example
 * const { totalBytes, weights } = await describeCache(defaultCacheFolder());
 */
export async function describeCache(
  folder: string,
  limitBytes: number = readCacheLimit(),
): Promise<CacheContents> {
  const survey = await surveyCache(folder);
  const weights: DescribedWeights[] = [];
  for (const each of survey.weights.toReversed()) {
    const checkpoint = (await readNote(each.path))?.checkpoint;
    const footer = await withFile(each.path, readFooter).catch(() => undefined);
    const content = footer === 'other-format' ? undefined : footer?.content;
    weights.push({ ...each, checkpoint: checkpoint === '' ? undefined : checkpoint, content });
  }
  return {
    folder: survey.folder,
    limitBytes,
    weights,
    totalBytes: countBytes(survey),
    temporaryCount: survey.small.filter(({ name }) => name.kind === 'temporary').length,
    foreignCount: survey.foreignCount,
  };
}

export interface CheckedWeights extends CachedWeights {
  readonly result: CheckResult;
}

/** Hashes every file. A damaged one is made again when it is next needed. */
export async function verifyCache(
  folder: string,
  onFile: (checked: CheckedWeights) => void = () => undefined,
): Promise<readonly CheckedWeights[]> {
  const checked: CheckedWeights[] = [];
  for (const weights of (await surveyCache(folder)).weights.toReversed()) {
    const one = { ...weights, result: await checkThoroughly(weights.path, weights.key) };
    checked.push(one);
    onFile(one);
  }
  return checked;
}
