/**
 * Attention of few rows over a long past: several blocks per head, each with a stretch of the columns, so that the
 * whole device reads the past. Each block keeps its largest score, sum of powers and mixture; the last to finish
 * joins the parts in a fixed order (flash-decoding, Dao et al.).
 * Groups of threads share a column for the scores, a warp has a row for the softmax, and each thread has four places
 * for the mixture. Rotated keys of the new rows are computed here and stored for other readers.
 */
import type { Dimension } from '../../../graph/dimension.js';
import { countElements } from '../../../graph/dimension.js';
import type { TensorOf } from '../../../graph/tensor.js';
import { declareAttentionSizes, declareKeyHead } from './attention-code.js';
import type { FindOperand } from './element-code.js';
import { ElementCode } from './element-code.js';
import type { KernelPlan } from './kernel-plan.js';
import { finishKernel } from './kernel-plan.js';
import type { KernelText } from './kernel-text.js';
import { rootOf } from '../programs/step.js';
import type { SplitAttention, SplitWriting } from './split-attention-chunk.js';
import { chunk, groupFor, lengthOf, threads, writeChunk } from './split-attention-chunk.js';

/** Max blocks per head. */
const maxParts = 16;
/** With more heads than counters, the device is busy without splitting. */
export const countedHeads = 4096;

export function isSplittable({ attributes: { segments }, shape }: TensorOf<'attention'>): boolean {
  const size = shape.at(-1)!;
  if (typeof size !== 'number' || groupFor(size) === 0 || size / 4 > threads) return false;
  return segments.every((kind) => kind !== 'diagonal');
}

/** Per head, row and part: mixture, largest score, sum of powers. */
export function scratchShape({ shape }: TensorOf<'attention'>): readonly Dimension[] {
  const [batch, position, heads, size] = shape;
  return [countElements([batch!, position!, heads!]), maxParts, (size as number) + 2];
}

export function planSplitAttention(work: SplitAttention, find: FindOperand, rows: number): KernelPlan {
  const { tensor, result, scratch, counters, ownKeys } = work;
  const [batch, , heads] = tensor.shape;
  const [, mask] = tensor.inputs;
  const results = [result, scratch, counters, ...(ownKeys === undefined ? [] : [ownKeys.result])];
  const need = {
    ...{ kind: 'blocks' as const, count: countElements([batch!, heads!]), block: threads },
    parts: { length: mask!.shape.at(-1)!, each: chunk, most: maxParts },
  };
  return finishKernel(results, need, (text) => {
    const writing = createWriting(work, find, rows, text);
    declare(writing);
    writeQueries(writing);
    if (ownKeys !== undefined) writeOwnKeys(writing, ownKeys);
    text.line('__syncthreads();');
    text.block(`for (int first = start; first < end; first += ${chunk})`, () => {
      text.line(`const int length = min(${chunk}, end - first);`);
      writeChunk(writing);
    });
    joinGroups(writing);
    joinParts(writing);
  });
}

function createWriting(
  work: SplitAttention,
  find: FindOperand,
  rows: number,
  text: KernelText,
): SplitWriting {
  const size = work.tensor.shape.at(-1) as number;
  const computed = work.ownKeys?.tensor;
  return {
    ...{ text, work, rows, size, groups: Math.floor((4 * threads) / size) },
    code: new ElementCode(text, (other) => (other === computed ? undefined : find(other))),
    place: (tensor) => find(rootOf(tensor))!,
  };
}

function declare({ text, work, rows, size, groups }: SplitWriting): void {
  text.line(`__shared__ float4 query[${rows}][${size / 4}];`);
  text.line(`__shared__ float scores[${rows}][${chunk}];`);
  text.line(`__shared__ float4 mixed[${groups}][${rows}][${size / 4}];`);
  text.line(`__shared__ float largest[${rows}];`);
  text.line(`__shared__ float total[${rows}];`);
  text.line(`__shared__ float shrink[${rows}];`);
  text.line('__shared__ int isLast;');
  declareAttentionSizes(text, work.tensor);
  text.line(`const int items = ${text.dimension(work.tensor.shape[0]!)} * heads;`);
  text.line(`const int chunks = (columns + ${chunk - 1}) / ${chunk};`);
  text.line(
    `const int chunksOfPart = items > ${countedHeads} ? chunks : (chunks + ${maxParts - 1}) / ${maxParts};`,
  );
  text.line('const int parts = (chunks + chunksOfPart - 1) / chunksOfPart;');
  text.line('const int item = blockIdx.x / parts;');
  text.line('const int part = blockIdx.x % parts;');
  text.line('if (item >= items) return;');
  text.line(`const int start = part * chunksOfPart * ${chunk};`);
  text.line(`const int end = min(columns, start + chunksOfPart * ${chunk});`);
  text.line('const int head = item % heads;');
  text.line('const int sequence = item / heads;');
  declareKeyHead(text, work.tensor);
  text.line('const int warp = threadIdx.x / 32;');
  text.line('const int lane = threadIdx.x % 32;');
  text.line(`const int group = threadIdx.x / ${size / 4};`);
  text.line(`const int at = threadIdx.x % ${size / 4};`);
  text.line(`float4 sum[${rows}] = {};`);
  text.line(`if (threadIdx.x < ${rows}) { largest[threadIdx.x] = -INFINITY; total[threadIdx.x] = 0.0f; }`);
}

function writeQueries({ text, code, work, rows, size }: SplitWriting): void {
  text.block(`for (int i = threadIdx.x; i < ${rows * size}; i += ${threads})`, () => {
    // Missing rows repeat the last one and are not stored.
    text.line(`const int row = min(i / ${size}, rows - 1);`);
    text.line(`const int place = i % ${size};`);
    const value = code.element(work.tensor.inputs[0]!, { axes: ['sequence', 'row', 'head', 'place'] });
    text.line(`((float*)query)[i] = ${value} * ${Math.fround(work.tensor.attributes.scale)}f;`);
  });
}

/** In shared memory; one block also stores them. */
function writeOwnKeys(
  { text, code, work, rows, size }: SplitWriting,
  { result }: NonNullable<SplitAttention['ownKeys']>,
): void {
  const { heads, keyValueHeads, segments } = work.tensor.attributes;
  const index = segments.indexOf('own');
  const keys = work.tensor.inputs[2 + 2 * index]!;
  const before = segments.slice(0, index).map((_, other) => lengthOf(text, work.tensor, other));
  text.line(`__shared__ float4 ownKeys[${rows}][${size / 4}];`);
  text.block(`if (end > ${before.length === 0 ? '0' : before.join(' + ')})`, () => {
    text.block(`for (int i = threadIdx.x; i < rows * ${size}; i += ${threads})`, () => {
      text.line(`const int column = i / ${size};`);
      text.line(`const int place = i % ${size};`);
      const value = code.element(keys, { axes: ['sequence', 'column', 'keyHead', 'place'] });
      text.line(`((float*)ownKeys)[i] = ${value};`);
      text.block(`if (part == parts - 1 && head % ${heads / keyValueHeads} == 0)`, () => {
        text.store(result, `((sequence * rows + column) * keyHeads + keyHead) * ${size} + place`, value);
      });
    });
  });
}

function joinGroups({ text, rows, groups }: SplitWriting): void {
  text.line(`if (group < ${groups}) for (int r = 0; r < ${rows}; r++) mixed[group][r][at] = sum[r];`);
  text.line('__syncthreads();');
}

function joinParts({ text, work, rows, size, groups }: SplitWriting): void {
  const { result, scratch, counters } = work;
  const width = size + 2;
  const overRows = `for (int i = threadIdx.x; i < min(rows, ${rows}) * ${size}; i += ${threads})`;
  const part = (p: string): string => `((long long)(item * rows + r) * ${maxParts} + ${p}) * ${width}`;
  text.block(overRows, () => {
    text.line(`const int r = i / ${size};`);
    text.line('float whole = 0.0f;');
    text.line(`for (int g = 0; g < ${groups}; g++) whole += ((float*)mixed)[g * ${rows * size} + i];`);
    text.block('if (parts == 1)', () => {
      text.store(
        result,
        `((long long)(sequence * rows + r) * heads + head) * ${size} + i % ${size}`,
        'whole / total[r]',
      );
    });
    text.block('else', () => {
      text.store(scratch, `${part('part')} + i % ${size}`, 'whole');
    });
  });
  text.line('if (parts == 1) return;');
  text.block(`if (threadIdx.x < min(rows, ${rows}))`, () => {
    text.line('const int r = threadIdx.x;');
    text.store(scratch, `${part('part')} + ${size}`, 'largest[r]');
    text.store(scratch, `${part('part')} + ${size + 1}`, 'total[r]');
  });
  text.line('__threadfence();');
  text.line('__syncthreads();');
  text.block('if (threadIdx.x == 0)', () => {
    text.line(`isLast = atomicAdd(${text.pointer(counters)} + item, 1) == parts - 1;`);
    text.line(`if (isLast) ${text.pointer(counters)}[item] = 0;`);
  });
  text.line('__syncthreads();');
  text.line('if (!isLast) return;');
  text.line('__threadfence();');
  // Written by other blocks: volatile avoids stale caches.
  text.line(`const volatile float* const found = ${text.pointer(scratch)};`);
  text.block(overRows, () => {
    text.line(`const int r = i / ${size};`);
    text.line('float top = -INFINITY;');
    text.line(`for (int p = 0; p < parts; p++) top = fmaxf(top, found[${part('p')} + ${size}]);`);
    text.line('float powers = 0.0f;');
    text.line('float whole = 0.0f;');
    text.block('for (int p = 0; p < parts; p++)', () => {
      text.line(`const float share = expf(found[${part('p')} + ${size}] - top);`);
      text.line(`powers += share * found[${part('p')} + ${size + 1}];`);
      text.line(`whole += share * found[${part('p')} + i % ${size}];`);
    });
    text.store(
      result,
      `((long long)(sequence * rows + r) * heads + head) * ${size} + i % ${size}`,
      'whole / powers',
    );
  });
}
