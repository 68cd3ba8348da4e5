/**
 * The cache file: weights in float32 or 16 bits, or data that a runtime made of them, each piece aligned to 4096 bytes
 * for memory mapping, then a JSON footer and a fixed trailer:
 * data, padded to 4096 | footer | magic (8) | footer length (8) | sha256 of the footer (32)
 * The trailer comes last, so a truncated file never has one. The footer holds the key, a table of the pieces and the
 * sha256 of all data.
 */
import { createHash } from 'node:crypto';
import { lstat, lutimes } from 'node:fs/promises';
import * as z from '../../core/schema.js';
import type { PlacePiece, WeightLocation } from '../../runtime/weights.js';
import { type BinaryFile, readBytes, withFile } from '../binary-file.js';
import type { ResolvedRecipe } from '../weight-recipe.js';
import type { Append } from '../written-folder.js';
import { hashBeginning, identifyFile, readRecord, writeRecord } from './content-hash.js';

export const formatVersion = 2;

const alignment = 4096;
const magic = Buffer.from('MISTLTOE', 'latin1');
const trailerBytes = 48;
/** Many times the tensor table of the largest models. */
const maxFooterBytes = 64 * 1024 * 1024;

/** Where writeCacheFile puts the weights, if each is one piece. */
export function layOutWeights(recipes: readonly Pick<ResolvedRecipe, 'name' | 'shape' | 'dtype'>[]) {
  const tensors = new Map<string, WeightLocation>();
  let dataBytes = 0;
  for (const { name, shape, dtype } of recipes) {
    const itemBytes = dtype === undefined ? 4 : 2;
    const sizeBytes = itemBytes * shape.reduce((product, size) => product * size, 1);
    tensors.set(name, { shape, offsetBytes: dataBytes, sizeBytes, dtype });
    dataBytes = Math.ceil((dataBytes + sizeBytes) / alignment) * alignment;
  }
  return { tensors, dataBytes };
}

/** `write` returns what the footer says about its pieces. */
export async function writeCacheFile(
  append: Append,
  key: string,
  write: (place: PlacePiece) => Promise<object>,
): Promise<void> {
  const hash = createHash('sha256');
  let dataBytes = 0;
  const add: Append = async (bytes) => {
    hash.update(bytes);
    dataBytes += bytes.byteLength;
    await append(bytes);
  };
  const align = () => add(new Uint8Array((alignment - (dataBytes % alignment)) % alignment));
  const table = await write(async (piece) => {
    await align();
    const offset = dataBytes;
    for await (const bytes of piece) await add(bytes);
    return offset;
  });
  await align();
  const sha256 = hash.digest('hex');
  const footer = Buffer.from(JSON.stringify({ format: formatVersion, key, dataBytes, sha256, ...table }));
  await append(Buffer.concat([footer, makeTrailer(footer)]));
}

function makeTrailer(footer: Uint8Array): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(footer.byteLength));
  return Buffer.concat([magic, length, createHash('sha256').update(footer).digest()]);
}

const sha256Schema = z.string().regex(/^[0-9a-f]{64}$/);
const footerSchema = z.object({
  key: sha256Schema,
  dataBytes: z.number().int().nonnegative(),
  sha256: sha256Schema,
  /** Of data that a runtime made. */
  table: z.unknown().optional(),
});
export type CacheFooter = z.infer<typeof footerSchema>;

/** Reads the end of the file only: the footer of a file whose size, footer and trailer agree. */
export async function readFooter(file: BinaryFile): Promise<CacheFooter | 'other-format' | 'damaged'> {
  if (file.sizeBytes < trailerBytes) return 'damaged';
  const trailer = await readBytes(file, file.sizeBytes - trailerBytes, trailerBytes);
  const footerBytes = Number(trailer.readBigUInt64LE(magic.byteLength));
  const dataBytes = file.sizeBytes - trailerBytes - footerBytes;
  if (footerBytes > maxFooterBytes || dataBytes < 0) return 'damaged';
  const bytes = await readBytes(file, dataBytes, footerBytes);
  if (!trailer.equals(makeTrailer(bytes))) return 'damaged';
  const contents: unknown = JSON.parse(bytes.toString('utf8')); // its hash fits, so it is what was written
  if (!z.object({ format: z.literal(formatVersion) }).safeParse(contents).success) return 'other-format';
  const footer = footerSchema.parse(contents);
  return footer.dataBytes === dataBytes ? footer : 'damaged';
}

/**
 * A note beside each cache file: the checkpoint it was made for, and the file's identity (size, times, inode) when its
 * bytes were last checked. The note's mtime is the time of last use. The times of the cache file itself never change,
 * so a change means that another program wrote to it.
 */
const noteSchema = z.object({ identity: z.string(), checkpoint: z.string() });

export const notePath = (weights: string): string => `${weights}.json`;

export const readNote = (weights: string) => readRecord(notePath(weights), noteSchema);

export async function recordUse(
  weights: string,
  note: z.infer<typeof noteSchema>,
  used = new Date(),
): Promise<void> {
  await writeRecord(notePath(weights), note);
  await lutimes(notePath(weights), used, used).catch(() => undefined); // not through links
}

/** Records a check without counting it as a use. An empty identity marks the file as damaged. */
export async function recordCheck(weights: string, identity: string): Promise<void> {
  const checkpoint = (await readNote(weights))?.checkpoint ?? '';
  await recordUse(weights, { identity, checkpoint }, await readLastUse(weights));
}

/** Without a note, as for files of older versions, the file's own mtime. */
export async function readLastUse(weights: string): Promise<Date | undefined> {
  for (const path of [notePath(weights), weights]) {
    const status = await lstat(path).catch(() => undefined);
    if (status !== undefined) return status.mtime;
  }
  return undefined;
}

export type CheckedFile =
  | { readonly result: 'whole'; readonly identity: string; readonly footer: CacheFooter }
  | { readonly result: 'damaged' | 'other-format' };

/** Processes that convert the same checkpoint at the same time replace the file once each. */
const maxAttempts = 16;

/**
 * Hashes the file, unless its note matches: so after any write, copy or touch by another program, and with `verify`.
 * A file that is absent or has another key counts as damaged.
 */
export async function checkCacheFile(path: string, key: string, verify: boolean): Promise<CheckedFile> {
  try {
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      if (!(await lstat(path)).isFile()) break;
      const identity = await identifyFile(path);
      const isKnown = !verify && (await readNote(path))?.identity === identity;
      const checked = await withFile(path, async (file): Promise<CheckedFile> => {
        const footer = await readFooter(file);
        if (typeof footer === 'string') return { result: footer };
        if (footer.key !== key) return { result: 'damaged' };
        const isWhole = isKnown || (await hashBeginning(file, footer.dataBytes)) === footer.sha256;
        return isWhole ? { result: 'whole', identity, footer } : { result: 'damaged' };
      });
      // Otherwise the file that was checked is no longer the one at this path.
      if (checked.result !== 'whole' || (await identifyFile(path)) === identity) return checked;
    }
  } catch {
    return { result: 'damaged' };
  }
  return { result: 'damaged' };
}
