/**
 * Weights in the order of ONNX Runtime's matrix kernels, mapped from a file. Packing in memory would give every
 * session a second copy of all weights; without packing, large models decode several times slower.
 * ONNX Runtime can save packed weights (session.save_external_prepacked_constant_initializers). When it loads a model
 * it packs each weight again and hashes the result; if the file names a saved copy with that hash, the mapped copy is
 * used. The hash is not compared with the copy's bytes, so the file need not hold the plain weight: it has a
 * stand-in, a unique page of NaN followed by the packed copy, named by the hash of the packed stand-in.
 * Processor and ONNX Runtime version are part of the file's purpose. If a copy is still not found (the product was
 * fused into another operation), products are NaN, which session.ts detects. Copies are made one weight at a
 * time, and all programs share the file.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, constants, readFile, rm } from 'node:fs/promises';
import { cpus } from 'node:os';
import { basename, dirname, join } from 'node:path';
import * as z from '../../core/schema.js';
import { openToWrite } from '../../core/durable-files.js';
import { makeProcessTag } from '../../core/processes.js';
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import type { FileWeights, PlacePiece, WeightLocation, WeightStore } from '../weights.js';
import { findWeight } from '../weights.js';
import type { NamedTensors } from '../program.js';
import { loadOnnxRuntime } from './load-onnxruntime.js';
import { lowerToOnnx } from './lowering.js';
import { mappingFrom } from './weight-placement.js';
import { listProducts, type WeightProduct } from './weight-products.js';

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

export interface PackedStores {
  /** To be searched before the stores they were made from. */
  readonly stores: readonly FileWeights[];
  /** Bytes that products read and no store holds packed. */
  readonly unpackedBytes: number;
}

interface PackedFile {
  readonly names: ReadonlySet<string>;
  readonly store: FileWeights;
}

export class PackedWeights {
  /** By path of the plain weights; each entry waits for the previous one. */
  private readonly known = new Map<string, Promise<readonly PackedFile[]>>();
  /** Paths without room in the cache: reported once. */
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

/** Changes whenever a product reads its weight in another way. */
function hashProgram(alone: Tensor, { attributes, shape: dimensions }: TensorOf<'weight'>): string {
  const shape = dimensions as readonly number[];
  const place: WeightLocation = { shape, offsetBytes: 0, sizeBytes: floatBytes(shape) };
  const store: FileWeights = { kind: 'file', path: '/weights', tensors: new Map([[attributes.name, place]]) };
  return createHash('sha256')
    .update(lowerToOnnx({ alone }, [store]).bytes)
    .digest('hex');
}

const pageBytes = 4096;

/** Kernels pad both sides to whole blocks. */
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
    // Equal hashes would mix up two weights.
    if (hashes.has(packed.hash)) throw new Error(`two stand-ins have the hash ${packed.hash}`);
    hashes.add(packed.hash);
    table.push({ name: product.weight.attributes.name, ...packed.location });
  }
  return table;
}

/** Undefined if the kernel does not pack the weight, or no stand-in works. */
async function packOne(store: FileWeights, { weight, alone }: WeightProduct, place: PlacePiece) {
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
      const file = await openToWrite(standIn, 'new', 'private');
      try {
        const parts = joinParts(page, data, piece, sizeBytes - page.length);
        for await (const bytes of parts) await file.appendFile(bytes);
      } finally {
        await file.close();
      }
      const offsetBytes = await place([page]);
      const copyBytes = await place(readPart(data, piece.offsetBytes, piece.sizeBytes));
      return { offsetBytes, copy: `${copyBytes};${piece.sizeBytes};0` };
    });
    if (first === undefined) return undefined;
    const location = { shape, offsetBytes: 0, sizeBytes };
    const window: FileWeights = { kind: 'file', path: standIn, tensors: new Map([[name, location]]) };
    const hash = await saveProduct(alone, window, (copies) => Promise.resolve(copies[0]?.hash));
    if (hash === undefined) throw new Error(`the stand-in of "${name}" was not packed`);
    // These share one order, and fusion may turn one into another.
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

/** NaN in float32, with unique bits. */
function makePage(identity: string, sizeBytes: number): Uint8Array {
  const digest = createHash('sha256').update(identity).digest();
  const words = Array.from({ length: digest.byteLength / 4 }, (_, word) => digest.readUInt32LE(4 * word));
  const bits = Uint32Array.from({ length: sizeBytes / 4 }, (_, at) => {
    return 0x7fc00000 | (words[at % words.length]! & 0x3fffff);
  });
  return new Uint8Array(bits.buffer);
}

/** Saves the product alone with its packed weight. */
async function saveProduct<Result>(
  alone: Tensor,
  store: FileWeights,
  take: (copies: readonly SavedCopy[], data: string) => Promise<Result>,
): Promise<Result> {
  const folder = dirname(store.path);
  const saved = join(folder, `program.${makeProcessTag()}.onnx`);
  const data = join(folder, `program.${makeProcessTag()}.packed`);
  try {
    const session = await loadOnnxRuntime().InferenceSession.create(lowerToOnnx({ alone }, [store]).bytes, {
      optimizedModelFilePath: saved,
      intraOpNumThreads: 1,
      logSeverityLevel: 4,
      extra: {
        ...mappingFrom(folder),
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
    for (const path of [saved, data]) await rm(path, { force: true });
  }
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

/** Fails if the file is shorter: a full disk truncates silently. */
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

/** The fastest order depends on the processor's instructions. */
async function describeProcessor(): Promise<string> {
  const information = await readFile('/proc/cpuinfo', 'utf8').catch(() => '');
  const instructions = /^(?:flags|Features)\s*:.*$/m.exec(information)?.[0] ?? '';
  return `${process.arch} ${cpus()[0]?.model ?? ''} ${instructions}`;
}
