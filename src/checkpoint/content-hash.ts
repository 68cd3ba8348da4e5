/**
 * sha256 of a weight file. Hashing gigabytes at every start would cost seconds, so the result is kept in the cache
 * folder, one small JSON per file (no two writers share one), and holds as long as size, times and inode are the same.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { asCheckpointError, readExactly, withFile } from './binary-file.js';
import { refuse } from './stored-tensor.js';

const memoSchema = z.object({ identity: z.string(), sha256: z.string().regex(/^[0-9a-f]{64}$/) });

const chunkBytes = 4 * 1024 * 1024;

export async function hashFile(path: string, memoFolder: string): Promise<string> {
  const identity = await identifyFile(path);
  const memoPath = join(
    memoFolder,
    `${createHash('sha256').update(path).digest('hex').slice(0, 32)}.hash.json`,
  );
  const known = await readMemo(memoPath);
  if (known?.identity === identity) return known.sha256;
  const sha256 = await computeHash(path);
  if ((await identifyFile(path)) !== identity) {
    throw refuse(`${path} changed while it was read`, 'Wait until it is fully written, then try again.');
  }
  await writeMemo(memoPath, { identity, sha256 });
  return sha256;
}

/** Changes whenever the file does, short of somebody setting the clock back. */
export async function identifyFile(path: string): Promise<string> {
  try {
    const { size, mtimeNs, ctimeNs, ino, dev } = await stat(path, { bigint: true });
    return [path, size, mtimeNs, ctimeNs, ino, dev].join('|');
  } catch (cause) {
    throw asCheckpointError(path, cause);
  }
}

function computeHash(path: string): Promise<string> {
  return withFile(path, async (file) => {
    const hash = createHash('sha256');
    const buffer = new Uint8Array(Math.min(chunkBytes, file.sizeBytes));
    for (let position = 0; position < file.sizeBytes; position += buffer.byteLength) {
      const chunk = buffer.subarray(0, Math.min(buffer.byteLength, file.sizeBytes - position));
      await readExactly(file, position, chunk);
      hash.update(chunk);
    }
    return hash.digest('hex');
  });
}

async function readMemo(path: string): Promise<z.infer<typeof memoSchema> | undefined> {
  try {
    return memoSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return undefined; // absent or damaged: the file is hashed again
  }
}

/** Best effort: without the memo the next start is slower, not wrong. */
async function writeMemo(path: string, memo: z.infer<typeof memoSchema>): Promise<void> {
  const temporary = `${path}.${process.pid}.${randomBytes(8).toString('hex')}.tmp`;
  try {
    await writeFile(temporary, JSON.stringify(memo));
    await rename(temporary, path);
  } catch {
    await rm(temporary, { force: true }).catch(() => undefined);
  }
}
