/**
 * Whether a cache file may be used. Small files are read and hashed at every start. A large one is hashed when it is
 * not known to be the file that was right before: after any write, copy or touch from outside, or when asked.
 */
import { lstat, lutimes } from 'node:fs/promises';
import { z } from 'zod';
import { withFile } from '../binary-file.js';
import type { CacheFooter } from './cache-file.js';
import { readFooter } from './cache-file.js';
import { hashBeginning, identifyFile, readRecord, writeRecord } from './content-hash.js';

/**
 * What is known of a cache file, in a record beside it: for which checkpoint it was made, and which file it was, by
 * its stat, when its bytes were last known to be right. The record's own time says when the weights were last used;
 * their file is left untouched, because any change of its times means that somebody else wrote to it.
 */
const noteSchema = z.object({ identity: z.string(), checkpoint: z.string() });

type CacheNote = z.infer<typeof noteSchema>;

export const notePath = (weights: string): string => `${weights}.json`;

export async function readNote(weights: string): Promise<CacheNote | undefined> {
  return readRecord(notePath(weights), noteSchema);
}

/** Writes what has changed, and the time. */
export async function recordUse(weights: string, note: CacheNote): Promise<void> {
  const known = await readNote(weights);
  if (known?.identity === note.identity && known.checkpoint === note.checkpoint) {
    const now = new Date();
    await lutimes(notePath(weights), now, now).catch(() => undefined); // of a link the link's own, not its target's
  } else {
    await writeRecord(notePath(weights), note);
  }
}

/** Remembers the outcome of a check, which is no use: undefined means that the file must not be believed. */
export async function recordCheck(weights: string, identity: string | undefined): Promise<void> {
  const [known, used] = [await readNote(weights), await readLastUse(weights)];
  await writeRecord(notePath(weights), { identity: identity ?? '', checkpoint: known?.checkpoint ?? '' });
  if (used !== undefined) await lutimes(notePath(weights), used, used).catch(() => undefined);
}

/** Without a record, as where an older version made the file, it was used when it was made. */
export async function readLastUse(weights: string): Promise<Date | undefined> {
  for (const path of [notePath(weights), weights]) {
    const status = await lstat(path).catch(() => undefined);
    if (status !== undefined) return status.mtime;
  }
  return undefined;
}

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
