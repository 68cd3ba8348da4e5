/**
 * Attention of up to 64 rows over a long past (flash-decoding, Dao et al.): a part is 64 of the columns that a row sees,
 * and a block has some rows of a head and several parts. Each part keeps its largest score, sum of powers and mixture;
 * they are joined in their order, by the block itself or by the last of several to finish.
 * A row's result depends on nothing but what it sees. The k-th column that a row sees has place k in its sums, wherever
 * it lies: behind rows that only others see (branches of a tree), in another segment, or after the end of a shorter lane.
 * These columns are found once for all layers (seen-columns-kernel.ts), and parts do not depend on the past's length.
 * Groups of threads share a column for the scores, a warp has a row for the softmax, and each thread has four places
 * for the mixture. Rotated keys of the new rows are computed here and stored for other readers.
 * Latency takes the time, so the past is read into registers before the kernel that makes the queries has ended.
 */
import { addDimensions, countElements, multiplyDimensions } from '../../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { type Place, rootOf } from '../programs/step.js';
import { declareAttentionSizes, declareKeyHead } from './attention-kernel.js';
import { type FindOperand, ElementCode } from './element-code.js';
import { type KernelPlan, finishKernel } from './kernel-plan.js';
import { fourOf } from './kernel-text.js';
import {
  chunk,
  findPastType,
  readPast,
  type SplitAttention,
  type SplitShape,
  type SplitWriting,
} from './split-attention-columns.js';
import { writeForkedMixture, writeForkedScores, writeMixture, writeScores } from './split-attention-sums.js';

/** Each thread has at most 64 values of the past, which leaves registers for the rest. */
function shapeFor(size: number, rows = 1): SplitShape {
  const threads = size <= 64 ? 128 : 256;
  return {
    threads,
    // Many rows have blocks enough.
    slots: size <= 128 && rows <= 16 ? 512 / threads : 1,
    perColumn: [8, 4, 2, 1].find((count) => size % (4 * count) === 0) ?? 0,
    groups: Math.floor((4 * threads) / size),
  };
}

/** Row counts of the kernels, and how many of these rows a block has: with 8, five rows would take longer. */
const maxOwn = 4;
export const attentionForms = [1, 4, 8, 16, 32, 64].map((rows) => ({ rows, own: Math.min(rows, maxOwn) }));
/** With more, the device is busy if each block has all parts of its item. */
export const countedItems = 1024;

export function isSplittable({ attributes: { segments }, shape }: TensorOf<'attention'>): boolean {
  const size = shape.at(-1)!;
  if (typeof size !== 'number' || size > 512 || shapeFor(size).perColumn === 0) return false;
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
  const [batch, , heads] = tensor.shape;
  const size = tensor.shape.at(-1) as number;
  const columns = tensor.inputs[1]!.shape.at(-1)!;
  const results = [result, scratch, counters, ...(ownKeys === undefined ? [] : [ownKeys.result])];
  const shape = shapeFor(size, most);
  const block = shape.threads * shape.slots;
  const need = {
    kind: 'blocks' as const,
    count: countElements([batch!, heads!, most / rows]),
    block,
    parts: { length: columns, each: chunk * shape.slots, most: Infinity },
  };
  return finishKernel(
    results,
    need,
    (text) => {
      const made = ownKeys?.tensor;
      const place = (side: Tensor): Place => find(rootOf(side))! as Place;
      const writing: SplitWriting = {
        ...{ text, work, rows, size, ...shape },
        scoreRounds: Math.ceil((chunk * shape.perColumn) / shape.threads),
        mixtureRounds: Math.ceil(chunk / shape.groups),
        loads: size / (4 * shape.perColumn),
        code: new ElementCode(text, (other) => (other === made ? undefined : find(other))),
        pastType: findPastType(tensor, place),
        place,
      };
      declare(writing);
      const first = (): void => {
        text.line('int base = firstPart;');
        readPast(writing);
      };
      if (work.isSeenEarly) first();
      text.waitHere();
      if (!work.isSeenEarly) first();
      writeQueries(writing);
      if (ownKeys !== undefined) storeOwnKeys(writing, ownKeys);
      text.line('__syncthreads();');
      const forParts = (forked: (writing: SplitWriting) => void, common: typeof forked): void => {
        text.block('if (base + slot < endPart)', () => {
          if (rows > 1)
            text.block('if (isForked)', () => {
              forked(writing);
            });
          text.block(rows > 1 ? 'else' : '', () => {
            common(writing);
          });
        });
        text.line('__syncthreads();');
      };
      text.block('for (;;)', () => {
        forParts(writeForkedScores, writeScores);
        text.block('if (base + slot < endPart)', () => {
          writeSoftmax(writing);
        });
        text.line('__syncthreads();');
        forParts(writeForkedMixture, writeMixture);
        keepParts(writing);
        text.line(`base += ${shape.slots};`);
        text.line('if (base >= endPart) break;');
        text.line('__syncthreads();');
        readPast(writing);
      });
      joinParts(writing);
    },
    block,
    512 / block,
  );
}

function declare({ text, work, rows, size, threads, slots, groups, ...writing }: SplitWriting): void {
  text.line(`__shared__ float4 query[${rows}][${size / 4}];`);
  text.line(`__shared__ float scores[${slots}][${rows}][${chunk}];`);
  text.line(`__shared__ int columnOf[${slots}][${rows}][${chunk}];`);
  text.line(`__shared__ float4 mixed[${slots}][${groups}][${rows}][${size / 4}];`);
  text.line(`__shared__ float largest[${slots}][${rows}], total[${slots}][${rows}];`);
  text.line(`__shared__ int isLast, isForked, hasLate[${slots}];`);
  declareAttentionSizes(text, work.tensor);
  text.line(`const int tiles = (rows + ${rows - 1}) / ${rows};`);
  text.line(`const int items = ${text.dimension(work.tensor.shape[0]!)} * heads * tiles;`);
  text.line(`const int parts = (columns + ${chunk - 1}) / ${chunk};`);
  text.line(`const int shares = (parts + ${slots - 1}) / ${slots};`);
  text.line(`const bool isAlone = shares == 1 || items > ${countedItems};`);
  text.line('const int item = isAlone ? blockIdx.x : blockIdx.x / shares;');
  text.line('if (item >= items) return;');
  text.line(`const int firstPart = isAlone ? 0 : blockIdx.x % shares * ${slots};`);
  text.line(`const int endPart = isAlone ? parts : min(parts, firstPart + ${slots});`);
  text.line('const int head = item % heads;');
  text.line('const int tile = item / heads % tiles;');
  text.line('const int sequence = item / (heads * tiles);');
  text.line(`const int firstRow = tile * ${rows};`);
  text.line(`const int own = min(${rows}, rows - firstRow);`);
  declareKeyHead(text, work.tensor);
  text.line(`const int slot = threadIdx.x / ${threads};`);
  text.line(`const int thread = threadIdx.x % ${threads};`);
  text.line('const int warp = thread / 32;');
  text.line('const int lane = thread % 32;');
  text.line(`const int group = thread / ${size / 4};`);
  text.line(`const int at = thread % ${size / 4};`);
  text.line(`Joined joined[${Math.ceil((rows * size) / (threads * slots))}];`);
  const four = fourOf(writing.pastType);
  text.line(`${four} keys[${writing.scoreRounds}][${writing.loads}];`);
  text.line(`${four} values[${writing.mixtureRounds}];`);
}

function writeQueries({ text, code, work, rows, size, threads, slots }: SplitWriting): void {
  text.block(`for (int i = threadIdx.x; i < ${rows * size}; i += ${threads * slots})`, () => {
    // Missing rows repeat the last one and are not stored.
    text.line(`const int row = firstRow + min(i / ${size}, own - 1);`);
    text.line(`const int place = i % ${size};`);
    const value = code.element(work.tensor.inputs[0]!, { axes: ['sequence', 'row', 'head', 'place'] });
    text.line(`((float*)query)[i] = ${value} * ${Math.fround(work.tensor.attributes.scale)}f;`);
  });
}

function storeOwnKeys(
  { text, code, work, size, threads, slots }: SplitWriting,
  { result }: NonNullable<SplitAttention['ownKeys']>,
): void {
  const { heads, keyValueHeads, segments } = work.tensor.attributes;
  const keys = work.tensor.inputs[2 + 2 * segments.lastIndexOf('own')]!;
  text.block(`if (firstPart == 0 && tile == 0 && head % ${heads / keyValueHeads} == 0)`, () => {
    text.block(`for (int i = threadIdx.x; i < rows * ${size}; i += ${threads * slots})`, () => {
      text.line(`const int column = i / ${size};`);
      text.line(`const int place = i % ${size};`);
      const value = code.element(keys, { axes: ['sequence', 'column', 'keyHead', 'place'] });
      text.store(result, `((sequence * rows + column) * keyHeads + keyHead) * ${size} + place`, value);
    });
  });
}

function writeSoftmax({ text, rows, threads }: SplitWriting): void {
  const overLanes = (join: string): void => {
    text.line(`for (int step = 16; step > 0; step >>= 1) ${join}`);
  };
  text.block(`for (int r = warp; r < ${rows}; r += ${threads / 32})`, () => {
    text.line('float* const own = scores[slot][r];');
    text.line('float top = -INFINITY;');
    text.line(`for (int u = lane; u < ${chunk}; u += 32) top = fmaxf(top, own[u]);`);
    overLanes('top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));');
    // The part may be behind all that the row sees.
    text.line('const float zero = top == -INFINITY ? 0.0f : top;');
    text.line('float powers = 0.0f;');
    text.block(`for (int u = lane; u < ${chunk}; u += 32)`, () => {
      text.line('const float power = expf(own[u] - zero);');
      text.line('own[u] = power;');
      text.line('powers += power;');
    });
    overLanes('powers += __shfl_xor_sync(0xffffffffu, powers, step);');
    text.line('if (lane == 0) { largest[slot][r] = top; total[slot][r] = powers; }');
  });
}

const resultAt = (size: number): string =>
  `((long long)(sequence * rows + firstRow + r) * heads + head) * ${size} + i % ${size}`;

const scratchAt = ({ rows, size }: SplitWriting, part: string): string =>
  `((long long)(item * ${rows} + r) * parts + ${part}) * ${size + 2}`;

/** Places of rows that each thread stores. */
function overPlaces({ text, rows, size, threads, slots }: SplitWriting, write: () => void): void {
  text.unroll('e', Math.ceil((rows * size) / (threads * slots)), () => {
    text.line(`const int i = threadIdx.x + ${threads * slots} * e;`);
    text.line(`const int r = i / ${size};`);
    text.block('if (r < own)', write);
  });
}

/** Joins the parts with those before, or leaves them for the last block. */
function keepParts(writing: SplitWriting): void {
  const { text, work, rows, size, groups, slots } = writing;
  overPlaces(writing, () => {
    text.line('#pragma unroll 1');
    text.block(`for (int s = 0; s < min(${slots}, endPart - base); s++)`, () => {
      text.line('float mixture = 0.0f;');
      text.line('#pragma unroll');
      text.line(
        `for (int g = 0; g < ${groups}; g++) mixture += ((float*)mixed)[(s * ${groups} + g) * ${rows * size} + i];`,
      );
      text.line('if (isAlone) joinPart(joined[e], largest[s][r], total[s][r], mixture);');
      text.block('else', () => {
        text.store(work.scratch, `${scratchAt(writing, '(base + s)')} + i % ${size}`, 'mixture');
      });
    });
  });
  text.block(`if (!isAlone && threadIdx.x < ${slots} * own)`, () => {
    text.line('const int r = threadIdx.x % own;');
    text.line('const int s = threadIdx.x / own;');
    text.block('if (base + s < endPart)', () => {
      text.store(work.scratch, `${scratchAt(writing, '(base + s)')} + ${size}`, 'largest[s][r]');
      text.store(work.scratch, `${scratchAt(writing, '(base + s)')} + ${size + 1}`, 'total[s][r]');
    });
  });
}

function joinParts(writing: SplitWriting): void {
  const { text, work, size } = writing;
  const { result, scratch, counters } = work;
  text.block('if (!isAlone)', () => {
    text.line('__threadfence();');
    text.line('__syncthreads();');
    text.block('if (threadIdx.x == 0)', () => {
      text.line(`isLast = atomicAdd(${text.pointer(counters)} + item, 1) == shares - 1;`);
      text.line(`if (isLast) ${text.pointer(counters)}[item] = 0;`);
    });
    text.line('__syncthreads();');
    text.line('if (!isLast) return;');
    text.line('__threadfence();');
    overPlaces(writing, () => {
      text.line('#pragma unroll 4');
      text.block('for (int p = 0; p < parts; p++)', () => {
        text.line(`const float* const from = ${text.pointer(scratch)} + ${scratchAt(writing, 'p')};`);
        // Written by other blocks.
        const read = (at: string): string => `readFresh(from + ${at})`;
        text.line(
          `joinPart(joined[e], ${read(String(size))}, ${read(String(size + 1))}, ${read(`i % ${size}`)});`,
        );
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
