/**
 * Weights of a program: little-endian, row-major, float32 unless another type is named. Files are memory-mapped and
 * shared by programs; the memory form serves small checkpoints and disks without room; the checkpoint form serves
 * runtimes with a memory of their own.
 */
import type { HalfType } from '../core/half-floats.js';

export type WeightStore = FileWeights | MemoryWeights | CheckpointWeights;

export interface FileWeights {
  readonly kind: 'file';
  readonly path: string;
  readonly tensors: ReadonlyMap<string, WeightLocation>;
  /** Keeps files made from these weights. */
  readonly derived?: DerivedFiles | undefined;
  /** Only for matrix products of the runtime's own kernels: the bytes are not the plain values. */
  readonly isForProducts?: true | undefined;
}

export interface WeightLocation {
  readonly shape: readonly number[];
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  readonly dtype?: 'float32' | HalfType | undefined;
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
export type PlacePiece = (bytes: AsyncIterable<Uint8Array>) => Promise<number>;

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

/** As in the checkpoint's files. */
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
  /** Transposed before joining. */
  readonly isTransposed: boolean;
  /** Whole rows in order; a piece is valid until the next is requested. */
  readonly read: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}
