/**
 * Attention of few rows over a long past: several blocks per head, each with a stretch of the columns, so that the
 * whole device reads the past. Each block keeps its largest score, sum of powers and mixture; the last to finish
 * joins the parts in a fixed order (flash-decoding, Dao et al.).
 * Groups of threads share a column for the scores, a warp has a row for the softmax, and each thread has four places
 * for the mixture. Rotated keys of the new rows are computed here and stored for other readers.
 */
import { type Dimension, countElements } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { rootOf } from '../programs/step.js';
import { declareAttentionSizes, declareKeyHead, findMaskRow } from './attention-kernel.js';
import { type FindOperand, ElementCode } from './element-code.js';
import { type KernelPlan, finishKernel } from './kernel-plan.js';
import type { KernelOperand, KernelText } from './kernel-text.js';

/** One chunk of columns of split attention: scores, softmax, mixture. */
const threads = 128;
const chunk = 64;
/** Threads per column, each with four values at a time. */
const groupFor = (size: number): number => [8, 4, 2, 1].find((group) => size % (4 * group) === 0) ?? 0;

interface SplitAttention {
  readonly tensor: TensorOf<'attention'>;
  readonly result: KernelOperand;
  readonly scratch: KernelOperand;
  /** Zeros before and after. */
  readonly counters: KernelOperand;
  /** Set if the keys of the new rows are computed here. */
  readonly ownKeys: { readonly tensor: Tensor; readonly result: KernelOperand } | undefined;
}

interface SplitWriting {
  readonly text: KernelText;
  readonly code: ElementCode;
  readonly work: SplitAttention;
  readonly rows: number;
  readonly size: number;
  readonly groups: number; // of threads that share columns for the mixture
  readonly place: (tensor: Tensor) => KernelOperand;
}

function writeChunk(writing: SplitWriting): void {
  writeScores(writing);
  writeSoftmax(writing);
  writeMixture(writing);
}

const lengthOf = (text: KernelText, { inputs }: TensorOf<'attention'>, segment: number): string =>
  text.dimension(inputs[2 + 2 * segment]!.shape.at(-3)!);

function findColumn(writing: SplitWriting, name: string, side: 0 | 1): void {
  const { text, work, place } = writing;
  const { attributes, inputs } = work.tensor;
  const lengths = attributes.segments.map((_, index) => lengthOf(text, work.tensor, index));
  const starts = ['0'];
  for (const length of lengths.slice(0, -1)) {
    const last = starts.at(-1)!;
    starts.push(last === '0' ? length : text.define('int', `${last} + ${length}`));
  }
  text.line(`const float4* ${name};`);
  attributes.segments.forEach((kind, index) => {
    const tensor = inputs[2 + 2 * index + side]!;
    const [from, length, next] = [starts[index]!, lengths[index]!, starts[index + 1]];
    const otherwise = index === 0 ? '' : 'else ';
    const head = next === undefined ? otherwise : `${otherwise}if (column < ${next})`;
    const line = from === '0' ? 'column' : `column - ${from}`;
    const [stride, own] =
      kind === 'common' ? [attributes.keyValueHeads, 'commonHead'] : ['keyHeads', 'keyHead'];
    const row = kind === 'own' ? `sequence * ${length} + ${line}` : line;
    const isMadeHere = side === 0 && kind === 'own' && work.ownKeys !== undefined;
    const found = isMadeHere
      ? `ownKeys[${line}]`
      : `(const float4*)${text.pointer(place(tensor))} + ((long long)(${row}) * ${stride} + ${own}) * ${writing.size / 4}`;
    text.block(head, () => {
      text.line(`${name} = ${found};`);
    });
  });
}

function writeScores(writing: SplitWriting): void {
  const { text, work, rows, size, place } = writing;
  const group = groupFor(size);
  const [, mask] = work.tensor.inputs;
  // All lanes stay together, because they exchange sums.
  text.block(`for (int base = 0; base < length; base += ${threads / group})`, () => {
    text.line(`const int u = base + threadIdx.x / ${group};`);
    text.line('const int column = first + min(u, length - 1);');
    findColumn(writing, 'key', 0);
    text.line(`float score[${rows}] = {};`);
    text.line('#pragma unroll');
    text.block(`for (int i = threadIdx.x % ${group}; i < ${size / 4}; i += ${group})`, () => {
      text.line('const float4 value = key[i];');
      text.line(
        `for (int r = 0; r < ${rows}; r++) score[r] += query[r][i].x * value.x + query[r][i].y * value.y + query[r][i].z * value.z + query[r][i].w * value.w;`,
      );
    });
    text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
      text.line(
        `for (int step = ${group / 2}; step > 0; step >>= 1) score[r] += __shfl_xor_sync(0xffffffffu, score[r], step);`,
      );
      text.line('const int row = min(r, rows - 1);');
      const maskRow = findMaskRow(mask!, 'row');
      const masked = text.load(place(mask!), `(long long)${maskRow} * columns + column`);
      text.line(`if (u < length && threadIdx.x % ${group} == 0) scores[r][u] = score[r] + ${masked};`);
    });
  });
  text.line('__syncthreads();');
}

function writeSoftmax({ text, rows }: SplitWriting): void {
  const overLanes = (join: string): void => {
    text.line(`for (int step = 16; step > 0; step >>= 1) ${join}`);
  };
  text.block(`if (warp < ${rows})`, () => {
    text.line('float top = -INFINITY;');
    text.line('for (int u = lane; u < length; u += 32) top = fmaxf(top, scores[warp][u]);');
    overLanes('top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));');
    text.line('const float old = largest[warp];');
    text.line('const float higher = fmaxf(old, top);');
    text.line('float powers = 0.0f;');
    text.block('for (int u = lane; u < length; u += 32)', () => {
      text.line('const float power = expf(scores[warp][u] - higher);');
      text.line('scores[warp][u] = power;');
      text.line('powers += power;');
    });
    overLanes('powers += __shfl_xor_sync(0xffffffffu, powers, step);');
    text.line('__syncwarp();');
    text.block('if (lane == 0)', () => {
      text.line('shrink[warp] = old == higher ? 1.0f : expf(old - higher);');
      text.line('total[warp] = total[warp] * shrink[warp] + powers;');
      text.line('largest[warp] = higher;');
    });
  });
  text.line('__syncthreads();');
}

const fields = ['x', 'y', 'z', 'w'];

function writeMixture(writing: SplitWriting): void {
  const { text, rows, groups } = writing;
  text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
    for (const field of fields) text.line(`sum[r].${field} *= shrink[r];`);
  });
  text.block(`if (group < ${groups})`, () => {
    text.line('#pragma unroll 4');
    text.block(`for (int u = group; u < length; u += ${groups})`, () => {
      text.line('const int column = first + u;');
      findColumn(writing, 'row', 1);
      text.line('const float4 value = row[at];');
      text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
        for (const field of fields) text.line(`sum[r].${field} += scores[r][u] * value.${field};`);
      });
    });
  });
  text.line('__syncthreads();');
}

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
    kind: 'blocks' as const,
    count: countElements([batch!, heads!]),
    block: threads,
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
    text,
    work,
    rows,
    size,
    groups: Math.floor((4 * threads) / size),
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
