/**
 * One GPU as the lowering sees it: memory by address, kernels compiled from source, products of matrices. All work goes
 * to one stream, in the order in which it was asked for; only reading back and `synchronize` wait for it. Every call that
 * fails throws a MistletoeError that names the call.
 */

/** An address in the device's memory. */
export type Address = bigint;

/** How values lie in memory. */
export type ElementType = 'float32' | 'bfloat16' | 'float16' | 'int32' | 'bool';

/** Those that products read and weights are stored in. */
export type FloatType = Extract<ElementType, 'float32' | 'bfloat16' | 'float16'>;

export interface Device {
  readonly name: string;
  readonly computeCapability: readonly [major: number, minor: number];
  readonly totalBytes: number;
  /** Bytes that could be allocated now. */
  freeBytes(): number;
  /** Aligned to 256 bytes; what it holds is undefined. */
  allocate(bytes: number): Address;
  free(address: Address): void;
  /** Takes the values at the time of the call: the array may change afterwards. */
  upload(to: Address, values: ArrayBufferView): void;
  /** Waits until everything asked for before is done. */
  download(from: Address, into: ArrayBufferView): Promise<void>;
  copy(to: Address, from: Address, bytes: number): void;
  clear(at: Address, bytes: number): void;
  /** CUDA C++ whose kernels are `extern "C" __global__`. */
  compile(source: string): KernelModule;
  launch(launch: Launch): void;
  multiply(product: Product): void;
  /**
   * Writes down the launches, products, copies and clears that `work` asks for, in place of doing them: replaying them
   * costs one call. They read and write the addresses that they were given.
   */
  record(work: () => void): Recording;
  replay(recording: Recording): void;
  synchronize(): Promise<void>;
  dispose(): void;
}

/** Work that was written down; only the device that made it knows what it is. */
export interface Recording {
  free(): void;
}

export interface KernelModule {
  kernel(name: string): Kernel;
  unload(): void;
}

/** A kernel's handle; only the device that made it knows what it is. */
export interface Kernel {
  readonly name: string;
}

export interface Launch {
  readonly kernel: Kernel;
  readonly grid: readonly [x: number, y: number, z: number];
  /** Threads of a block, along x. */
  readonly block: number;
  readonly sharedBytes?: number;
  /** Addresses for pointers, numbers for ints, in the kernel's order. */
  readonly arguments: readonly (Address | number)[];
}

/** One operand of a stack of row-major matrices [batch][rows][columns]. */
export interface MatrixOperand {
  readonly address: Address;
  readonly type: ElementType;
  /** Elements from one row to the next, and from one matrix of the stack to the next (0: the same one each time). */
  readonly rowStride: number;
  readonly batchStride: number;
  /** Stored as its transpose: [columns][rows]. */
  readonly transposed: boolean;
}

/**
 * result = scale * left * right, with sums in float32: [batch][rows][columns] = [batch][rows][inner] [batch][inner][columns]
 */
export interface Product {
  readonly rows: number;
  readonly columns: number;
  readonly inner: number;
  readonly batch: number;
  readonly scale: number;
  readonly left: MatrixOperand;
  readonly right: MatrixOperand;
  /** float32 or a half type; never transposed. */
  readonly result: Omit<MatrixOperand, 'transposed'>;
  /** Added to it: of its type, lying as it does elsewhere. */
  readonly addend?: Address;
}
