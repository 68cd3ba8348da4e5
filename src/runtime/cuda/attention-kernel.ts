/**
 * Attention of few rows over a long past as one kernel: a block of threads for each row and head, one softmax over all
 * segments, computed while the columns go by (Milakov and Gimelshein, 1805.02867). Warps share the columns of a chunk for
 * the scores; for the mixing of values each thread has one place of the head, and groups of threads share the columns.
 *
 * For many rows products of whole matrices are faster, and gradients need the weights: there attention is spelled out.
 */
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import { countElements, multiplyDimensions } from '../../graph/dimension.js';
import { lanesOf } from '../../graph/operations/attention-view.js';
import type { FindOperand } from './element-code.js';
import type { KernelPlan } from './kernel-plan.js';
import { writeKernel } from './kernel-plan.js';
import type { KernelOperand } from './kernel-text.js';
import { rootOf } from './memory-root.js';

/** Threads of a block. */
const threads = 512;
/** Columns whose scores are kept at a time. */
const chunk = 1024;

/** What the kernel can do; everything else is spelled out. */
export function isAttentionFusable({
  attributes: { segments },
  inputs: [queries],
}: TensorOf<'attention'>): boolean {
  const size = queries!.shape.at(-1)!;
  return segments.every((kind) => kind !== 'diagonal') && typeof size === 'number' && size <= threads;
}

export function planAttention(
  tensor: TensorOf<'attention'>,
  result: KernelOperand,
  find: FindOperand,
): KernelPlan {
  const [queries, mask, ...sides] = tensor.inputs;
  const [batch, position, heads, size] = tensor.shape as [...typeof tensor.shape, number];
  const { segments, scale, heads: headsOfLane, keyValueHeads } = tensor.attributes;
  const lanes = lanesOf(mask!);
  const place = (side: Tensor): KernelOperand => find(rootOf(side))!;
  const groups = Math.max(1, Math.floor(threads / (size as number)));
  const count = countElements([batch, position!, heads!]);
  return writeKernel(result, find, { kind: 'blocks', count, block: threads }, ({ text, code }) => {
    const width = `${size as number}`;
    text.line(`__shared__ float query[${width}];`);
    text.line(`__shared__ float scores[${chunk}];`);
    text.line(`__shared__ float mixed[${threads}];`);
    text.line(`const int rows = ${text.dimension(position!)};`);
    text.line(`const int heads = ${text.dimension(heads!)};`);
    text.line(`const int keyHeads = ${text.dimension(multiplyDimensions(lanes, keyValueHeads))};`);
    text.line(`const int columns = ${text.dimension(mask!.shape.at(-1)!)};`);
    text.line('const int warp = threadIdx.x / 32;');
    text.line('const int lane = threadIdx.x % 32;');
    text.line(`const int group = threadIdx.x / ${width};`);
    text.line(`const int at = threadIdx.x % ${width};`);
    const items = `${text.count([batch, position!])} * heads`;
    text.block(`for (int item = blockIdx.x; item < ${items}; item += gridDim.x)`, () => {
      text.line('const int head = item % heads;');
      text.line('const int row = (item / heads) % rows;');
      text.line('const int sequence = item / (heads * rows);');
      text.line(`const int laneOf = head / ${headsOfLane};`);
      text.line(
        `const int keyHead = laneOf * ${keyValueHeads} + (head % ${headsOfLane}) / ${headsOfLane / keyValueHeads};`,
      );
      text.line('__syncthreads();');
      text.block(`if (threadIdx.x < ${width})`, () => {
        const query = code.element(queries!, { axes: ['sequence', 'row', 'head', 'threadIdx.x'] });
        text.line(`query[threadIdx.x] = ${query} * ${Math.fround(scale)}f;`);
      });
      text.line('__syncthreads();');
      text.line('float largest = -INFINITY;');
      text.line('float total = 0.0f;');
      text.line('float sum = 0.0f;');
      const maskRow = mask!.shape.length === 4 ? '(laneOf * rows + row)' : 'row';
      text.line('int before = 0;');
      segments.forEach((kind, index) => {
        const [keys, values] = [sides[2 * index]!, sides[2 * index + 1]!];
        const length = text.dimension(keys.shape.at(-3)!);
        const start = kind === 'shared' ? '0' : `sequence * ${length}`;
        const element = (column: string): string =>
          `((long long)(${start} + ${column}) * keyHeads + keyHead) * ${width}`;
        text.block(`for (int first = 0; first < ${length}; first += ${chunk})`, () => {
          text.line(`const int length = min(${chunk}, ${length} - first);`);
          text.line('float top = -INFINITY;');
          text.block(`for (int u = warp; u < length; u += ${threads / 32})`, () => {
            text.line('float score = 0.0f;');
            text.line(`const long long key = ${element('first + u')};`);
            text.line('#pragma unroll');
            text.line(
              `for (int i = lane; i < ${width}; i += 32) score += query[i] * ${text.load(place(keys), 'key + i')};`,
            );
            text.line(
              'for (int step = 16; step > 0; step >>= 1) score += __shfl_xor_sync(0xffffffffu, score, step);',
            );
            text.line(
              `score += ${text.load(place(mask!), `(long long)${maskRow} * columns + before + first + u`)};`,
            );
            text.line('if (lane == 0) scores[u] = score;');
            text.line('top = fmaxf(top, score);');
          });
          text.line('const float higher = fmaxf(largest, blockMaximum(top));');
          text.line('const float shrink = largest == higher ? 1.0f : expf(largest - higher);');
          text.line('float powers = 0.0f;');
          text.block('for (int u = threadIdx.x; u < length; u += blockDim.x)', () => {
            text.line('const float power = expf(scores[u] - higher);');
            text.line('scores[u] = power;');
            text.line('powers += power;');
          });
          text.line('total = total * shrink + blockSum(powers);');
          text.line('sum *= shrink;');
          text.block(`if (group < ${groups})`, () => {
            text.line('#pragma unroll 4');
            text.line(
              `for (int u = group; u < length; u += ${groups}) sum += scores[u] * ${text.load(place(values), `${element('first + u')} + at`)};`,
            );
          });
          text.line('largest = higher;');
          text.line('__syncthreads();');
        });
        text.line(`before += ${length};`);
      });
      text.line('mixed[threadIdx.x] = sum;');
      text.line('__syncthreads();');
      text.block(`if (threadIdx.x < ${width})`, () => {
        text.line('float whole = 0.0f;');
        text.line(
          `for (int part = 0; part < ${groups}; part++) whole += mixed[part * ${width} + threadIdx.x];`,
        );
        text.store(result, `(long long)item * ${width} + threadIdx.x`, 'whole / total');
      });
    });
  });
}
