/**
 * The cache file: weights in float32 or 16 bits, or data that a runtime made of them, each piece aligned to 4096 bytes for
 * memory mapping, then a JSON footer and a fixed trailer.
 *
 *   data, padded to 4096 | footer | magic (8) | footer length (8) | sha256 of the footer (32)
 *
 * The trailer comes last, so a truncated file never has one. The footer holds the key, a table of the pieces and the
 * sha256 of all data, which cache-check.ts compares.
 */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { z } from 'zod';
import type { PlacePiece, WeightLocation } from '../../runtime/weights.js';
import type { BinaryFile } from '../binary-file.js';
import { maximumTransferBytes, readBytes } from '../binary-file.js';
import type { ResolvedRecipe } from '../weight-recipe.js';
import { streamWeight } from '../weight-recipe.js';

export const formatVersion = 2;

const alignment = 4096;
const magic = Buffer.from('MISTLTOE', 'latin1');
const trailerBytes = 48;
/** Many times the tensor table of the largest models. */
const maxFooterBytes = 64 * 1024 * 1024;

/** The file being written; replaced in tests that need a full disk. */
export interface CacheOutput {
  write(bytes: Uint8Array): Promise<void>;
  /** Syncs the file and makes it read-only. */
  finish(): Promise<void>;
  /** Closes the file; must not throw. */
  abandon(): Promise<void>;
}

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
    const place = { shape, offsetBytes: dataBytes, sizeBytes };
    tensors.set(name, dtype === undefined ? place : { ...place, dtype });
    dataBytes = Math.ceil((dataBytes + sizeBytes) / alignment) * alignment;
  }
  return { tensors, dataBytes };
}

/** Size of the whole file in bytes. */
export function measureCacheFile(key: string, layout: CacheLayout): number {
  return layout.dataBytes + describe(key, layout, '0'.repeat(64)).byteLength + trailerBytes;
}

export async function openCacheOutput(path: string): Promise<CacheOutput> {
  const handle = await open(path, 'wx', 0o600);
  return {
    async write(bytes) {
      for (let written = 0; written < bytes.byteLength;) {
        const length = Math.min(bytes.byteLength - written, maximumTransferBytes);
        written += (await handle.write(bytes, written, length)).bytesWritten;
      }
    },
    async finish() {
      // A finished file may be mapped, so nobody should write to it. Some file systems have no modes.
      await handle.chmod(0o400).catch(() => undefined);
      await handle.sync();
      await handle.close();
    },
    async abandon() {
      await handle.close().catch(() => undefined);
    },
  };
}

export async function writeCacheFile(
  output: CacheOutput,
  key: string,
  recipes: readonly ResolvedRecipe[],
): Promise<void> {
  const layout = layOutWeights(recipes);
  await writeSealed(output, async (append, align) => {
    for (const recipe of recipes) {
      await streamWeight(recipe, (values) =>
        append(new Uint8Array(values.buffer, values.byteOffset, values.byteLength)),
      );
      await align();
    }
    return (_, sha256) => describe(key, layout, sha256);
  });
}

/** `write` places the pieces and returns a table of them for readTable. */
export async function writeDerivedFile(
  output: CacheOutput,
  key: string,
  write: (place: PlacePiece) => Promise<unknown>,
): Promise<void> {
  await writeSealed(output, async (append, align) => {
    const table = await write(async (bytes) => {
      const offset = await align();
      for await (const chunk of bytes) await append(chunk);
      return offset;
    });
    return (dataBytes, sha256) =>
      Buffer.from(JSON.stringify({ format: formatVersion, key, dataBytes, sha256, table }));
  });
}

/** Of a file that writeDerivedFile has written. */
export function readTable({ bytes }: CacheFooter): unknown {
  return z.object({ table: z.unknown() }).parse(JSON.parse(bytes.toString('utf8'))).table;
}

/** `align` pads to the next multiple of 4096 and returns that position. */
async function writeSealed(
  output: CacheOutput,
  write: (
    append: (bytes: Uint8Array) => Promise<void>,
    align: () => Promise<number>,
  ) => Promise<(dataBytes: number, sha256: string) => Buffer>,
): Promise<void> {
  const hash = createHash('sha256');
  let position = 0;
  const append = async (bytes: Uint8Array): Promise<void> => {
    hash.update(bytes);
    position += bytes.byteLength;
    await output.write(bytes);
  };
  const align = async (): Promise<number> => {
    await append(new Uint8Array((alignment - (position % alignment)) % alignment));
    return position;
  };
  const describeFooter = await write(append, align);
  const footer = describeFooter(position, hash.digest('hex'));
  await output.write(Buffer.concat([footer, makeTrailer(footer)]));
  await output.finish();
}

/** Converted weights, or data that a runtime made of them. */
export type CacheContent = 'plain' | 'packed';

/** The footer of a file whose size, footer and trailer agree. */
export interface CacheFooter {
  readonly key: string;
  readonly content: CacheContent;
  readonly dataBytes: number;
  readonly sha256: string;
  readonly bytes: Buffer;
}

const hashText = z.string().regex(/^[0-9a-f]{64}$/);
const footerSchema = z.object({
  ...{ key: hashText, dataBytes: z.number().int().nonnegative(), sha256: hashText },
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
  const { table, ...footer } = footerSchema.parse(contents);
  const content = table === undefined ? 'plain' : 'packed';
  return footer.dataBytes === dataBytes ? { ...footer, content, bytes } : undefined;
}

/** Whether the file was made for this key and has exactly these tensors in these places. */
export function fitsLayout({ bytes, sha256 }: CacheFooter, key: string, layout: CacheLayout): boolean {
  return bytes.equals(describe(key, layout, sha256));
}

function describe(key: string, layout: CacheLayout, sha256: string): Buffer {
  const tensors = [...layout.tensors].map(([name, location]) => ({ name, ...location }));
  const { dataBytes } = layout;
  return Buffer.from(JSON.stringify({ format: formatVersion, key, dataBytes, sha256, tensors }));
}

function makeTrailer(footer: Uint8Array): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(footer.byteLength));
  return Buffer.concat([magic, length, createHash('sha256').update(footer).digest()]);
}
