/**
 * Attention over a long past in one kernel: one block per head and few rows, with one online softmax over all
 * segments (Milakov and Gimelshein, 1805.02867). In each chunk of columns, warps share the columns for the scores,
 * one warp per row computes the softmax, and groups of threads share the columns to mix the values. All rows of a
 * block share each read of the past.
 * For very many rows matrix products are faster, and gradients need the weights: attention is decomposed there.
 */
import { countElements, multiplyDimensions } from '../../../graph/dimension.js';
import { isKept, lanesOf, ownersOfMask } from '../../../graph/operations/attention-view.js';
import type { SegmentKind, Tensor, TensorOf } from '../../../graph/tensor.js';
import { rootOf } from '../programs/step.js';
import type { FindOperand } from './element-code.js';
import { type KernelPlan, writeKernel } from './kernel-plan.js';
import { fourOf, type KernelOperand, type KernelText, round, roundOne, widen } from './kernel-text.js';

const threads = 512;
const warps = threads / 32;
/** Per block: rows, columns per chunk, and columns that a thread reads ahead. */
const [R, chunk, ahead] = [8, 256, 2];

/** Otherwise attention is decomposed. */
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
  const [batch, position, heads] = tensor.shape;
  const size = tensor.shape.at(-1) as number;
  const { segments, scale, keyValueHeads, cacheType = 'float32' } = tensor.attributes;
  const place = (side: Tensor): KernelOperand => find(rootOf(side))!;
  const [V, vector] = size % 4 === 0 ? [4, 'float4'] : [1, 'float'];
  const places = size / V; // of which each is with one thread
  const perLane = Math.ceil(places / 32);
  const groups = Math.floor(threads / places);
  const fields = V === 4 ? ['.x', '.y', '.z', '.w'] : [''];
  const zero = V === 4 ? '{0.0f, 0.0f, 0.0f, 0.0f}' : '{0.0f}';
  /** [column] [place] A vector; new ones are rounded as they will be kept. */
  const readWith = (text: KernelText, side: Tensor, kind: SegmentKind) => {
    const operand = place(side);
    const { type } = operand;
    const kept = isKept(kind) ? 'float32' : cacheType;
    if (V === 1) return (at: string): string => roundOne(kept, text.load(operand, at));
    const pointer = `((const ${fourOf(type)}*)${text.pointer(operand)})`;
    return (at: string): string => round(kept, widen(type, `${pointer}[${at}]`));
  };
  const parts = { length: position!, each: R, most: Infinity };
  const need = { kind: 'blocks', count: countElements([batch!, heads!]), block: threads, parts } as const;
  return writeKernel(
    result,
    find,
    need,
    ({ text, code }) => {
      const eachRow = (line: string): void => {
        text.line('#pragma unroll');
        text.line(`for (int r = 0; r < ${R}; r++) ${line}`);
      };
      text.line(`__shared__ ${vector} query[${R}][${places}];`);
      text.line(`__shared__ float4 powersOf[${(chunk * R) / 4}];`);
      text.line('float* const scores = (float*)powersOf;');
      text.line(`__shared__ float largest[${R}], total[${R}], shrink[${R}];`);
      text.line(`__shared__ ${vector} mixed[${threads}];`);
      declareAttentionSizes(text, tensor);
      text.line(`const int tiles = (rows + ${R - 1}) / ${R};`);
      text.line('const int warp = threadIdx.x / 32;');
      text.line('const int lane = threadIdx.x % 32;');
      text.line(`const int group = threadIdx.x / ${places};`);
      text.line(`const int at = threadIdx.x % ${places};`);
      const items = `${text.dimension(batch!)} * tiles * heads`;
      text.block(`for (int item = blockIdx.x; item < ${items}; item += gridDim.x)`, () => {
        text.line('const int head = item % heads;');
        text.line(`const int firstRow = (item / heads) % tiles * ${R};`);
        text.line('const int sequence = item / (heads * tiles);');
        text.line(`const int own = min(${R}, rows - firstRow);`);
        declareKeyHead(text, tensor);
        text.line('__syncthreads();');
        text.block(`for (int i = threadIdx.x; i < ${R * size}; i += blockDim.x)`, () => {
          // Missing rows repeat the last one and are not stored.
          text.line(`const int row = firstRow + min(i / ${size}, own - 1);`);
          text.line(`const int place = i % ${size};`);
          const value = code.element(queries!, { axes: ['sequence', 'row', 'head', 'place'] });
          text.line(`((float*)query)[i] = ${value} * ${Math.fround(scale)}f;`);
        });
        text.line(`if (threadIdx.x < ${R}) { largest[threadIdx.x] = -INFINITY; total[threadIdx.x] = 0.0f; }`);
        text.line(`${vector} sum[${R}] = {};`);
        text.line('__syncthreads();');
        text.line(`${vector} kept[${R}][${perLane}];`);
        text.unroll('i', perLane, () => {
          text.line('const int spot = lane + 32 * i;');
          eachRow(`kept[r][i] = spot < ${places} ? query[r][spot] : ${vector}${zero};`);
        });
        text.line('int before = 0;');
        segments.forEach((kind, index) => {
          const keys = sides[2 * index]!;
          const [readKeys, readValues] = [keys, sides[2 * index + 1]!].map((side) =>
            readWith(text, side, kind),
          );
          const length = text.dimension(keys.shape.at(-3)!);
          const start = kind === 'own' ? `sequence * ${length}` : '0';
          const [stride, own] = kind === 'common' ? [keyValueHeads, 'commonHead'] : ['keyHeads', 'keyHead'];
          const element = (column: string): string =>
            `((long long)(${start} + ${column}) * ${stride} + ${own}) * ${places}`;
          text.block(`for (int first = 0; first < ${length}; first += ${chunk})`, () => {
            text.line(`const int length = min(${chunk}, ${length} - first);`);
            text.line(`#pragma unroll ${ahead}`);
            text.block(`for (int u = warp; u < length; u += ${warps})`, () => {
              text.line(`const long long key = ${element('first + u')};`);
              text.line(`float score[${R}] = {};`);
              text.unroll('i', perLane, () => {
                // Missing places meet a query of zeros.
                const at = `key + min(lane + 32 * i, ${places - 1})`;
                text.line(`const ${vector} value = ${readKeys!(at)};`);
                const products = fields.map((field) => `kept[r][i]${field} * value${field}`).join(' + ');
                eachRow(`score[r] += ${products};`);
              });
              writeScatteredSums(text);
              text.line(`if (lane % ${32 / R} == 0) scores[u * ${R} + lane / ${32 / R}] = score[0];`);
            });
            text.line('__syncthreads();');
            text.block(`if (warp < ${R})`, () => {
              text.line('const int row = firstRow + min(warp, own - 1);');
              const maskRow = findMaskRow(mask!, 'row');
              text.line('float top = -INFINITY;');
              text.block('for (int u = lane; u < length; u += 32)', () => {
                const masked = text.load(
                  place(mask!),
                  `(long long)${maskRow} * columns + before + first + u`,
                );
                text.line(`const float score = scores[u * ${R} + warp] + ${masked};`);
                text.line(`scores[u * ${R} + warp] = score;`);
                text.line('top = fmaxf(top, score);');
              });
              text.line(
                'for (int step = 16; step > 0; step >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));',
              );
              text.line('const float old = largest[warp];');
              text.line('const float higher = fmaxf(old, top);');
              text.line('float powers = 0.0f;');
              text.block('for (int u = lane; u < length; u += 32)', () => {
                text.line(`const float power = expf(scores[u * ${R} + warp] - higher);`);
                text.line(`scores[u * ${R} + warp] = power;`);
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
            for (const field of fields) eachRow(`sum[r]${field} *= shrink[r];`);
            text.block(`if (group < ${groups})`, () => {
              text.line(`#pragma unroll ${ahead}`);
              text.block(`for (int u = group; u < length; u += ${groups})`, () => {
                text.line(`const ${vector} value = ${readValues!(`${element('first + u')} + at`)};`);
                const power = readPowers(text);
                power.forEach((each, r) => {
                  for (const field of fields) text.line(`sum[${r}]${field} += ${each} * value${field};`);
                });
              });
            });
            text.line('__syncthreads();');
          });
          text.line(`before += ${length};`);
        });
        text.unroll('r', R, () => {
          text.line('if (r >= own) break;');
          text.line('mixed[threadIdx.x] = sum[r];');
          text.line('__syncthreads();');
          text.block(`if (threadIdx.x < ${size})`, () => {
            text.line('float whole = 0.0f;');
            text.line(
              `for (int part = 0; part < ${groups}; part++) whole += ((float*)mixed)[part * ${size} + threadIdx.x];`,
            );
            const to = `((long long)(sequence * rows + firstRow + r) * heads + head) * ${size} + threadIdx.x`;
            text.store(result, to, 'whole / total[r]');
          });
          text.line('__syncthreads();');
        });
      });
    },
    threads,
  );
}

/** Sums `score` of all rows over a warp; score[0] is then of row lane / (32 / rows). */
function writeScatteredSums(text: KernelText): void {
  let step = 16;
  for (let half = R / 2; half >= 1; half /= 2, step /= 2) {
    text.unroll('r', half, () => {
      text.line(`const float sent = (lane & ${step}) != 0 ? score[r] : score[r + ${half}];`);
      text.line(`const float own = (lane & ${step}) != 0 ? score[r + ${half}] : score[r];`);
      text.line(`score[r] = own + __shfl_xor_sync(0xffffffffu, sent, ${step});`);
    });
  }
  text.line(
    `for (int step = ${step}; step > 0; step >>= 1) score[0] += __shfl_xor_sync(0xffffffffu, score[0], step);`,
  );
}

function readPowers(text: KernelText): readonly string[] {
  return Array.from({ length: R / 4 }, (_, index) => {
    text.line(`const float4 power${index} = powersOf[u * ${R / 4} + ${index}];`);
    return ['x', 'y', 'z', 'w'].map((field) => `power${index}.${field}`);
  }).flat();
}

// Common declarations of attention kernels, for `head` of `sequence` with `rows` and `columns`. Heads belong to
// lanes, and within a lane to groups that share a key-value head.
export function declareAttentionSizes(
  text: KernelText,
  { shape, inputs, attributes }: TensorOf<'attention'>,
): void {
  const [, position, heads] = shape;
  const mask = inputs[1]!;
  const keyHeads = multiplyDimensions(lanesOf(mask), attributes.keyValueHeads);
  text.line(`const int rows = ${text.dimension(position!)};`);
  text.line(`const int heads = ${text.dimension(heads!)};`);
  text.line(`const int keyHeads = ${text.dimension(keyHeads)};`);
  text.line(`const int columns = ${text.dimension(mask.shape.at(-1)!)};`);
}

export function declareKeyHead(text: KernelText, { attributes }: TensorOf<'attention'>): void {
  const { heads, keyValueHeads } = attributes;
  text.line(`const int laneOf = head / ${heads};`);
  text.line(`const int commonHead = (head % ${heads}) / ${heads / keyValueHeads};`);
  text.line(`const int keyHead = laneOf * ${keyValueHeads} + commonHead;`);
}

export function findMaskRow(mask: Tensor, row: string): string {
  const before = { all: undefined, batch: 'sequence', lanes: 'laneOf' }[ownersOfMask(mask)];
  return before === undefined ? row : `(${before} * rows + ${row})`;
}
