/**
 * Whether a cache file may be used without hashing it: only if its note matches, so not after any write, copy or touch
 * by another program, nor with `verify`.
 */
import { lstat, lutimes } from 'node:fs/promises';
import { z } from 'zod';
import { withFile } from '../binary-file.js';
import { readFooter, type CacheFooter } from './cache-file.js';
import { hashBeginning, identifyFile, readRecord, writeRecord } from './content-hash.js';

/**
 * A note beside each cache file: the checkpoint it was made for, and the file's identity (size, times, inode) when its
 * bytes were last checked. The note's mtime is the time of last use. The times of the cache file itself never change,
 * so a change means that another program wrote to it.
 */
const noteSchema = z.object({ identity: z.string(), checkpoint: z.string() });

type CacheNote = z.infer<typeof noteSchema>;

export const notePath = (weights: string): string => `${weights}.json`;

export async function readNote(weights: string): Promise<CacheNote | undefined> {
  return readRecord(notePath(weights), noteSchema);
}

/** Updates the note if it changed, else only its time. */
export async function recordUse(weights: string, note: CacheNote): Promise<void> {
  const known = await readNote(weights);
  if (known?.identity === note.identity && known.checkpoint === note.checkpoint) {
    const now = new Date();
    await lutimes(notePath(weights), now, now).catch(() => undefined); // not through links
  } else {
    await writeRecord(notePath(weights), note);
  }
}

/** Records a check without counting it as a use. Undefined marks the file as damaged. */
export async function recordCheck(weights: string, identity: string | undefined): Promise<void> {
  const [known, used] = [await readNote(weights), await readLastUse(weights)];
  await writeRecord(notePath(weights), { identity: identity ?? '', checkpoint: known?.checkpoint ?? '' });
  if (used !== undefined) await lutimes(notePath(weights), used, used).catch(() => undefined);
}

/** Without a note, as for files of older versions, the file's own mtime. */
export async function readLastUse(weights: string): Promise<Date | undefined> {
  for (const path of [notePath(weights), weights]) {
    const status = await lstat(path).catch(() => undefined);
    if (status !== undefined) return status.mtime;
  }
  return undefined;
}

export interface CheckOptions {
  /** Whether the file was made for this use. */
  readonly fits: (footer: CacheFooter) => boolean;
  /** Ignore the note and hash the file. */
  readonly verify?: boolean | undefined;
}

/** Processes that convert the same checkpoint at the same time replace the file once each. */
const maxAttempts = 16;

/** Undefined if the file is absent, damaged, or made for something else. */
export async function checkForUse(
  path: string,
  { fits, verify = false }: CheckOptions,
): Promise<{ readonly identity: string; readonly footer: CacheFooter } | undefined> {
  try {
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      if (!(await lstat(path)).isFile()) return undefined;
      const identity = await identifyFile(path);
      const footer = await withFile(path, async (file) => {
        const found = await readFooter(file);
        if (found === undefined || found === 'other-format' || !fits(found)) return undefined;
        if (!verify && (await readNote(path))?.identity === identity) return found;
        return (await hashBeginning(file, found.dataBytes)) === found.sha256 ? found : undefined;
      });
      if (footer === undefined) return undefined;
      // Otherwise the file that was checked is no longer the one at this path.
      if ((await identifyFile(path)) === identity) return { identity, footer };
    }
  } catch {
    return undefined;
  }
  return undefined;
}

export type CheckResult = 'whole' | 'damaged' | 'other-format';

/** Hashes the file and records the result in its note. */
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
