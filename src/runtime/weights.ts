/**
 * Where a program finds its weights: float32, little-endian, row-major. A file is memory-mapped by the runtime, so
 * any number of programs share one copy; the memory form serves small checkpoints and disks without room for a cache.
 */
export type WeightStore = FileWeights | MemoryWeights;

export interface FileWeights {
  readonly kind: 'file';
  readonly path: string;
  readonly tensors: ReadonlyMap<string, WeightLocation>;
}

export interface WeightLocation {
  readonly shape: readonly number[];
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

export interface MemoryWeights {
  readonly kind: 'memory';
  readonly tensors: ReadonlyMap<string, WeightValues>;
}

export interface WeightValues {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}
