/**
 * The cache file: weights in float32 or 16 bits, or data that a runtime made of them, each piece aligned to 4096 bytes
 * for memory mapping, then a JSON footer and a fixed trailer:
 * data, padded to 4096 | footer | magic (8) | footer length (8) | sha256 of the footer (32)
 * The trailer comes last, so a truncated file never has one. The footer holds the key, a table of the pieces and the
 * sha256 of all data, which `checkForUse` compares.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { DerivedRequest, WeightLocation } from '../../runtime/weights.js';
import { type BinaryFile, readBytes, withFile } from '../binary-file.js';
import { bytesOf } from '../stored-tensor.js';
import { streamWeight, type ResolvedRecipe } from '../weight-recipe.js';
import type { Append } from '../written-folder.js';
import { lstat, lutimes } from 'node:fs/promises';
import { hashBeginning, identifyFile, readRecord, writeRecord } from './content-hash.js';

export const formatVersion = 2;

const alignment = 4096;
const magic = Buffer.from('MISTLTOE', 'latin1');
const trailerBytes = 48;
/** Many times the tensor table of the largest models. */
const maxFooterBytes = 64 * 1024 * 1024;

export interface CacheLayout {
  readonly tensors: ReadonlyMap<string, WeightLocation>;
  readonly dataBytes: number;
}

export function layOutWeights(
  recipes: readonly Pick<ResolvedRecipe, 'name' | 'shape' | 'dtype'>[],
): CacheLayout {
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

export function measureCacheFile(key: string, layout: CacheLayout): number {
  return layout.dataBytes + describeLayout(key, layout, '0'.repeat(64)).byteLength + trailerBytes;
}

export function writeWeights(append: Append, key: string, recipes: readonly ResolvedRecipe[]): Promise<void> {
  return writeSealed(append, key, async (write, align) => {
    for (const recipe of recipes) {
      for await (const values of streamWeight(recipe)) await write(bytesOf(values));
      await align();
    }
    return listTensors(layOutWeights(recipes));
  });
}

/** `place` returns a table of the pieces for readTable. */
export function writeDerived(append: Append, key: string, place: DerivedRequest['write']): Promise<void> {
  return writeSealed(append, key, async (write, align) => {
    const table = await place(async (bytes) => {
      const offset = await align();
      for await (const chunk of bytes) await write(chunk);
      return offset;
    });
    return { table };
  });
}

/** `fill` returns the footer's table. `align` pads to a multiple of 4096 and returns that position. */
async function writeSealed(
  append: Append,
  key: string,
  fill: (write: Append, align: () => Promise<number>) => Promise<object>,
): Promise<void> {
  const hash = createHash('sha256');
  let dataBytes = 0;
  const write: Append = async (bytes) => {
    hash.update(bytes);
    dataBytes += bytes.byteLength;
    await append(bytes);
  };
  const align = async (): Promise<number> => {
    await write(new Uint8Array((alignment - (dataBytes % alignment)) % alignment));
    return dataBytes;
  };
  const table = await fill(write, align);
  const footer = encodeFooter(key, dataBytes, hash.digest('hex'), table);
  await append(Buffer.concat([footer, makeTrailer(footer)]));
}

const listTensors = ({ tensors }: CacheLayout): object => ({
  tensors: [...tensors].map(([name, location]) => ({ name, ...location })),
});

function encodeFooter(key: string, dataBytes: number, sha256: string, table: object): Buffer {
  return Buffer.from(JSON.stringify({ format: formatVersion, key, dataBytes, sha256, ...table }));
}

const describeLayout = (key: string, layout: CacheLayout, sha256: string): Buffer =>
  encodeFooter(key, layout.dataBytes, sha256, listTensors(layout));

function makeTrailer(footer: Uint8Array): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(footer.byteLength));
  return Buffer.concat([magic, length, createHash('sha256').update(footer).digest()]);
}

export type CacheContent = 'plain' | 'packed';

/** The footer of a file whose size, footer and trailer agree. */
export interface CacheFooter {
  readonly key: string;
  readonly content: CacheContent;
  readonly dataBytes: number;
  readonly sha256: string;
  readonly bytes: Buffer;
  readonly table?: unknown;
}

const hashText = z.string().regex(/^[0-9a-f]{64}$/);
const footerSchema = z.object({
  key: hashText,
  dataBytes: z.number().int().nonnegative(),
  sha256: hashText,
  table: z.unknown().optional(),
});

/** Reads the end of the file only; `undefined` means damaged. */
export async function readFooter(file: BinaryFile): Promise<CacheFooter | 'other-format' | undefined> {
  if (file.sizeBytes < trailerBytes) return undefined;
  const trailer = await readBytes(file, file.sizeBytes - trailerBytes, trailerBytes);
  const footerBytes = Number(trailer.readBigUInt64LE(magic.byteLength));
  const dataBytes = file.sizeBytes - trailerBytes - footerBytes;
  if (footerBytes > maxFooterBytes || dataBytes < 0) return undefined;
  const bytes = await readBytes(file, dataBytes, footerBytes);
  if (!trailer.equals(makeTrailer(bytes))) return undefined;
  const contents: unknown = JSON.parse(bytes.toString('utf8')); // its hash fits, so it is what was written
  if (!z.object({ format: z.literal(formatVersion) }).safeParse(contents).success) return 'other-format';
  const footer = footerSchema.parse(contents);
  const content = footer.table === undefined ? 'plain' : 'packed';
  return footer.dataBytes === dataBytes ? { ...footer, content, bytes } : undefined;
}

/** Whether the file was made for this key and has exactly these tensors in these places. */
export function fitsLayout({ bytes, sha256 }: CacheFooter, key: string, layout: CacheLayout): boolean {
  return bytes.equals(describeLayout(key, layout, sha256));
}

// Whether a cache file may be used without hashing it: only if its note matches, so not after any write, copy or touch
// by another program, nor with `verify`.
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

/** Processes that convert the same checkpoint at the same time replace the file once each. */
const maxAttempts = 16;

/** Undefined if the file is absent, damaged, or made for something else. `verify` ignores the note and hashes the file. */
export async function checkForUse(
  path: string,
  fits: (footer: CacheFooter) => boolean,
  verify = false,
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
