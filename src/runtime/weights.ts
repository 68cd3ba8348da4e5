/**
 * Where a program finds its weights: little-endian, row-major, float32 unless another type is named. Programs that read
 * float32 widen 16 bits themselves. A file is
 * memory-mapped by the runtime, so any number of programs share one copy; the memory form serves small checkpoints and
 * disks without room for a cache; the checkpoint form serves runtimes that keep weights in a memory of their own.
 */
import type { HalfType } from '../core/half-floats.js';

export type WeightStore = FileWeights | MemoryWeights | CheckpointWeights;

export interface FileWeights {
  readonly kind: 'file';
  readonly path: string;
  readonly tensors: ReadonlyMap<string, WeightLocation>;
  /** Where files that a runtime makes of these weights can be kept beside them. */
  readonly derived?: DerivedFiles;
  /** Good for the matrix products of a runtime's own kernels alone: what lies at a tensor's place is not its values. */
  readonly isForProducts?: true;
}

export interface WeightLocation {
  readonly shape: readonly number[];
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  readonly dtype?: 'float32' | HalfType;
  /** Further copies in the same file, in orders of a runtime's own, as that runtime names them. */
  readonly copies?: readonly string[];
}

export interface DerivedFiles {
  /** The file for that purpose, checked, or made now; undefined where none can be kept, which was told by a note. */
  keep(request: DerivedRequest): Promise<DerivedFile | undefined>;
}

export interface DerivedRequest {
  /** All that the content depends on, besides the weights. */
  readonly purpose: string;
  /** No less than the file will take. */
  readonly sizeBytes: number;
  /** Places the pieces; what it returns is kept with them as JSON. */
  readonly write: (place: PlacePiece) => Promise<unknown>;
}

/** Puts a piece at a place where it can be mapped, and says where that is. */
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
  readonly dtype?: 'float32' | HalfType;
}

/** Weights as the checkpoint's files hold them, for whoever converts and places them by itself. */
export interface CheckpointWeights {
  readonly kind: 'checkpoint';
  readonly tensors: ReadonlyMap<string, DirectWeight>;
}

/** float32 to programs, whatever its parts are stored as. */
export interface DirectWeight {
  readonly shape: readonly number[];
  /** Joined along the last axis, in this order. */
  readonly parts: readonly DirectPart[];
}

export interface DirectPart {
  readonly dtype: 'float32' | HalfType;
  /** As stored. */
  readonly shape: readonly number[];
  /** Two axes, which change places before the parts are joined. */
  readonly isTransposed: boolean;
  /** All rows (along the last axis) in order, some whole ones at a time; a piece is good until the next is asked for. */
  readonly read: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}
