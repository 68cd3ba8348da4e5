/** What a launch of small-batch-kernel.ts computes, and how it uses the device. */
import type { Shape } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { FloatType } from '../driver/device.js';
import type { FindOperand } from './element-code.js';
import { axesOf, ElementCode } from './element-code.js';
import { bytesOf } from './element-size.js';
import type { KernelOperand, KernelText } from './kernel-text.js';
import { narrow, storageTypes } from './kernel-text.js';

/** The rows of small-batch-kernel.ts where an rmsNorm makes them: each block computes all of them for itself. */
interface NormWriting {
  readonly text: KernelText;
  readonly find: FindOperand;
  readonly rows: number;
  readonly inner: number;
  /** As which rows lie in shared memory. */
  readonly type: FloatType;
  readonly threads: number;
}

/** The name of the normed rows, in shared memory. What a thread reads of a row stays with it until the row's sum is known. */
export function writeNorm(
  { text, find, rows, inner, type, threads }: NormWriting,
  norm: TensorOf<'rmsNorm'>,
): string {
  const [x, scale] = norm.inputs;
  const code = new ElementCode(text, find);
  const each = Math.ceil(inner / threads);
  const overRow = (write: () => void): void => {
    text.line('#pragma unroll');
    text.block(`for (int i = 0; i < ${each}; i++)`, () => {
      text.line(`const int j = i * ${threads} + threadIdx.x;`);
      text.block(inner % threads === 0 ? '' : `if (j < ${inner})`, write);
    });
  };
  text.line(`__shared__ uint4 memory[${(rows * inner * bytesOf(type)) / 16}];`);
  text.line(`${storageTypes[type]}* const normed = (${storageTypes[type]}*)memory;`);
  text.line(`float scale[${each}];`);
  overRow(() => {
    text.line(`scale[i] = ${code.element(scale!, { flat: 'j' })};`);
  });
  text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
    // Rows that are not there repeat the last one and are not stored.
    text.line('const int row = min(r, rows - 1);');
    const leading = axesOf(text, { flat: 'row' }, x!.shape.slice(0, -1));
    text.line(`float kept[${each}] = {};`);
    text.line('float squares = 0.0f;');
    overRow(() => {
      text.line(`kept[i] = ${code.element(x!, { axes: [...leading, 'j'] })};`);
      text.line('squares += kept[i] * kept[i];');
    });
    const { epsilon } = norm.attributes;
    text.line(`const float factor = 1.0f / sqrtf(blockSum(squares) / ${inner} + ${Math.fround(epsilon)}f);`);
    overRow(() => {
      text.line(`normed[r * ${inner} + j] = ${narrow(type, 'kept[i] * factor * scale[i]')};`);
    });
  });
  text.line('__syncthreads();');
  return 'normed';
}

export interface SmallBatchProduct {
  readonly tensor: Tensor;
  readonly weights: KernelOperand;
  /** What it would be written as by itself. */
  readonly type: FloatType;
}

/** One tensor that a launch makes. */
export interface SmallBatchPart {
  /** The products it is made of, one for each matrix; all parts of a launch have as many. */
  readonly products: readonly SmallBatchProduct[];
  readonly columns: number;
  /** What is stored: a product, or what is computed of products element by element. */
  readonly tensor: Tensor;
  readonly result: KernelOperand;
}

export interface SmallBatchWork {
  readonly leading: Shape; // the axes of rows
  readonly inner: number;
  readonly type: FloatType;
  /** Rows as they lie in memory, or the norm that makes them. */
  readonly left: KernelOperand | TensorOf<'rmsNorm'>;
  readonly parts: readonly SmallBatchPart[];
}

/** How a launch uses the device. */
export interface SmallBatchTuning {
  readonly threads: number;
  /** Blocks at most, and how many of them one processor of the device shall have room for. */
  readonly blocks: number;
  readonly resident: number;
  /** Lines of each matrix that a warp reads at once: what it has of the rows serves all of them. */
  readonly lines: number;
  /** Loads on their way in each thread for each line. */
  readonly depth: number;
}

export type ChooseTuning = (rows: number, matrices: number) => SmallBatchTuning;

/**
 * What arrives takes registers twice, so 64 of them are enough for four loads on their way: 1024 threads then wait for
 * 64 KiB, twice of what an H200 needs to be busy. With several rows, half of the threads wait for as much, and read two
 * lines at once, since unpacking the rows would cost more than the products.
 */
export const defaultTuning: ChooseTuning = (rows, matrices) => {
  const lines = rows > 1 && matrices === 1 ? 2 : 1;
  const resident = rows > 1 ? 1 : 2;
  return { threads: 512, blocks: 132 * resident, resident, lines, depth: 8 / (resident * lines * matrices) };
};

export const elementsOfLoad = (type: FloatType): number => 16 / bytesOf(type);

/** Shared memory that a kernel has without asking for more, less what sums over a block take. */
const maxSharedBytes = 47 * 1024;

/** Whether rows of a norm have room in each block. */
export const hasRoomForNorm = (rows: number, inner: number, type: FloatType): boolean =>
  rows * inner * bytesOf(type) <= maxSharedBytes;
