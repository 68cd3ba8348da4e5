/** The cache for people who look into it: what each file was made for, and whether its bytes are still right. */
import { withFile } from '../binary-file.js';
import type { CheckResult } from './cache-check.js';
import { checkThoroughly, readNote } from './cache-check.js';
import type { CacheContent } from './cache-file.js';
import { readFooter } from './cache-file.js';
import { readCacheLimit } from './cache-folder.js';
import type { CachedWeights } from './cache-removal.js';
import { countBytes, surveyCache } from './cache-removal.js';

export interface DescribedWeights extends CachedWeights {
  /** Folder of the checkpoint that it was last used for, where that is known. */
  readonly checkpoint: string | undefined;
  /** Undefined where the file is damaged, or of another version. */
  readonly content: CacheContent | undefined;
}

export interface CacheContents {
  readonly folder: string;
  /** Infinite where there is none. */
  readonly limitBytes: number;
  readonly totalBytes: number;
  /** The most recently used first. */
  readonly weights: readonly DescribedWeights[];
  /** Files that are being written, or were left behind. */
  readonly temporaryCount: number;
  /** Files and folders that are not Mistletoe's. */
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

/** Reads every file. A damaged one is made anew when it is next needed, whatever was known of it before. */
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
