/** What kernels over whole rows have in common. */
import type { Writing } from './kernel-plan.js';
import type { KernelText } from './kernel-text.js';

export interface RowWriting extends Writing {
  /** The element of the row at j. */
  readonly element: () => string;
}

/** All elements of a row. A thread that has several of them loads some at once. */
export function overRow(text: KernelText, write: () => void): void {
  text.line('#pragma unroll 4');
  text.block('for (int j = threadIdx.x; j < width; j += blockDim.x)', write);
}

export function writeMaximum({ text, element }: RowWriting): void {
  text.line('float part = -INFINITY;');
  overRow(text, () => {
    text.line(`part = fmaxf(part, ${element()});`);
  });
  text.line('const float largest = blockMaximum(part);');
}
