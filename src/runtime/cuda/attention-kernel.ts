/**
 * Attention over a long past as one kernel: a block of threads for each head and each few rows, one softmax over all
 * segments, computed while the columns go by (Milakov and Gimelshein, 1805.02867). In each chunk of columns warps share
 * the columns for the scores, then one warp has one row for the softmax, and at last each thread has one place of the head
 * and groups of threads share the columns for the mixing of values. Rows of a block share what is read of the past.
 *
 * For very many rows products of whole matrices are faster, and gradients need the weights: there attention is spelled out.
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
const warps = threads / 32;
/** Rows of a block, and columns whose scores are kept at a time: one row where there are few. */
const forms = { few: { rows: 1, columns: 1024 }, many: { rows: 8, columns: 256 } } as const;
/** Rows from which on blocks have several. */
export const manyRows = 8;

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
  form: keyof typeof forms,
): KernelPlan {
  const [queries, mask, ...sides] = tensor.inputs;
  const [batch, position, heads] = tensor.shape;
  const size = tensor.shape.at(-1) as number;
  const { segments, scale, heads: headsOfLane, keyValueHeads } = tensor.attributes;
  const { rows: R, columns: chunk } = forms[form];
  const place = (side: Tensor): KernelOperand => find(rootOf(side))!;
  const groups = Math.max(1, Math.floor(threads / size));
  // No more blocks than that; those without a row have nothing to do.
  const count = countElements([batch!, position!, heads!]);
  return writeKernel(result, find, { kind: 'blocks', count, block: threads }, ({ text, code }) => {
    const eachRow = (line: string): void => {
      text.line(`for (int r = 0; r < ${R}; r++) ${line}`);
    };
    text.line(`__shared__ float query[${R}][${size}];`);
    text.line(`__shared__ float scores[${R}][${chunk}];`);
    text.line(`__shared__ float largest[${R}], total[${R}], shrink[${R}];`);
    text.line(`__shared__ float mixed[${threads}];`);
    text.line(`const int rows = ${text.dimension(position!)};`);
    text.line(`const int heads = ${text.dimension(heads!)};`);
    text.line(`const int keyHeads = ${text.dimension(multiplyDimensions(lanesOf(mask!), keyValueHeads))};`);
    text.line(`const int columns = ${text.dimension(mask!.shape.at(-1)!)};`);
    text.line(`const int tiles = (rows + ${R - 1}) / ${R};`);
    text.line('const int warp = threadIdx.x / 32;');
    text.line('const int lane = threadIdx.x % 32;');
    text.line(`const int group = threadIdx.x / ${size};`);
    text.line(`const int at = threadIdx.x % ${size};`);
    const items = `${text.dimension(batch!)} * tiles * heads`;
    text.block(`for (int item = blockIdx.x; item < ${items}; item += gridDim.x)`, () => {
      text.line('const int head = item % heads;');
      text.line(`const int firstRow = (item / heads) % tiles * ${R};`);
      text.line('const int sequence = item / (heads * tiles);');
      text.line(`const int own = min(${R}, rows - firstRow);`);
      text.line(`const int laneOf = head / ${headsOfLane};`);
      text.line(`const int commonHead = (head % ${headsOfLane}) / ${headsOfLane / keyValueHeads};`);
      text.line(`const int keyHead = laneOf * ${keyValueHeads} + commonHead;`);
      text.line('__syncthreads();');
      text.block(`for (int i = threadIdx.x; i < ${R * size}; i += blockDim.x)`, () => {
        // Rows that are not there repeat the last one and are not stored.
        text.line(`const int row = firstRow + min(i / ${size}, own - 1);`);
        text.line(`const int place = i % ${size};`);
        const value = code.element(queries!, { axes: ['sequence', 'row', 'head', 'place'] });
        text.line(`query[i / ${size}][place] = ${value} * ${Math.fround(scale)}f;`);
      });
      text.line(`if (threadIdx.x < ${R}) { largest[threadIdx.x] = -INFINITY; total[threadIdx.x] = 0.0f; }`);
      text.line(`float sum[${R}];`);
      eachRow('sum[r] = 0.0f;');
      text.line('__syncthreads();');
      text.line('int before = 0;');
      segments.forEach((kind, index) => {
        const [keys, values] = [sides[2 * index]!, sides[2 * index + 1]!];
        const length = text.dimension(keys.shape.at(-3)!);
        const start = kind === 'own' ? `sequence * ${length}` : '0';
        const [stride, own] = kind === 'common' ? [keyValueHeads, 'commonHead'] : ['keyHeads', 'keyHead'];
        const element = (column: string): string =>
          `((long long)(${start} + ${column}) * ${stride} + ${own}) * ${size}`;
        text.block(`for (int first = 0; first < ${length}; first += ${chunk})`, () => {
          text.line(`const int length = min(${chunk}, ${length} - first);`);
          text.block(`for (int u = warp; u < length; u += ${warps})`, () => {
            text.line(`const long long key = ${element('first + u')};`);
            text.line(`float score[${R}];`);
            eachRow('score[r] = 0.0f;');
            text.block(`for (int i = lane; i < ${size}; i += 32)`, () => {
              text.line(`const float value = ${text.load(place(keys), 'key + i')};`);
              eachRow('score[r] += query[r][i] * value;');
            });
            text.block(`for (int r = 0; r < ${R}; r++)`, () => {
              text.line(
                'for (int step = 16; step > 0; step >>= 1) score[r] += __shfl_xor_sync(0xffffffffu, score[r], step);',
              );
              text.line('if (lane == 0) scores[r][u] = score[r];');
            });
          });
          text.line('__syncthreads();');
          text.block(`if (warp < ${R})`, () => {
            text.line('const int row = firstRow + min(warp, own - 1);');
            const maskRow = mask!.shape.length === 4 ? '(laneOf * rows + row)' : 'row';
            text.line('float top = -INFINITY;');
            text.block('for (int u = lane; u < length; u += 32)', () => {
              const masked = text.load(place(mask!), `(long long)${maskRow} * columns + before + first + u`);
              text.line(`const float score = scores[warp][u] + ${masked};`);
              text.line('scores[warp][u] = score;');
              text.line('top = fmaxf(top, score);');
            });
            text.line(
              'for (int step = 16; step > 0; step >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));',
            );
            text.line('const float old = largest[warp];');
            text.line('const float higher = fmaxf(old, top);');
            text.line('float powers = 0.0f;');
            text.block('for (int u = lane; u < length; u += 32)', () => {
              text.line('const float power = expf(scores[warp][u] - higher);');
              text.line('scores[warp][u] = power;');
              text.line('powers += power;');
            });
            text.line(
              'for (int step = 16; step > 0; step >>= 1) powers += __shfl_xor_sync(0xffffffffu, powers, step);',
            );
            text.block('if (lane == 0)', () => {
              text.line('shrink[warp] = old == higher ? 1.0f : expf(old - higher);');
              text.line('total[warp] = total[warp] * shrink[warp] + powers;');
              text.line('largest[warp] = higher;');
            });
          });
          text.line('__syncthreads();');
          eachRow('sum[r] *= shrink[r];');
          text.block(`if (group < ${groups})`, () => {
            text.line('#pragma unroll 4');
            text.block(`for (int u = group; u < length; u += ${groups})`, () => {
              text.line(`const float value = ${text.load(place(values), `${element('first + u')} + at`)};`);
              eachRow('sum[r] += scores[r][u] * value;');
            });
          });
          text.line('__syncthreads();');
        });
        text.line(`before += ${length};`);
      });
      text.block('for (int r = 0; r < own; r++)', () => {
        text.line('mixed[threadIdx.x] = sum[r];');
        text.line('__syncthreads();');
        text.block(`if (threadIdx.x < ${size})`, () => {
          text.line('float whole = 0.0f;');
          text.line(
            `for (int part = 0; part < ${groups}; part++) whole += mixed[part * ${size} + threadIdx.x];`,
          );
          const to = `((long long)(sequence * rows + firstRow + r) * heads + head) * ${size} + threadIdx.x`;
          text.store(result, to, 'whole / total[r]');
        });
        text.line('__syncthreads();');
      });
    });
  });
}
