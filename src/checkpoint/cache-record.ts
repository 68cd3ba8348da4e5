/**
 * Small facts kept as JSON in the cache folder. One that cannot be written or read costs time at the next start and
 * nothing else; one whose seal does not fit (a flipped bit, an edit by hand, a file of another kind) counts as absent.
 */
import { createHash } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { z } from 'zod';
import { readBoundedFile } from '../core/bounded-file.js';
import { makeProcessTag } from '../core/process-tag.js';

const mostRecordBytes = 64 * 1024;
const sealedSchema = z.object({ seal: z.string(), record: z.unknown() });

export async function readRecord<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
): Promise<z.infer<Schema> | undefined> {
  try {
    const text = (await readBoundedFile(path, mostRecordBytes)).toString('utf8');
    const { seal, record } = sealedSchema.parse(JSON.parse(text));
    return seal === computeSeal(record) ? schema.parse(record) : undefined;
  } catch {
    return undefined;
  }
}

/** Says whether it could be written. The file is replaced, never changed: readers see the old record or the new one. */
export async function writeRecord(path: string, record: object): Promise<boolean> {
  const temporary = `${path}.${makeProcessTag()}.tmp`;
  try {
    await writeFile(temporary, JSON.stringify({ seal: computeSeal(record), record }), { mode: 0o600 });
    await rename(temporary, path);
    return true;
  } catch {
    await rm(temporary, { force: true }).catch(() => undefined);
    return false;
  }
}

function computeSeal(record: unknown): string {
  return createHash('sha256').update(JSON.stringify(record)).digest('hex');
}
