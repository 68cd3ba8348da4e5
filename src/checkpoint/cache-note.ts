/**
 * What is known of a cache file, in a record beside it: for which checkpoint it was made, and which file it was, by
 * its stat, when its bytes were last known to be right. The record's own time says when the weights were last used;
 * their file is left untouched, because any change of its times means that somebody else wrote to it.
 */
import { lstat, lutimes } from 'node:fs/promises';
import { z } from 'zod';
import { readRecord, writeRecord } from './cache-record.js';

const noteSchema = z.object({ identity: z.string(), checkpoint: z.string() });

export type CacheNote = z.infer<typeof noteSchema>;

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
