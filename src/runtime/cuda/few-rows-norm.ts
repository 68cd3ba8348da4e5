/** The rows of few-rows-kernel.ts where an rmsNorm makes them: each block computes all of them for itself. */
import type { TensorOf } from '../../graph/tensor.js';
import type { FloatType } from './device.js';
import type { FindOperand } from './element-code.js';
import { axesOf, ElementCode } from './element-code.js';
import { bytesOf } from './element-size.js';
import type { KernelText } from './kernel-text.js';
import { narrow, storageTypes } from './kernel-text.js';

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
