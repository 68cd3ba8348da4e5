/**
 * Whether a cache file may be used. Small files are read and hashed at every start. A large one is hashed when it is
 * not known to be the file that was right before: after any write, copy or touch from outside, or when asked.
 */
import { lstat } from 'node:fs/promises';
import { withFile } from './binary-file.js';
import type { CacheLayout } from './cache-file.js';
import { fitsLayout, readFooter } from './cache-file.js';
import { readNote, recordCheck } from './cache-note.js';
import { hashBeginning, identifyFile } from './content-hash.js';

/** Up to here a start reads everything: a fifth of a second. */
export const defaultLargeBytes = 256 * 1024 * 1024;

export interface CheckOptions {
  readonly key: string;
  readonly layout: CacheLayout;
  readonly largeBytes?: number | undefined;
  /** Believe no note: read everything. */
  readonly verify?: boolean | undefined;
}

/** The identity of a file that may be used; undefined if it is absent, damaged, or made for something else. */
export async function checkForUse(
  path: string,
  { key, layout, largeBytes = defaultLargeBytes, verify = false }: CheckOptions,
): Promise<string | undefined> {
  try {
    if (!(await lstat(path)).isFile()) return undefined;
    const identity = await identifyFile(path);
    const isWhole = await withFile(path, async (file) => {
      const footer = await readFooter(file);
      if (footer === undefined || footer === 'other-format' || !fitsLayout(footer, key, layout)) return false;
      const isLarge = layout.dataBytes > largeBytes;
      if (isLarge && !verify && (await readNote(path))?.identity === identity) return true;
      return (await hashBeginning(file, layout.dataBytes)) === footer.sha256;
    });
    return isWhole && (await identifyFile(path)) === identity ? identity : undefined;
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
