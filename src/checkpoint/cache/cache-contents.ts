/** `mistletoe cache`: lists and verifies the files of the cache. */
import { withFile } from '../binary-file.js';
import type { CheckResult } from './cache-check.js';
import { checkThoroughly, readNote } from './cache-check.js';
import type { CacheContent } from './cache-file.js';
import { readFooter } from './cache-file.js';
import { readCacheLimit } from './cache-folder.js';
import type { CachedWeights } from './cache-removal.js';
import { countBytes, surveyCache } from './cache-removal.js';

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
    const content = await readContent(each.path);
    weights.push({ ...each, checkpoint: checkpoint === '' ? undefined : checkpoint, content });
  }
  return {
    ...{ folder: survey.folder, limitBytes, weights },
    totalBytes: countBytes(survey),
    temporaryCount: survey.small.filter(({ name }) => name.kind === 'temporary').length,
    foreignCount: survey.foreignCount,
  };
}

async function readContent(path: string): Promise<CacheContent | undefined> {
  const footer = await withFile(path, readFooter).catch(() => undefined);
  return footer === 'other-format' ? undefined : footer?.content;
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
