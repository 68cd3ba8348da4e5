/**
 * Identity and sha256 of a weight file. Hashing gigabytes at every start would take seconds, so the result is kept in the
 * cache folder, in one small record per file. It is valid while size, times and inode are the same.
 */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from '../../core/schema.js';
import { replaceFile } from '../../core/durable-files.js';
import { readBoundedFile } from '../../core/files.js';
import { asCheckpointError, readExactly, withFile, type BinaryFile } from '../binary-file.js';
import { refuse } from '../stored-tensor.js';

export const hashText = (text: string): string => createHash('sha256').update(text).digest('hex');

/**
 * Small JSON records in the cache folder. A record that cannot be read or written only costs time at the next start. One
 * whose hash does not match (damage, manual edits) counts as absent.
 */
const maxRecordBytes = 64 * 1024;
const sealedSchema = z.object({ seal: z.string(), record: z.unknown() });

export async function readRecord<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
): Promise<z.infer<Schema> | undefined> {
  try {
    const text = (await readBoundedFile(path, maxRecordBytes)).toString('utf8');
    const { seal, record } = sealedSchema.parse(JSON.parse(text));
    return seal === hashText(JSON.stringify(record)) ? schema.parse(record) : undefined;
  } catch {
    return undefined;
  }
}

export async function writeRecord(path: string, record: object): Promise<void> {
  const sealed = JSON.stringify({ seal: hashText(JSON.stringify(record)), record });
  await replaceFile(path, sealed, { readers: 'private', isDurable: false }).catch(() => undefined);
}

const memoSchema = z.object({ identity: z.string(), sha256: z.string().regex(/^[0-9a-f]{64}$/) });

export async function hashFile(path: string, memoFolder: string): Promise<string> {
  const identity = await identifyFile(path);
  const memoPath = join(memoFolder, `${hashText(path).slice(0, 32)}.hash.json`);
  const known = await readRecord(memoPath, memoSchema);
  if (known?.identity === identity) return known.sha256;
  const sha256 = await withFile(path, (file) => hashBeginning(file, file.sizeBytes));
  await requireSameFiles([path], [identity]);
  await writeRecord(memoPath, { identity, sha256 });
  return sha256;
}

/** Changes whenever the file does, unless the clock is set back or the write is within one tick of it. */
export async function identifyFile(path: string): Promise<string> {
  try {
    const { size, mtimeNs, ctimeNs, ino, dev } = await stat(path, { bigint: true });
    return [path, size, mtimeNs, ctimeNs, ino, dev].join('|');
  } catch (cause) {
    throw asCheckpointError(path, cause);
  }
}

export async function requireSameFiles(
  paths: readonly string[],
  identities: readonly string[],
): Promise<void> {
  const now = await Promise.all(paths.map(identifyFile));
  if (now.join() === identities.join()) return;
  throw refuse(
    `the weights of ${paths.join(', ')} changed while they were read`,
    'Wait until they are fully written, then try again.',
  );
}

const chunkBytes = 4 * 1024 * 1024;

export async function hashBeginning(file: BinaryFile, sizeBytes: number): Promise<string> {
  const hash = createHash('sha256');
  const buffer = new Uint8Array(Math.min(chunkBytes, sizeBytes));
  for (let position = 0; position < sizeBytes; position += buffer.byteLength) {
    const chunk = buffer.subarray(0, Math.min(buffer.byteLength, sizeBytes - position));
    await readExactly(file, position, chunk);
    hash.update(chunk);
  }
  return hash.digest('hex');
}
