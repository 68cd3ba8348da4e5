/**
 * One GPU as the lowering sees it. All work goes to one stream in order; only reading back and `synchronize` wait.
 * Failing calls throw a MistletoeError that names the call.
 */

import type { HalfType } from '../../../core/half-floats.js';

export type Address = bigint;

export type ElementType = 'float32' | 'bfloat16' | 'float16' | 'int32' | 'bool';

export type FloatType = Extract<ElementType, 'float32' | 'bfloat16' | 'float16'>;

/** Of keys and values: finer than bfloat16, and these are far from its limits. */
export const cacheTypeOf = (productType: FloatType): HalfType | undefined =>
  productType === 'float32' ? undefined : 'float16';

export interface Device {
  readonly name: string;
  readonly computeCapability: readonly [major: number, minor: number];
  readonly totalBytes: number;
  freeBytes(): number;
  /** Aligned to 256 bytes; uninitialized. */
  allocate(bytes: number): Address;
  free(address: Address): void;
  /** Copies the values during the call. */
  upload(to: Address, values: ArrayBufferView): void;
  /** Waits for all earlier work. */
  download(from: Address, into: ArrayBufferView): Promise<void>;
  copy(to: Address, from: Address, bytes: number): void;
  clear(at: Address, bytes: number): void;
  compile(source: string): KernelModule;
  launch(launch: Launch): void;
  multiply(product: Product): void;
  /**
   * Records launches, products, copies and clears instead of running them; replaying costs one call. Addresses are
   * fixed.
   */
  record(work: () => void): Recording;
  replay(recording: Recording): void;
  synchronize(): Promise<void>;
  dispose(): void;
}

export interface Recording {
  free(): void;
}

export interface KernelModule {
  kernel(name: string): Kernel;
  unload(): void;
}

export interface Kernel {
  readonly name: string;
}

export interface Launch {
  readonly kernel: Kernel;
  readonly grid: readonly [x: number, y: number, z: number];
  /** Threads of a block, along x. */
  readonly block: number;
  readonly sharedBytes?: number | undefined;
  /** Starts while the launch before still runs: the kernel itself waits for it. */
  readonly startsEarly?: boolean | undefined;
  /** Addresses for pointers, numbers for ints. */
  readonly arguments: readonly (Address | number)[];
}

/** A stack of row-major matrices [batch][rows][columns]. */
export interface MatrixOperand {
  readonly address: Address;
  readonly type: ElementType;
  /** In elements; a batch stride of 0 repeats one matrix. */
  readonly rowStride: number;
  readonly batchStride: number;
  /** Stored as its transpose: [columns][rows]. */
  readonly transposed: boolean;
}

/** result = scale * left * right with float32 sums. [batch][rows][columns] */
export interface Product {
  readonly rows: number;
  readonly columns: number;
  readonly inner: number;
  readonly batch: number;
  readonly scale: number;
  readonly left: MatrixOperand;
  readonly right: MatrixOperand;
  readonly result: Omit<MatrixOperand, 'transposed'>;
  /** Added to the result; same type and layout. */
  readonly addend?: Address | undefined;
}
