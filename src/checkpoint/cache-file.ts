/**
 * The cache file: weights as float32, each at a multiple of 4096 bytes so that it can be memory-mapped, then a JSON
 * footer and a fixed trailer.
 *
 *   data, padded to 4096 | footer | magic (8) | footer length (8) | sha256 of the footer (32)
 *
 * The trailer comes last, so a truncated file never has one. The footer holds the key, the tensor table and a
 * fingerprint of the data: sha256 of all of it below 256 MiB, of 64 evenly spread blocks of 64 KiB above, because
 * a start must not wait for gigabytes to be read. Damage between the sampled blocks of a large file goes unnoticed.
 */
import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import type { WeightLocation } from '../runtime/weights.js';
import { maximumTransferBytes, readBytes, readExactly, withFile } from './binary-file.js';
import type { ResolvedRecipe } from './weight-recipe.js';
import { streamWeight } from './weight-recipe.js';

export const formatVersion = 1;

const alignment = 4096;
const magic = Buffer.from('MISTLTOE', 'latin1');
const trailerBytes = 48;
const fullCheckBytes = 256 * 1024 * 1024;
const sampleCount = 64;
const sampleBytes = 64 * 1024;
const chunkBytes = 4 * 1024 * 1024;

/** Where the cache file's bytes go; tests put a full disk here. */
export interface CacheOutput {
  write(bytes: Uint8Array): Promise<void>;
  /** After this the bytes are on the disk. */
  finish(): Promise<void>;
  /** Gives up; must not throw. */
  abandon(): Promise<void>;
}

export interface CacheLayout {
  readonly tensors: ReadonlyMap<string, WeightLocation>;
  readonly dataBytes: number;
}

export function layOutWeights(
  recipes: readonly { readonly name: string; readonly shape: readonly number[] }[],
): CacheLayout {
  const tensors = new Map<string, WeightLocation>();
  let dataBytes = 0;
  for (const { name, shape } of recipes) {
    const sizeBytes = 4 * shape.reduce((product, size) => product * size, 1);
    tensors.set(name, { shape, offsetBytes: dataBytes, sizeBytes });
    dataBytes = Math.ceil((dataBytes + sizeBytes) / alignment) * alignment;
  }
  return { tensors, dataBytes };
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
      await handle.sync();
      await handle.close();
    },
    async abandon() {
      await closeQuietly(handle);
    },
  };
}

async function closeQuietly(handle: FileHandle): Promise<void> {
  await handle.close().catch(() => undefined);
}

export async function writeCacheFile(
  output: CacheOutput,
  key: string,
  recipes: readonly ResolvedRecipe[],
): Promise<void> {
  const layout = layOutWeights(recipes);
  const fingerprint = new Fingerprint(layout.dataBytes);
  let position = 0;
  const append = async (bytes: Uint8Array): Promise<void> => {
    fingerprint.update(position, bytes);
    position += bytes.byteLength;
    await output.write(bytes);
  };
  for (const recipe of recipes) {
    await streamWeight(recipe, (values) =>
      append(new Uint8Array(values.buffer, values.byteOffset, values.byteLength)),
    );
    await append(new Uint8Array((alignment - (position % alignment)) % alignment));
  }
  const footer = describe(key, layout, fingerprint.digest());
  await output.write(Buffer.concat([footer, makeTrailer(footer)]));
  await output.finish();
}

/** Whether the file is whole and was made for this key. A file that cannot be read is not. */
export async function verifyCacheFile(path: string, key: string, layout: CacheLayout): Promise<boolean> {
  return withFile(path, async (file) => {
    const fingerprint = new Fingerprint(layout.dataBytes);
    const footerBytes = describe(key, layout, '0'.repeat(64)).byteLength;
    if (file.sizeBytes !== layout.dataBytes + footerBytes + trailerBytes) return false;
    // The cheap part first: everything but the fingerprint is known in advance, so nothing needs parsing.
    const ending = await readBytes(file, layout.dataBytes, footerBytes + trailerBytes);
    const footer = ending.subarray(0, footerBytes);
    if (!ending.subarray(footerBytes).equals(makeTrailer(footer))) return false;
    const buffer = new Uint8Array(Math.min(chunkBytes, layout.dataBytes));
    for (const range of fingerprint.ranges) {
      for (let position = range.start; position < range.end; position += buffer.byteLength) {
        const chunk = buffer.subarray(0, Math.min(buffer.byteLength, range.end - position));
        await readExactly(file, position, chunk);
        fingerprint.update(position, chunk);
      }
    }
    return footer.equals(describe(key, layout, fingerprint.digest()));
  }).catch(() => false);
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

interface Range {
  readonly start: number;
  readonly end: number;
}

export function chooseRanges(dataBytes: number): readonly Range[] {
  if (dataBytes <= fullCheckBytes) return [{ start: 0, end: dataBytes }];
  const step = (dataBytes - sampleBytes) / (sampleCount - 1);
  return Array.from({ length: sampleCount }, (_, index) => {
    const start = Math.floor(index * step);
    return { start, end: start + sampleBytes };
  });
}

/** Hashes those bytes that fall into the checked ranges; bytes must come in order. */
class Fingerprint {
  readonly ranges: readonly Range[];
  readonly #hash: Hash = createHash('sha256');
  #current = 0;

  constructor(dataBytes: number) {
    this.ranges = chooseRanges(dataBytes);
  }

  update(position: number, bytes: Uint8Array): void {
    const end = position + bytes.byteLength;
    for (;;) {
      const range = this.ranges[this.#current];
      if (range === undefined || range.start >= end) return;
      const from = Math.max(range.start, position);
      if (from < range.end) this.#hash.update(bytes.subarray(from - position, range.end - position));
      if (range.end > end) return;
      this.#current += 1;
    }
  }

  digest(): string {
    return this.#hash.digest('hex');
  }
}
