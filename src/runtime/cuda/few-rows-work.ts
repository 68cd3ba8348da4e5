/** What a launch of few-rows-kernel.ts computes, and how it uses the device. */
import type { Shape } from '../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import type { FloatType } from './device.js';
import { bytesOf } from './element-size.js';
import type { KernelOperand } from './kernel-text.js';

export interface FewRowsProduct {
  readonly tensor: Tensor;
  readonly weights: KernelOperand;
  /** What it would be written as by itself. */
  readonly type: FloatType;
}

/** One tensor that a launch makes. */
export interface FewRowsPart {
  /** The products it is made of, one for each matrix; all parts of a launch have as many. */
  readonly products: readonly FewRowsProduct[];
  readonly columns: number;
  /** What is stored: a product, or what is computed of products element by element. */
  readonly tensor: Tensor;
  readonly result: KernelOperand;
}

export interface FewRowsWork {
  readonly leading: Shape; // the axes of rows
  readonly inner: number;
  readonly type: FloatType;
  /** Rows as they lie in memory, or the norm that makes them. */
  readonly left: KernelOperand | TensorOf<'rmsNorm'>;
  readonly parts: readonly FewRowsPart[];
}

/** How a launch uses the device. */
export interface FewRowsTuning {
  readonly threads: number;
  /** Blocks at most, and how many of them one processor of the device shall have room for. */
  readonly blocks: number;
  readonly resident: number;
  /** Lines of each matrix that a warp reads at once: what it has of the rows serves all of them. */
  readonly lines: number;
  /** Loads on their way in each thread for each line. */
  readonly depth: number;
}

export type ChooseTuning = (rows: number, matrices: number) => FewRowsTuning;

/**
 * What arrives takes registers twice, so 64 of them are enough for four loads on their way: 1024 threads then wait for
 * 64 KiB, twice of what an H200 needs to be busy. With several rows, half of the threads wait for as much, and read two
 * lines at once, since unpacking the rows would cost more than the products.
 */
export const usualTuning: ChooseTuning = (rows, matrices) => {
  const lines = rows > 1 && matrices === 1 ? 2 : 1;
  const resident = rows > 1 ? 1 : 2;
  return { threads: 512, blocks: 132 * resident, resident, lines, depth: 8 / (resident * lines * matrices) };
};

export const elementsOfLoad = (type: FloatType): number => 16 / bytesOf(type);

/** Shared memory that a kernel has without asking for more, less what sums over a block take. */
const mostSharedBytes = 47 * 1024;

/** Whether rows of a norm have room in each block. */
export const hasRoomForNorm = (rows: number, inner: number, type: FloatType): boolean =>
  rows * inner * bytesOf(type) <= mostSharedBytes;
