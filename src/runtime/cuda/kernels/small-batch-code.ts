/** Types and tuning of small-batch-kernel.ts. */
import type { Shape } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { FloatType } from '../driver/device.js';
import type { FindOperand } from './element-code.js';
import { axesOf, ElementCode } from './element-code.js';
import { bytesOf } from './element-size.js';
import type { KernelOperand, KernelText } from './kernel-text.js';
import { narrow, storageTypes } from './kernel-text.js';

/** Rows that come from an rmsNorm: each block computes them itself. */
interface NormWriting {
  readonly text: KernelText;
  readonly find: FindOperand;
  readonly rows: number;
  readonly inner: number;
  /** In shared memory. */
  readonly type: FloatType;
  readonly threads: number;
}

/**
 * Returns the name of the rows in shared memory. Each thread keeps its values until the row's sum is known.
 */
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
    // Missing rows repeat the last one and are not stored.
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
  /** Type of the product by itself. */
  readonly type: FloatType;
}

export interface SmallBatchPart {
  /** One per matrix; all parts of a launch have the same number. */
  readonly products: readonly SmallBatchProduct[];
  readonly columns: number;
  /** A product, or an elementwise function of products. */
  readonly tensor: Tensor;
  readonly result: KernelOperand;
}

export interface SmallBatchWork {
  readonly leading: Shape; // the axes of rows
  readonly inner: number;
  readonly type: FloatType;
  readonly left: KernelOperand | TensorOf<'rmsNorm'>;
  readonly parts: readonly SmallBatchPart[];
}

export interface SmallBatchTuning {
  readonly threads: number;
  /** Max blocks, and blocks per processor. */
  readonly blocks: number;
  readonly resident: number;
  /** Lines of each matrix that a warp reads at once, sharing the rows. */
  readonly lines: number;
  /** Loads in flight per thread and line. */
  readonly depth: number;
}

export type ChooseTuning = (rows: number, matrices: number) => SmallBatchTuning;

/**
 * 64 registers allow four loads in flight: 1024 threads then wait for 64 KiB, twice what an H200 needs. With several
 * rows, half the threads wait for as much and read two lines at once, because unpacking rows would cost more than the
 * products.
 */
export const defaultTuning: ChooseTuning = (rows, matrices) => {
  const lines = rows > 1 && matrices === 1 ? 2 : 1;
  const resident = rows > 1 ? 1 : 2;
  return { threads: 512, blocks: 132 * resident, resident, lines, depth: 8 / (resident * lines * matrices) };
};

export const elementsOfLoad = (type: FloatType): number => 16 / bytesOf(type);

/** Static shared memory minus what block sums need. */
const maxSharedBytes = 47 * 1024;

export const hasRoomForNorm = (rows: number, inner: number, type: FloatType): boolean =>
  rows * inner * bytesOf(type) <= maxSharedBytes;
