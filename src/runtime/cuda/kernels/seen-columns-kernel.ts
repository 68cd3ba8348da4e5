/** Which columns each row of a mask sees, in their order: what split attention sums over. */
import { type Dimension, addDimensions, countElements } from '../../../graph/dimension.js';
import type { Tensor } from '../../../graph/tensor.js';
import { rootOf } from '../programs/step.js';
import type { FindOperand } from './element-code.js';
import { type KernelPlan, finishKernel } from './kernel-plan.js';
import type { KernelOperand } from './kernel-text.js';

/** Far above the value of blocked columns, far below any other. */
const blockedBelow = '-1e29f';

/** How many columns a row sees, then which. [mask row, 1 + column] */
export function seenShape(mask: Tensor): readonly Dimension[] {
  return [countElements(mask.shape.slice(0, -1)), addDimensions(mask.shape.at(-1)!, 1)];
}

export function planSeen(mask: Tensor, result: KernelOperand, find: FindOperand): KernelPlan {
  const block = 512;
  const [count] = seenShape(mask) as [Dimension];
  return finishKernel([result], { kind: 'blocks', count, block }, (text) => {
    text.line(`const int columns = ${text.dimension(mask.shape.at(-1)!)};`);
    text.line('const int row = blockIdx.x;');
    text.line(`if (row >= ${text.dimension(count)}) return;`);
    text.line(`__shared__ int counts[${block / 32}];`);
    text.line('const int warp = threadIdx.x / 32;');
    text.line('const int lane = threadIdx.x % 32;');
    text.line('int before = 0;');
    text.block(`for (int first = 0; first < columns; first += ${block})`, () => {
      text.line('const int column = first + threadIdx.x;');
      const value = text.load(find(rootOf(mask))!, '(long long)row * columns + column');
      text.line(`const int isSeen = column < columns && ${value} > ${blockedBelow} ? 1 : 0;`);
      text.line('int upTo = isSeen;');
      text.block('for (int step = 1; step < 32; step *= 2)', () => {
        text.line('const int others = __shfl_up_sync(0xffffffffu, upTo, step);');
        text.line('if (lane >= step) upTo += others;');
      });
      text.line('if (lane == 31) counts[warp] = upTo;');
      text.line('__syncthreads();');
      text.line('int place = before + upTo;');
      text.block(`for (int w = 0; w < ${block / 32}; w++)`, () => {
        text.line('if (w < warp) place += counts[w];');
        text.line('before += counts[w];');
      });
      text.block('if (isSeen)', () => text.store(result, '(long long)row * (columns + 1) + place', 'column'));
      text.line('__syncthreads();');
    });
    text.block('if (threadIdx.x == 0)', () => text.store(result, '(long long)row * (columns + 1)', 'before'));
  });
}
