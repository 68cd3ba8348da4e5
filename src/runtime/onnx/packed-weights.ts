/**
 * Weights in the order that ONNX Runtime's matrix kernels read fastest, mapped from a file. Packed in memory, which is
 * what it does by itself, every session holds a second copy of all its weights: too much for a large model, and
 * without packing such a model decodes several times slower.
 *
 * ONNX Runtime can save packed weights beside the plain ones (session.save_external_prepacked_constant_initializers).
 * When a model is loaded it packs every weight again, one at a time, and hashes the result; a weight that names a
 * saved copy of that hash in its own file is then read from the mapped copy, and what was packed is dropped. So a copy
 * from another processor or version costs memory, never a wrong product; they are part of the file's purpose all the
 * same. The hash is not compared with the copy's bytes: that they are right is the cache's promise.
 *
 * The copies are made by saving programs of one product each, which needs memory for one weight at a time. Every
 * program over the same weights then shares the file, and the system's pages of it.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, constants, readFile, rm, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { makeProcessTag } from '../../core/process-tag.js';
import type { Tensor } from '../../graph/tensor.js';
import type { NamedTensors } from '../program.js';
import { findWeight } from '../find-weight.js';
import type { FileWeights, PlacePiece, WeightStore } from '../weights.js';
import { loadOnnxRuntime } from './load-onnxruntime.js';
import { lowerToOnnx } from './lowering.js';
import { createSession } from './session.js';
import type { WeightProduct } from './weight-products.js';
import { listProducts } from './weight-products.js';

export interface PackedStores {
  /** To be asked before the weights that they were made of. */
  readonly stores: readonly FileWeights[];
  /** What products read and no store holds packed. */
  readonly unpackedBytes: number;
}

export class PackedWeights {
  /** By the path of the plain weights; each waits for the one before it. */
  private readonly known = new Map<string, Promise<readonly FileWeights[]>>();
  /** Paths of weights for which the cache has no room: asked once, told once. */
  private readonly refused = new Set<string>();

  async find(outputs: NamedTensors, weights: readonly WeightStore[]): Promise<PackedStores> {
    const groups = new Map<WeightStore, WeightProduct[]>();
    for (const product of listProducts(outputs).values()) {
      const store = findWeight(weights, product.weight);
      groups.set(store, [...(groups.get(store) ?? []), product]);
    }
    const stores: FileWeights[] = [];
    let unpackedBytes = 0;
    for (const [store, products] of groups) {
      const packed = store.kind === 'file' ? await this.findFor(store, products) : undefined;
      if (packed === undefined) unpackedBytes += products.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
      else stores.push(packed);
    }
    return { stores, unpackedBytes };
  }

  private async findFor(
    store: FileWeights,
    products: readonly WeightProduct[],
  ): Promise<FileWeights | undefined> {
    const holds = ({ tensors }: FileWeights): boolean =>
      products.every(({ weight }) => tensors.has(weight.attributes.name));
    const before = this.known.get(store.path) ?? Promise.resolve([]);
    const now = before.then(async (files) => {
      if (files.some(holds) || this.refused.has(store.path)) return files;
      const made = await obtain(store, products);
      if (made === undefined) this.refused.add(store.path);
      return made === undefined ? files : [...files, made];
    });
    this.known.set(
      store.path,
      now.catch(() => before),
    );
    return (await now).find(holds);
  }
}

const tableSchema = z.array(
  z.object({ name: z.string(), offsetBytes: z.number(), copies: z.array(z.string()) }),
);

async function obtain(
  store: FileWeights,
  products: readonly WeightProduct[],
): Promise<FileWeights | undefined> {
  // Where no program can be written beside the weights, nothing is mapped from there either.
  const isWritable = await access(dirname(store.path), constants.W_OK).then(
    () => true,
    () => false,
  );
  if (!isWritable || store.derived === undefined) return undefined;
  const file = await store.derived.keep({
    purpose: JSON.stringify({
      packed: 1,
      onnxruntime: loadOnnxRuntime().env.versions.node,
      processor: await describeProcessor(),
      weights: products.map(({ weight, alone }) => [weight.attributes.name, hashProgram(alone, store)]),
    }),
    sizeBytes: products.reduce((sum, product) => sum + boundSize(product), 0),
    write: (place) => packAll(store, products, place),
  });
  if (file === undefined) return undefined;
  const tensors = tableSchema.parse(file.table).map(({ name, offsetBytes, copies }) => {
    const { shape, sizeBytes } = store.tensors.get(name)!;
    return [name, { shape, sizeBytes, offsetBytes, copies }] as const;
  });
  return { kind: 'file', path: file.path, tensors: new Map(tensors) };
}

/** Changes whenever a product comes to read its weight in another way. */
function hashProgram(alone: Tensor, store: FileWeights): string {
  return createHash('sha256')
    .update(lowerToOnnx({ alone }, [store]).bytes)
    .digest('hex');
}

/** Plain and packed; kernels fill both sides of a packed matrix up to whole blocks. */
function boundSize({ weight, sizeBytes }: WeightProduct): number {
  const packed = weight.shape.reduce<number>((product, size) => product * ((size as number) + 64), 4);
  return sizeBytes + packed + 2 * 4096;
}

async function packAll(
  store: FileWeights,
  products: readonly WeightProduct[],
  place: PlacePiece,
): Promise<z.infer<typeof tableSchema>> {
  const table: z.infer<typeof tableSchema> = [];
  for (const product of products) {
    const { name } = product.weight.attributes;
    const { offsetBytes, sizeBytes } = store.tensors.get(name)!;
    const plain = await place(readPart(store.path, offsetBytes, sizeBytes));
    table.push({ name, offsetBytes: plain, copies: await packOne(store, product, place) });
  }
  return table;
}

/** Saves the product alone with its packed weight, and takes that from what was saved. */
async function packOne(store: FileWeights, { alone }: WeightProduct, place: PlacePiece): Promise<string[]> {
  const folder = dirname(store.path);
  const model = join(folder, `program.${makeProcessTag()}.onnx`);
  const saved = join(folder, `program.${makeProcessTag()}.onnx`);
  const data = join(folder, `program.${makeProcessTag()}.packed`);
  try {
    await writeFile(model, lowerToOnnx({ alone }, [store]).bytes);
    const session = await createSession(model, {
      optimizedModelFilePath: saved,
      intraOpNumThreads: 1,
      logSeverityLevel: 4,
      extra: {
        session: {
          optimized_model_external_initializers_file_name: basename(data),
          optimized_model_external_initializers_min_size_in_bytes: '1024',
          save_external_prepacked_constant_initializers: '1',
        },
      },
    });
    await session.release();
    const copies: string[] = [];
    for (const { hash, pieces } of findCopies((await readFile(saved)).toString('latin1'))) {
      const places: string[] = [];
      for (const { offsetBytes, sizeBytes } of pieces)
        places.push(`${await place(readPart(data, offsetBytes, sizeBytes))};${sizeBytes};0`);
      // The same order serves all of these, and fusion may turn one into another.
      for (const operator of ['MatMul', 'FusedMatMul', 'Gemm'])
        copies.push(`${operator}+${hash}|${places.join('|')}`);
    }
    return copies;
  } finally {
    for (const path of [model, saved, data]) await rm(path, { force: true });
  }
}

interface SavedCopy {
  readonly hash: string;
  readonly pieces: readonly { readonly offsetBytes: number; readonly sizeBytes: number }[];
}

/** A copy is named OPERATOR+HASH|OFFSET;LENGTH;CHECKSUM|... as text in the saved model. */
function findCopies(model: string): readonly SavedCopy[] {
  const names = model.matchAll(/(?:MatMul|Gemm)\+(\d+)((?:\|\d+;\d+;\d+)+)/g);
  return [...names].map(([, hash, places]) => ({
    hash: hash!,
    pieces: places!
      .slice(1)
      .split('|')
      .map((piece) => {
        const [offsetBytes, sizeBytes] = piece.split(';').map(Number);
        return { offsetBytes: offsetBytes!, sizeBytes: sizeBytes! };
      }),
  }));
}

/** Ends with an error if the file is shorter: a full disk cuts files without a word. */
async function* readPart(path: string, offsetBytes: number, sizeBytes: number): AsyncIterable<Uint8Array> {
  let left = sizeBytes;
  const stream = createReadStream(path, {
    start: offsetBytes,
    end: offsetBytes + sizeBytes - 1,
    highWaterMark: 4 * 1024 * 1024,
  });
  for await (const chunk of stream) {
    left -= (chunk as Buffer).byteLength;
    yield chunk as Buffer;
  }
  if (left > 0) throw new Error(`${path} ends ${left} bytes too early`);
}

/** Which order is fastest depends on the instructions that the processor has. */
async function describeProcessor(): Promise<string> {
  const information = await readFile('/proc/cpuinfo', 'utf8').catch(() => '');
  const instructions = /^(?:flags|Features)\s*:.*$/m.exec(information)?.[0] ?? '';
  return `${process.arch} ${cpus()[0]?.model ?? ''} ${instructions}`;
}
