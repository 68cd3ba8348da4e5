/**
 * Whether a cache file may be used. Small files are read and hashed at every start. A large one is hashed when it is
 * not known to be the file that was right before: after any write, copy or touch from outside, or when asked.
 */
import { lstat } from 'node:fs/promises';
import { withFile } from './binary-file.js';
import type { CacheFooter } from './cache-file.js';
import { readFooter } from './cache-file.js';
import { readNote, recordCheck } from './cache-note.js';
import { hashBeginning, identifyFile } from './content-hash.js';

/** Up to here a start reads everything: a fifth of a second. */
export const defaultLargeBytes = 256 * 1024 * 1024;

export interface CheckOptions {
  /** Whether the file was made for this use. */
  readonly fits: (footer: CacheFooter) => boolean;
  readonly largeBytes?: number | undefined;
  /** Believe no note: read everything. */
  readonly verify?: boolean | undefined;
}

export interface UsableFile {
  readonly identity: string;
  readonly footer: CacheFooter;
}

/** A file that may be used; undefined if it is absent, damaged, or made for something else. */
export async function checkForUse(
  path: string,
  { fits, largeBytes = defaultLargeBytes, verify = false }: CheckOptions,
): Promise<UsableFile | undefined> {
  try {
    if (!(await lstat(path)).isFile()) return undefined;
    const identity = await identifyFile(path);
    const footer = await withFile(path, async (file) => {
      const found = await readFooter(file);
      if (found === undefined || found === 'other-format' || !fits(found)) return undefined;
      const isLarge = found.dataBytes > largeBytes;
      if (isLarge && !verify && (await readNote(path))?.identity === identity) return found;
      return (await hashBeginning(file, found.dataBytes)) === found.sha256 ? found : undefined;
    });
    return footer !== undefined && (await identifyFile(path)) === identity ? { identity, footer } : undefined;
  } catch {
    return undefined;
  }
}

export type CheckResult = 'whole' | 'damaged' | 'other-format';

/** Reads all of a file, whatever is known of it, and remembers the outcome. */
export async function checkThoroughly(path: string, key: string): Promise<CheckResult> {
  const identity = await identifyFile(path).catch(() => undefined);
  const result = await withFile(path, async (file): Promise<CheckResult> => {
    const footer = await readFooter(file);
    if (footer === undefined || footer === 'other-format') return footer ?? 'damaged';
    if (footer.key !== key) return 'damaged';
    return (await hashBeginning(file, footer.dataBytes)) === footer.sha256 ? 'whole' : 'damaged';
  }).catch((): CheckResult => 'damaged');
  if (result !== 'other-format') await recordCheck(path, result === 'whole' ? identity : undefined);
  return result;
}
