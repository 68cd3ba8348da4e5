/**
 * Weights in the order that ONNX Runtime's matrix kernels read fastest, mapped from a file. Packed in memory, which is
 * what it does by itself, every session holds a second copy of all its weights: too much for a large model, and
 * without packing such a model decodes several times slower.
 *
 * ONNX Runtime can save packed weights beside the plain ones (session.save_external_prepacked_constant_initializers).
 * When a model is loaded it packs every weight again, one at a time, and hashes the result. A weight that names a saved
 * copy of that hash in its own file is then read from the mapped copy, and what was packed is dropped. The hash is not
 * compared with the copy's bytes, and nothing else reads the plain weight. So the file need not hold it: the plain
 * weight is a stand-in, a page of NaN followed by the packed copy itself, and the copy is named by the hash of the packed
 * stand-in. Each page of NaN is different, and so is each hash.
 *
 * A copy made for another processor or version of ONNX Runtime would not be found: both are part of the file's purpose.
 * If one is not found all the same, because a product was turned into another operation, the products are NaN, which
 * checked-session.ts notices.
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
import { makeProcessTag } from '../../core/processes.js';
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import type { NamedTensors } from '../program.js';
import { findWeight } from '../find-weight.js';
import type { FileWeights, PlacePiece, WeightLocation, WeightStore } from '../weights.js';
import { loadOnnxRuntime } from './load-onnxruntime.js';
import { lowerToOnnx } from './lowering.js';
import type { SavedCopy } from './saved-copies.js';
import { findCopies } from './saved-copies.js';
import { createSession } from './session.js';
import type { WeightProduct } from './weight-products.js';
import { listProducts } from './weight-products.js';

export interface PackedStores {
  /** To be asked before the weights that they were made of. */
  readonly stores: readonly FileWeights[];
  /** What products read and no store holds packed. */
  readonly unpackedBytes: number;
}

/** A file that was made of these weights; it holds those that kernels pack. */
interface PackedFile {
  readonly names: ReadonlySet<string>;
  readonly store: FileWeights;
}

export class PackedWeights {
  /** By the path of the plain weights; each waits for the one before it. */
  private readonly known = new Map<string, Promise<readonly PackedFile[]>>();
  /** Paths of weights for which the cache has no room: asked once, told once. */
  private readonly refused = new Set<string>();

  async find(outputs: NamedTensors, weights: readonly WeightStore[]): Promise<PackedStores> {
    const groups = new Map<WeightStore, WeightProduct[]>();
    let unpackedBytes = 0;
    for (const product of listProducts(outputs).values()) {
      const store = findWeight(weights, product.weight);
      if (isReadAlike(product)) groups.set(store, [...(groups.get(store) ?? []), product]);
      else unpackedBytes += product.sizeBytes;
    }
    const stores: FileWeights[] = [];
    for (const [store, products] of groups) {
      const packed = store.kind === 'file' ? await this.findFor(store, products) : undefined;
      if (packed !== undefined) stores.push(packed);
      for (const { weight, sizeBytes } of products)
        if (packed?.tensors.has(weight.attributes.name) !== true) unpackedBytes += sizeBytes;
    }
    return { stores, unpackedBytes };
  }

  private async findFor(
    store: FileWeights,
    products: readonly WeightProduct[],
  ): Promise<FileWeights | undefined> {
    const wanted = products.map(({ weight }) => weight.attributes.name);
    const holds = ({ names }: PackedFile): boolean => wanted.every((name) => names.has(name));
    const before = this.known.get(store.path) ?? Promise.resolve([]);
    const now = before.then(async (files) => {
      if (files.some(holds) || this.refused.has(store.path)) return files;
      const made = await obtain(store, products);
      if (made === undefined) this.refused.add(store.path);
      return made === undefined ? files : [...files, { names: new Set(wanted), store: made }];
    });
    this.known.set(
      store.path,
      now.catch(() => before),
    );
    return (await now).find(holds)?.store;
  }
}

/** Whether one packed copy serves all products of the weight. */
function isReadAlike({ weight, alone, others }: WeightProduct): boolean {
  return others.every((other) => hashProgram(other, weight) === hashProgram(alone, weight));
}

const tableSchema = z.array(
  z.object({ name: z.string(), offsetBytes: z.number(), copies: z.array(z.string()) }),
);
type Table = z.infer<typeof tableSchema>;

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
      packed: 2,
      onnxruntime: loadOnnxRuntime().env.versions.node,
      processor: await describeProcessor(),
      weights: products.map(({ weight, alone }) => [weight.attributes.name, hashProgram(alone, weight)]),
    }),
    sizeBytes: products.reduce((sum, product) => sum + boundSize(product), 0),
    write: (place) => packAll(store, products, place),
  });
  if (file === undefined) return undefined;
  const tensors = tableSchema.parse(file.table).map(({ name, offsetBytes, copies }) => {
    const { shape } = store.tensors.get(name)!;
    return [name, { shape, sizeBytes: floatBytes(shape), offsetBytes, copies }] as const;
  });
  return { kind: 'file', path: file.path, tensors: new Map(tensors), isForProducts: true };
}

const floatBytes = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 4);

/** Changes whenever a product comes to read its weight in another way, wherever the weight lies. */
function hashProgram(alone: Tensor, { attributes, shape: dimensions }: TensorOf<'weight'>): string {
  const shape = dimensions as readonly number[];
  const place: WeightLocation = { shape, offsetBytes: 0, sizeBytes: floatBytes(shape) };
  const store: FileWeights = { kind: 'file', path: '/weights', tensors: new Map([[attributes.name, place]]) };
  return createHash('sha256')
    .update(lowerToOnnx({ alone }, [store]).bytes)
    .digest('hex');
}

/** Of NaN before each copy. */
const pageBytes = 4096;

/** Kernels fill both sides of a packed matrix up to whole blocks. */
function boundSize({ weight }: WeightProduct): number {
  const packed = weight.shape.reduce<number>((product, size) => product * ((size as number) + 64), 4);
  return packed + 2 * pageBytes;
}

async function packAll(
  store: FileWeights,
  products: readonly WeightProduct[],
  place: PlacePiece,
): Promise<Table> {
  const table: Table = [];
  const hashes = new Set<string>();
  for (const product of products) {
    const packed = await packOne(store, product, place);
    if (packed === undefined) continue;
    // One hash for two weights would give one of them the other's values.
    if (hashes.has(packed.hash)) throw new Error(`two stand-ins have the hash ${packed.hash}`);
    hashes.add(packed.hash);
    table.push({ name: product.weight.attributes.name, ...packed.location });
  }
  return table;
}

interface PackedWeight {
  readonly hash: string;
  readonly location: Pick<WeightLocation, 'offsetBytes'> & { readonly copies: string[] };
}

/** Undefined where the kernel does not pack the weight, or in a way that no stand-in serves. */
async function packOne(
  store: FileWeights,
  { weight, alone }: WeightProduct,
  place: PlacePiece,
): Promise<PackedWeight | undefined> {
  const { name } = weight.attributes;
  const shape = weight.shape as readonly number[];
  const folder = dirname(store.path);
  const standIn = join(folder, `program.${makeProcessTag()}.packed`);
  try {
    const sizeBytes = floatBytes(shape);
    const page = makePage(`${store.path} ${name}`, Math.min(pageBytes, sizeBytes));
    const first = await saveProduct(alone, store, async (copies, data) => {
      const piece = onlyPiece(copies);
      if (piece === undefined || piece.sizeBytes + page.length < sizeBytes) return undefined;
      await writeFile(standIn, joinParts(page, data, piece, sizeBytes - page.length));
      const offsetBytes = await place(single(page));
      const copyBytes = await place(readPart(data, piece.offsetBytes, piece.sizeBytes));
      return { offsetBytes, copy: `${copyBytes};${piece.sizeBytes};0` };
    });
    if (first === undefined) return undefined;
    const location = { shape, offsetBytes: 0, sizeBytes };
    const window: FileWeights = { kind: 'file', path: standIn, tensors: new Map([[name, location]]) };
    const hash = await saveProduct(alone, window, (copies) => Promise.resolve(copies[0]?.hash));
    if (hash === undefined) throw new Error(`the stand-in of "${name}" was not packed`);
    // The same order serves all of these, and fusion may turn one into another.
    const copies = ['MatMul', 'FusedMatMul', 'Gemm'].map((operator) => `${operator}+${hash}|${first.copy}`);
    return { hash, location: { offsetBytes: first.offsetBytes, copies } };
  } finally {
    await rm(standIn, { force: true });
  }
}

function onlyPiece(copies: readonly SavedCopy[]): SavedCopy['pieces'][number] | undefined {
  const [copy, ...others] = copies;
  return others.length === 0 && copy?.pieces.length === 1 ? copy.pieces[0] : undefined;
}

/** NaN in float32, with bits that no other weight has. */
function makePage(identity: string, sizeBytes: number): Uint8Array {
  const digest = createHash('sha256').update(identity).digest();
  const words = Array.from({ length: digest.byteLength / 4 }, (_, word) => digest.readUInt32LE(4 * word));
  const bits = Uint32Array.from({ length: sizeBytes / 4 }, (_, at) => {
    return 0x7fc00000 | (words[at % words.length]! & 0x3fffff);
  });
  return new Uint8Array(bits.buffer);
}

/** Saves the product alone with its packed weight, and hands over what was saved. */
async function saveProduct<Result>(
  alone: Tensor,
  store: FileWeights,
  take: (copies: readonly SavedCopy[], data: string) => Promise<Result>,
): Promise<Result> {
  const folder = dirname(store.path);
  const [model, saved] = [1, 2].map(() => join(folder, `program.${makeProcessTag()}.onnx`)) as [
    string,
    string,
  ];
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
    return await take(findCopies((await readFile(saved)).toString('latin1')), data);
  } finally {
    for (const path of [model, saved, data]) await rm(path, { force: true });
  }
}

async function* single(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield await Promise.resolve(bytes);
}

async function* joinParts(
  page: Uint8Array,
  path: string,
  { offsetBytes }: SavedCopy['pieces'][number],
  sizeBytes: number,
): AsyncIterable<Uint8Array> {
  yield page;
  if (sizeBytes > 0) yield* readPart(path, offsetBytes, sizeBytes);
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
