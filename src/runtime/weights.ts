/**
 * Weights of a program: little-endian, row-major, float32 unless another type is named. Files are memory-mapped and
 * shared by programs; the memory form serves small checkpoints and disks without room; the checkpoint form serves
 * runtimes with a memory of their own.
 */
import { MistletoeError } from '../core/errors.js';
import { isHalf, type HalfType } from '../core/half-floats.js';
import { formatShape } from '../graph/dimension.js';
import type { TensorOf } from '../graph/tensor.js';

/**
 * The store that has the weight in the expected shape and type.
 * @param isFactor read by a matrix product; some stores serve only those
 */
export function findWeight(
  weights: readonly WeightStore[],
  tensor: TensorOf<'weight'>,
  isFactor = false,
): WeightStore {
  const { name } = tensor.attributes;
  for (const store of weights) {
    const entry = store.tensors.get(name);
    if (entry === undefined || ('isForProducts' in store && !isFactor)) continue;
    const expected = formatShape(tensor.shape);
    const found = formatShape(entry.shape);
    if (found !== expected) {
      throw new MistletoeError(
        'shape',
        `Weight "${name}" has shape ${found}, the graph expects ${expected}.`,
      );
    }
    const { dtype = 'float32' } = 'parts' in entry ? {} : entry;
    if (dtype !== tensor.dtype && !(isHalf(dtype) && tensor.dtype === 'float32')) {
      throw new MistletoeError(
        'checkpoint',
        `Weight "${name}" is stored as ${dtype}, the graph expects ${tensor.dtype}.`,
      );
    }
    const held = countBytes(entry);
    const needed =
      'quantized' in entry && entry.quantized !== undefined
        ? countQuantizedBytes(entry.quantized)
        : countElements(entry.shape) * (isHalf(dtype) ? 2 : 4);
    if (held !== needed) {
      throw new MistletoeError(
        'checkpoint',
        `Weight "${name}" has ${held} bytes, its shape ${found} needs ${needed}.`,
      );
    }
    return store;
  }
  throw new MistletoeError(
    'checkpoint',
    `The graph reads a weight "${name}" that none of the given weights hold.`,
  );
}

/** Checkpoint weights count as float32. */
function countBytes(entry: WeightLocation | WeightValues | DirectWeight): number {
  if ('parts' in entry) return entry.parts.reduce((sum, { shape }) => sum + 4 * countElements(shape), 0);
  return 'data' in entry ? entry.data.byteLength : entry.sizeBytes;
}

/** Fewer bits for matrices on the CPU: values of one block along the inner axis share a scale. */
export const quantizedTypes = ['int8', 'int4'] as const;
export type QuantizedType = (typeof quantizedTypes)[number];
export const quantizedBlock = 32;

export const isQuantized = (type: string): type is QuantizedType =>
  quantizedTypes.some((known) => known === type);

export interface QuantizedMatrix {
  readonly bits: 4 | 8;
  readonly inner: number;
  readonly columns: number;
}

/** Blocks at the end of a column are padded. */
export const countBlocks = ({ inner, columns }: Pick<QuantizedMatrix, 'inner' | 'columns'>): number =>
  columns * Math.ceil(inner / quantizedBlock);

export const countQuantizedBytes = (matrix: QuantizedMatrix): number =>
  (countBlocks(matrix) * quantizedBlock * matrix.bits) / 8;

export const countElements = (shape: readonly number[]): number =>
  shape.reduce((product, size) => product * size, 1);

export type WeightStore = FileWeights | MemoryWeights | CheckpointWeights;

export interface FileWeights {
  readonly kind: 'file';
  readonly path: string;
  readonly tensors: ReadonlyMap<string, WeightLocation>;
  readonly derived?: DerivedFiles | undefined;
  /** Only for matrix products of the runtime's own kernels: the bytes are not the plain values. */
  readonly isForProducts?: true | undefined;
}

export interface WeightLocation {
  readonly shape: readonly number[];
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  readonly dtype?: 'float32' | HalfType | undefined;
  readonly quantized?: (QuantizedMatrix & { readonly scaleOffsetBytes: number }) | undefined;
  /** Packed copies in the same file, as the runtime names them. */
  readonly copies?: readonly string[] | undefined;
}

export interface DerivedFiles {
  /** Finds or makes the file; undefined if it cannot be kept, which is reported. */
  keep(request: DerivedRequest): Promise<DerivedFile | undefined>;
}

export interface DerivedRequest {
  /** Everything that the content depends on besides the weights. */
  readonly purpose: string;
  /** Upper bound. */
  readonly sizeBytes: number;
  /** Its result is stored as JSON. */
  readonly write: (place: PlacePiece) => Promise<unknown>;
}

/** Returns the aligned offset of the piece. */
export type PlacePiece = (bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>) => Promise<number>;

export interface DerivedFile {
  readonly path: string;
  readonly table: unknown;
}

export interface MemoryWeights {
  readonly kind: 'memory';
  readonly tensors: ReadonlyMap<string, WeightValues>;
}

export interface WeightValues {
  readonly shape: readonly number[];
  readonly data: Float32Array | Uint16Array; // the bits of half types
  readonly dtype?: 'float32' | HalfType | undefined;
}

export interface CheckpointWeights {
  readonly kind: 'checkpoint';
  readonly tensors: ReadonlyMap<string, DirectWeight>;
}

/** float32 for programs. */
export interface DirectWeight {
  readonly shape: readonly number[];
  /** Joined along the last axis. */
  readonly parts: readonly DirectPart[];
}

export interface DirectPart {
  readonly dtype: 'float32' | HalfType;
  readonly shape: readonly number[];
  readonly isTransposed: boolean;
  /** Whole rows in order; a piece is valid until the next is requested. */
  readonly read: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}
