/**
 * Attention of up to 64 rows over a long past: a block has some rows of a head and 64 of the columns that they see, so
 * that the whole device reads the past. Each keeps its largest score, sum of powers and mixture; the last to finish
 * joins the parts in their order (flash-decoding, Dao et al.).
 * A row's result depends on nothing but what it sees. The k-th column that a row sees has place k in its sums, wherever
 * it lies: behind rows that only others see (branches of a tree), in another segment, or after the end of a shorter lane.
 * These columns are found once for all layers (seen-columns-kernel.ts), and parts do not depend on the past's length.
 * Groups of threads share a column for the scores, a warp has a row for the softmax, and each thread has four places
 * for the mixture. Rotated keys of the new rows are computed here and stored for other readers.
 */
import { addDimensions, countElements, multiplyDimensions } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { rootOf } from '../programs/step.js';
import { declareAttentionSizes, declareKeyHead, findMaskRow } from './attention-kernel.js';
import { type FindOperand, ElementCode } from './element-code.js';
import { type KernelPlan, finishKernel } from './kernel-plan.js';
import type { KernelOperand, KernelText } from './kernel-text.js';

const threads = 128;
/** Columns of a block. */
const chunk = 64;
/** Threads per column, each with four values at a time. */
const groupFor = (size: number): number => [8, 4, 2, 1].find((group) => size % (4 * group) === 0) ?? 0;
const fields = ['x', 'y', 'z', 'w'];

/** Row counts of the kernels, and how many of these rows a block has: with 8, five rows would take longer. */
const maxOwn = 4;
export const attentionForms = [1, 4, 8, 16, 32, 64].map((rows) => ({ rows, own: Math.min(rows, maxOwn) }));
/** With more, the device is busy if each block has all parts of its item. */
export const countedItems = 1024;

interface SplitAttention {
  readonly tensor: TensorOf<'attention'>;
  readonly result: KernelOperand;
  /** Columns that each row of the mask sees. */
  readonly seen: KernelOperand;
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

export function isSplittable({ attributes: { segments }, shape }: TensorOf<'attention'>): boolean {
  const size = shape.at(-1)!;
  if (typeof size !== 'number' || groupFor(size) === 0 || size / 4 > threads) return false;
  return segments.every((kind) => kind !== 'diagonal');
}

/** Per row, head and part: mixture, largest score, sum of powers. Items beyond those counted need none. */
export function scratchShapes({ shape, inputs }: TensorOf<'attention'>) {
  const [batch, position, heads, size] = shape;
  const columns = addDimensions(inputs[1]!.shape.at(-1)!, chunk);
  const room = multiplyDimensions(columns, Math.ceil(((size as number) + 2) / chunk));
  const rows = countElements([batch!, addDimensions(position!, maxOwn - 1), heads!]);
  return { shape: [rows, room], atMost: [countedItems * maxOwn, room] };
}

/** @param most rows of a run */
export function planSplitAttention(
  work: SplitAttention,
  find: FindOperand,
  { rows: most, own: rows }: (typeof attentionForms)[number],
): KernelPlan {
  const { tensor, result, scratch, counters, ownKeys } = work;
  const [batch, , heads, size] = tensor.shape;
  const columns = tensor.inputs[1]!.shape.at(-1)!;
  const results = [result, scratch, counters, ...(ownKeys === undefined ? [] : [ownKeys.result])];
  const need = {
    kind: 'blocks' as const,
    count: countElements([batch!, heads!, most / rows]),
    block: threads,
    parts: { length: columns, each: chunk, most: Infinity },
  };
  return finishKernel(results, need, (text) => {
    const made = ownKeys?.tensor;
    const writing: SplitWriting = {
      text,
      work,
      rows,
      size: size as number,
      groups: Math.floor((4 * threads) / (size as number)),
      code: new ElementCode(text, (other) => (other === made ? undefined : find(other))),
      place: (side) => find(rootOf(side))!,
    };
    declare(writing);
    writeQueries(writing);
    if (ownKeys !== undefined) storeOwnKeys(writing, ownKeys);
    text.block('for (int part = firstPart; part < endPart; part++)', () => {
      findColumns(writing);
      writeScores(writing);
      writeSoftmax(writing);
      writeMixture(writing);
      keepPart(writing);
    });
    joinParts(writing);
  });
}

function declare({ text, work, rows, size, groups }: SplitWriting): void {
  text.line(`__shared__ float4 query[${rows}][${size / 4}];`);
  text.line(`__shared__ float scores[${rows}][${chunk}];`);
  text.line(`__shared__ int columnOf[${rows}][${chunk}];`);
  text.line(`__shared__ float4 mixed[${groups}][${rows}][${size / 4}];`);
  text.line(`__shared__ float largest[${rows}], total[${rows}];`);
  text.line('__shared__ int isLast, isForked;');
  declareAttentionSizes(text, work.tensor);
  text.line(`const int tiles = (rows + ${rows - 1}) / ${rows};`);
  text.line(`const int items = ${text.dimension(work.tensor.shape[0]!)} * heads * tiles;`);
  text.line(`const int parts = (columns + ${chunk - 1}) / ${chunk};`);
  text.line(`const bool isAlone = parts == 1 || items > ${countedItems};`);
  text.line('const int item = isAlone ? blockIdx.x : blockIdx.x / parts;');
  text.line('if (item >= items) return;');
  text.line('const int firstPart = isAlone ? 0 : blockIdx.x % parts;');
  text.line('const int endPart = isAlone ? parts : firstPart + 1;');
  text.line('const int head = item % heads;');
  text.line('const int tile = item / heads % tiles;');
  text.line('const int sequence = item / (heads * tiles);');
  text.line(`const int firstRow = tile * ${rows};`);
  text.line(`const int own = min(${rows}, rows - firstRow);`);
  declareKeyHead(text, work.tensor);
  text.line('const int warp = threadIdx.x / 32;');
  text.line('const int lane = threadIdx.x % 32;');
  text.line(`const int group = threadIdx.x / ${size / 4};`);
  text.line(`const int at = threadIdx.x % ${size / 4};`);
  text.line(`Joined joined[${Math.ceil((rows * size) / threads)}];`);
}

function writeQueries({ text, code, work, rows, size }: SplitWriting): void {
  text.block(`for (int i = threadIdx.x; i < ${rows * size}; i += ${threads})`, () => {
    // Missing rows repeat the last one and are not stored.
    text.line(`const int row = firstRow + min(i / ${size}, own - 1);`);
    text.line(`const int place = i % ${size};`);
    const value = code.element(work.tensor.inputs[0]!, { axes: ['sequence', 'row', 'head', 'place'] });
    text.line(`((float*)query)[i] = ${value} * ${Math.fround(work.tensor.attributes.scale)}f;`);
  });
}

function storeOwnKeys(
  { text, code, work, size }: SplitWriting,
  { result }: NonNullable<SplitAttention['ownKeys']>,
): void {
  const { heads, keyValueHeads, segments } = work.tensor.attributes;
  const keys = work.tensor.inputs[2 + 2 * segments.indexOf('own')]!;
  text.block(`if (firstPart == 0 && tile == 0 && head % ${heads / keyValueHeads} == 0)`, () => {
    text.block(`for (int i = threadIdx.x; i < rows * ${size}; i += ${threads})`, () => {
      text.line(`const int column = i / ${size};`);
      text.line(`const int place = i % ${size};`);
      const value = code.element(keys, { axes: ['sequence', 'column', 'keyHead', 'place'] });
      text.store(result, `((sequence * rows + column) * keyHeads + keyHead) * ${size} + place`, value);
    });
  });
}

/** -1 after the last. The last row sees most of a chain; rows of a tree may see others in its place. */
function findColumns({ text, work, rows }: SplitWriting): void {
  const [, mask] = work.tensor.inputs;
  const seen = text.pointer(work.seen);
  text.line('if (threadIdx.x == 0) isForked = 0;');
  text.block(`for (int i = threadIdx.x; i < ${rows * chunk}; i += ${threads})`, () => {
    text.line(`const int row = firstRow + min(i / ${chunk}, own - 1);`);
    text.line(`const long long from = (long long)${findMaskRow(mask!, 'row')} * (columns + 1);`);
    text.line(`const int place = part * ${chunk} + i % ${chunk};`);
    text.line(`((int*)columnOf)[i] = place < ${seen}[from] ? ${seen}[from + 1 + place] : -1;`);
  });
  text.line('__syncthreads();');
  if (rows === 1) return;
  text.block(`for (int i = threadIdx.x; i < ${rows * chunk}; i += ${threads})`, () => {
    text.line('const int column = ((int*)columnOf)[i];');
    text.line(`if (column >= 0 && column != columnOf[own - 1][i % ${chunk}]) isForked = 1;`);
  });
  text.line('__syncthreads();');
}

const lengthOf = (text: KernelText, { inputs }: TensorOf<'attention'>, segment: number): string =>
  text.dimension(inputs[2 + 2 * segment]!.shape.at(-3)!);

/** Four values of `column` as `value`; keys of new rows may have to be made. */
function loadColumn(writing: SplitWriting, side: 0 | 1, place: string): void {
  const { text, work, code, size } = writing;
  const { attributes, inputs } = work.tensor;
  const lengths = attributes.segments.map((_, index) => lengthOf(text, work.tensor, index));
  const starts = ['0'];
  for (const length of lengths.slice(0, -1)) {
    const last = starts.at(-1)!;
    starts.push(last === '0' ? length : text.define('int', `${last} + ${length}`));
  }
  text.line('float4 value;');
  attributes.segments.forEach((kind, index) => {
    const tensor = inputs[2 + 2 * index + side]!;
    const [from, length, next] = [starts[index]!, lengths[index]!, starts[index + 1]];
    const otherwise = index === 0 ? '' : 'else ';
    text.block(next === undefined ? otherwise : `${otherwise}if (column < ${next})`, () => {
      const line = text.define('int', from === '0' ? 'column' : `column - ${from}`);
      if (side === 0 && kind === 'own' && work.ownKeys !== undefined) {
        fields.forEach((field, e) => {
          const spot = text.define('int', `4 * ${place} + ${e}`);
          text.line(
            `value.${field} = ${code.element(tensor, { axes: ['sequence', line, 'keyHead', spot] })};`,
          );
        });
        return;
      }
      const [stride, own] =
        kind === 'common' ? [attributes.keyValueHeads, 'commonHead'] : ['keyHeads', 'keyHead'];
      const row = kind === 'own' ? `sequence * ${length} + ${line}` : line;
      const pointer = `(const float4*)${text.pointer(writing.place(tensor))}`;
      text.line(`value = (${pointer})[((long long)(${row}) * ${stride} + ${own}) * ${size / 4} + ${place}];`);
    });
  });
}

/** Writes the work for columns that all rows have in common, and for columns of each row's own. */
function eachColumn(
  { text, rows }: SplitWriting,
  write: (overRows: (body: () => void) => void, row: string) => void,
): void {
  const all = (body: () => void): void => {
    text.unroll('r', rows, body);
  };
  const one = (body: () => void): void => {
    body();
  };
  if (rows === 1) {
    text.line('const int r = 0;');
    write(one, '0');
    return;
  }
  text.block('if (!isForked)', () => {
    write(all, 'own - 1');
  });
  text.block('else', () => {
    text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
      write(one, 'r');
    });
  });
}

function writeScores(writing: SplitWriting): void {
  const { text, work, rows, size, place } = writing;
  const group = groupFor(size);
  const [, mask] = work.tensor.inputs;
  // All lanes stay together, because they exchange sums.
  text.block(`for (int u = threadIdx.x / ${group}; u < ${chunk}; u += ${threads / group})`, () => {
    text.line(`float score[${rows}] = {};`);
    eachColumn(writing, (overRows, row) => {
      text.line(`const int column = max(columnOf[${row}][u], 0);`);
      text.line('#pragma unroll');
      text.block(`for (int i = threadIdx.x % ${group}; i < ${size / 4}; i += ${group})`, () => {
        loadColumn(writing, 0, 'i');
        overRows(() => {
          for (const field of fields)
            text.line(`score[r] = fmaf(query[r][i].${field}, value.${field}, score[r]);`);
        });
      });
    });
    text.unroll('r', rows, () => {
      text.line(
        `for (int step = ${group / 2}; step > 0; step >>= 1) score[r] += __shfl_xor_sync(0xffffffffu, score[r], step);`,
      );
      text.block(`if (threadIdx.x % ${group} == 0)`, () => {
        text.line('const int column = columnOf[r][u];');
        text.line('const int row = firstRow + min(r, own - 1);');
        const at = `(long long)${findMaskRow(mask!, 'row')} * columns + max(column, 0)`;
        text.line(`scores[r][u] = column < 0 ? -INFINITY : score[r] + ${text.load(place(mask!), at)};`);
      });
    });
  });
  text.line('__syncthreads();');
}

function writeSoftmax({ text, rows }: SplitWriting): void {
  const overLanes = (join: string): void => {
    text.line(`for (int step = 16; step > 0; step >>= 1) ${join}`);
  };
  text.block(`for (int r = warp; r < ${rows}; r += ${threads / 32})`, () => {
    text.line('float top = -INFINITY;');
    text.line(`for (int u = lane; u < ${chunk}; u += 32) top = fmaxf(top, scores[r][u]);`);
    overLanes('top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));');
    // The part may be behind all that the row sees.
    text.line('const float zero = top == -INFINITY ? 0.0f : top;');
    text.line('float powers = 0.0f;');
    text.block(`for (int u = lane; u < ${chunk}; u += 32)`, () => {
      text.line('const float power = expf(scores[r][u] - zero);');
      text.line('scores[r][u] = power;');
      text.line('powers += power;');
    });
    overLanes('powers += __shfl_xor_sync(0xffffffffu, powers, step);');
    text.line('if (lane == 0) { largest[r] = top; total[r] = powers; }');
  });
  text.line('__syncthreads();');
}

function writeMixture(writing: SplitWriting): void {
  const { text, rows, groups } = writing;
  text.line(`float4 sum[${rows}] = {};`);
  text.block(`if (group < ${groups})`, () => {
    text.line('#pragma unroll 4');
    text.block(`for (int u = group; u < ${chunk}; u += ${groups})`, () => {
      eachColumn(writing, (overRows, row) => {
        text.line(`const int column = columnOf[${row}][u];`);
        text.block('if (column >= 0)', () => {
          loadColumn(writing, 1, 'at');
          overRows(() => {
            for (const field of fields)
              text.line(`sum[r].${field} = fmaf(scores[r][u], value.${field}, sum[r].${field});`);
          });
        });
      });
    });
    text.line('#pragma unroll');
    text.line(`for (int r = 0; r < ${rows}; r++) mixed[group][r][at] = sum[r];`);
  });
  text.line('__syncthreads();');
}

const resultAt = (size: number): string =>
  `((long long)(sequence * rows + firstRow + r) * heads + head) * ${size} + i % ${size}`;

const scratchAt = ({ rows, size }: SplitWriting, part: string): string =>
  `((long long)(item * ${rows} + r) * parts + ${part}) * ${size + 2}`;

/** Places of rows that each thread stores. */
function overPlaces({ text, rows, size }: SplitWriting, write: () => void): void {
  text.unroll('e', Math.ceil((rows * size) / threads), () => {
    text.line(`const int i = threadIdx.x + ${threads} * e;`);
    text.line(`const int r = i / ${size};`);
    text.block('if (r < own)', write);
  });
}

/** Joins the part with those before, or leaves it for the last block. */
function keepPart(writing: SplitWriting): void {
  const { text, work, rows, size, groups } = writing;
  overPlaces(writing, () => {
    text.line('float mixture = 0.0f;');
    text.line(`for (int g = 0; g < ${groups}; g++) mixture += ((float*)mixed)[g * ${rows * size} + i];`);
    text.line('if (isAlone) joinPart(joined[e], largest[r], total[r], mixture);');
    text.block('else', () => {
      text.store(work.scratch, `${scratchAt(writing, 'part')} + i % ${size}`, 'mixture');
    });
  });
  text.block('if (!isAlone && threadIdx.x < own)', () => {
    text.line('const int r = threadIdx.x;');
    text.store(work.scratch, `${scratchAt(writing, 'part')} + ${size}`, 'largest[r]');
    text.store(work.scratch, `${scratchAt(writing, 'part')} + ${size + 1}`, 'total[r]');
  });
  text.line('__syncthreads();');
}

function joinParts(writing: SplitWriting): void {
  const { text, work, size } = writing;
  const { result, scratch, counters } = work;
  text.block('if (!isAlone)', () => {
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
    overPlaces(writing, () => {
      text.block('for (int p = 0; p < parts; p++)', () => {
        text.line(`const volatile float* const from = found + ${scratchAt(writing, 'p')};`);
        text.line(`joinPart(joined[e], from[${size}], from[${size + 1}], from[i % ${size}]);`);
      });
    });
  });
  overPlaces(writing, () => {
    text.store(
      result,
      resultAt(size),
      'joined[e].powers > 0.0f ? joined[e].mixture / joined[e].powers : 0.0f',
    );
  });
}
