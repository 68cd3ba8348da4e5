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
import { declareAttentionSizes, declareKeyHead, findMaskRow } from './attention-kernel.js';
import { type FindOperand, ElementCode } from './element-code.js';
import { type KernelPlan, finishKernel } from './kernel-plan.js';
import type { KernelOperand, KernelText } from './kernel-text.js';

/** Columns of a part. */
const chunk = 64;
const fields = ['x', 'y', 'z', 'w'];

interface SplitShape {
  /** Of a part. */
  readonly threads: number;
  /** Parts of a block. */
  readonly slots: number;
  /** Threads per column for the scores, each with four values at a time. */
  readonly perColumn: number;
  /** Groups of threads that share columns for the mixture. */
  readonly groups: number;
}

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

interface SplitAttention {
  readonly tensor: TensorOf<'attention'>;
  readonly result: KernelOperand;
  /** Columns that each row of the mask sees. */
  readonly seen: KernelOperand;
  /** Whether `seen` and the mask are made before the kernel starts, and not just before it goes on. */
  readonly isSeenEarly: boolean;
  readonly scratch: KernelOperand;
  /** Zeros before and after. */
  readonly counters: KernelOperand;
  /** Set if the keys of the new rows are computed here. */
  readonly ownKeys: { readonly tensor: Tensor; readonly result: KernelOperand } | undefined;
}

interface SplitWriting extends SplitShape {
  readonly text: KernelText;
  readonly code: ElementCode;
  readonly work: SplitAttention;
  readonly rows: number;
  readonly size: number;
  /** Rounds of columns that a thread has a share of, for the scores and the mixture, and loads of a column. */
  readonly scoreRounds: number;
  readonly mixtureRounds: number;
  readonly loads: number;
  readonly place: (tensor: Tensor) => Place;
}

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
      const writing: SplitWriting = {
        ...{ text, work, rows, size, ...shape },
        scoreRounds: Math.ceil((chunk * shape.perColumn) / shape.threads),
        mixtureRounds: Math.ceil(chunk / shape.groups),
        loads: size / (4 * shape.perColumn),
        code: new ElementCode(text, (other) => (other === made ? undefined : find(other))),
        place: (side) => find(rootOf(side))! as Place,
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
          if (rows > 1) text.block('if (isForked)', () => forked(writing));
          text.block(rows > 1 ? 'else' : '', () => common(writing));
        });
        text.line('__syncthreads();');
      };
      text.block('for (;;)', () => {
        forParts(writeForkedScores, writeScores);
        text.block('if (base + slot < endPart)', () => writeSoftmax(writing));
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
  text.line(`float4 keys[${writing.scoreRounds}][${writing.loads}];`);
  text.line(`float4 values[${writing.mixtureRounds}];`);
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

/** Columns of the parts from `base`, and what is known of them before the kernel waits. */
function readPast(writing: SplitWriting): void {
  findColumns(writing);
  overShares(writing, unrolled, () => {
    overSpots(writing, unrolled, () => {
      readColumn(writing, 'early', 0, 'keys[n][i]', 'spot');
    });
  });
  overMixture(writing, unrolled, () => {
    readColumn(writing, 'early', 1, 'values[n]', 'at');
  });
}

/**
 * -1 after the last; the mask's values become the first summand of the scores. The last row sees most of a chain; rows
 * of a tree may see others in its place.
 */
function findColumns(writing: SplitWriting): void {
  const { text, work, rows, threads, place } = writing;
  const [, mask] = work.tensor.inputs;
  const seen = text.pointer(work.seen);
  const late = lateColumns(writing);
  if (rows > 1) text.line('if (threadIdx.x == 0) isForked = 0;');
  text.line('if (thread == 0) hasLate[slot] = 0;');
  text.line('__syncthreads();');
  text.block(`for (int i = thread; i < ${rows * chunk}; i += ${threads})`, () => {
    text.line(`const int row = firstRow + min(i / ${chunk}, own - 1);`);
    text.line(`const long long maskRow = ${findMaskRow(mask!, 'row')};`);
    text.line(`const int place = (base + slot) * ${chunk} + i % ${chunk};`);
    text.line(`const int* const found = ${seen} + maskRow * (columns + 1);`);
    // Read in any case, so that both loads are in flight.
    text.line('const int inside = found[1 + min(place, columns - 1)];');
    text.line('const int column = place < found[0] ? inside : -1;');
    text.line('((int*)columnOf[slot])[i] = column;');
    text.line(`if (column >= ${late}) hasLate[slot] = 1;`);
    const value = text.load(place(mask!), 'maskRow * columns + column');
    text.line(`((float*)scores[slot])[i] = column < 0 ? -INFINITY : ${value};`);
  });
  text.line('__syncthreads();');
  if (rows === 1) return;
  text.block(`for (int i = thread; i < ${rows * chunk}; i += ${threads})`, () => {
    text.line('const int column = ((int*)columnOf[slot])[i];');
    text.line(`if (column >= 0 && column != columnOf[slot][${rows - 1}][i % ${chunk}]) isForked = 1;`);
  });
  text.line('__syncthreads();');
}

const [unrolled, rolled] = ['#pragma unroll', '#pragma unroll 1'];

/** Whether a segment can be read before the kernel waits. */
const isEarly = (kind: string, place: Place): boolean => kind !== 'own' && place.origin === 'input';

/** The first column that can only be read after the kernel waited. */
function lateColumns({ text, work, place }: SplitWriting): string {
  const { attributes, inputs } = work.tensor;
  const sides = (index: number): Place => place(inputs[2 + 2 * index]!);
  const early = attributes.segments.findIndex((kind, index) => !isEarly(kind, sides(index)));
  const lengths = inputs
    .filter((_, index) => index >= 2 && index % 2 === 0)
    .slice(0, early < 0 ? undefined : early);
  const sum = lengths.map(({ shape }) => text.dimension(shape.at(-3)!)).join(' + ');
  return sum === '' ? '0' : text.define('int', sum);
}

/** Reads four values of `column`, which may be -1, if its segment is read now; keys of new rows may have to be made. */
function readColumn(
  writing: SplitWriting,
  when: 'early' | 'late' | 'any',
  side: 0 | 1,
  target: string,
  spot: string,
): void {
  const { text, work, size } = writing;
  const { attributes, inputs } = work.tensor;
  const lengths = attributes.segments.map((_, index) => text.dimension(inputs[2 + 2 * index]!.shape.at(-3)!));
  if (when !== 'late') text.line(`${target} = float4{0.0f, 0.0f, 0.0f, 0.0f};`);
  const starts = ['0'];
  for (const length of lengths.slice(0, -1)) {
    const last = starts.at(-1)!;
    starts.push(last === '0' ? length : text.define('int', `${last} + ${length}`));
  }
  text.block('if (column >= 0)', () => {
    attributes.segments.forEach((kind, index) => {
      const [start, next] = [starts[index]!, starts[index + 1]];
      const tensor = inputs[2 + 2 * index + side]!;
      const place = writing.place(tensor);
      text.block(`${index === 0 ? '' : 'else '}${next === undefined ? '' : `if (column < ${next})`}`, () => {
        if (when !== 'any' && isEarly(kind, place) !== (when === 'early')) return;
        const line = start === '0' ? 'column' : `(column - ${start})`;
        if (side === 0 && index === attributes.segments.lastIndexOf('own') && work.ownKeys !== undefined) {
          makeKey(writing, tensor, line, target, spot);
          return;
        }
        const [stride, own] =
          kind === 'common' ? [attributes.keyValueHeads, 'commonHead'] : ['keyHeads', 'keyHead'];
        const row = kind === 'own' ? `(sequence * ${lengths[index]!} + ${line})` : line;
        const element = `(const float4*)${text.pointer(place)} + ((${row} * ${stride} + ${own}) * ${size / 4} + ${spot})`;
        text.line(`${target} = ${isEarly(kind, place) ? 'readAhead' : '*'}(${element});`);
      });
    });
  });
}

function makeKey(
  { text, code }: SplitWriting,
  keys: Tensor,
  line: string,
  target: string,
  spot: string,
): void {
  const column = text.define('int', line);
  fields.forEach((field, e) => {
    const place = text.define('int', `4 * ${spot} + ${e}`);
    text.line(
      `${target}.${field} = ${code.element(keys, { axes: ['sequence', column, 'keyHead', place] })};`,
    );
  });
}

/** A thread's share of the columns: `u`, and its `column` or -1. */
function overShares(
  { text, rows, threads, perColumn, scoreRounds }: SplitWriting,
  unroll: string,
  write: () => void,
): void {
  const together = threads / perColumn;
  text.line(unroll);
  text.block(`for (int n = 0; n < ${scoreRounds}; n++)`, () => {
    text.line(`const int u = thread / ${perColumn} + ${together} * n;`);
    const column = `columnOf[slot][${rows - 1}][u]`;
    text.line(`const int column = ${chunk % together === 0 ? column : `u < ${chunk} ? ${column} : -1`};`);
    write();
  });
}

/** The places of a column that a thread has: `spot`. */
function overSpots({ text, loads, perColumn }: SplitWriting, unroll: string, write: () => void): void {
  text.line(unroll);
  text.block(`for (int i = 0; i < ${loads}; i++)`, () => {
    text.line(`const int spot = thread % ${perColumn} + ${perColumn} * i;`);
    write();
  });
}

function addProducts(text: KernelText, value: string, spot: string): void {
  for (const field of fields)
    text.line(`score[r] = fmaf(query[r][${spot}].${field}, ${value}.${field}, score[r]);`);
}

/** Sums the products of a column's threads, which stay together, and adds the mask. */
function storeScores({ text, rows, perColumn }: SplitWriting, isOwn: string): void {
  text.unroll('r', rows, () => {
    text.line(
      `for (int step = ${perColumn / 2}; step > 0; step >>= 1) score[r] += __shfl_xor_sync(0xffffffffu, score[r], step);`,
    );
    text.block(`if (thread % ${perColumn} == 0 && ${isOwn})`, () => {
      text.line('if (columnOf[slot][r][u] >= 0) scores[slot][r][u] += score[r];');
    });
  });
}

/** First of what was read ahead, then of the rest: few columns, whose code is long. */
function writeScores(writing: SplitWriting): void {
  const { text, rows } = writing;
  const late = lateColumns(writing);
  const addRows = (value: string): void => {
    text.unroll('r', rows, () => {
      addProducts(text, value, 'spot');
    });
  };
  overShares(writing, unrolled, () => {
    text.line(`float score[${rows}] = {};`);
    overSpots(writing, unrolled, () => {
      addRows('keys[n][i]');
    });
    storeScores(writing, `column >= 0 && column < ${late}`);
  });
  text.block('if (hasLate[slot] != 0)', () => {
    overShares(writing, rolled, () => {
      text.line(`float score[${rows}] = {};`);
      overSpots(writing, rolled, () => {
        text.line('float4 value = {};');
        readColumn(writing, 'late', 0, 'value', 'spot');
        addRows('value');
      });
      storeScores(writing, `column >= ${late}`);
    });
  });
}

/** Where rows see different columns, each reads its own. */
function writeForkedScores(writing: SplitWriting): void {
  const { text, rows, size, threads, perColumn } = writing;
  text.block(`for (int u = thread / ${perColumn}; u < ${chunk}; u += ${threads / perColumn})`, () => {
    text.line(`float score[${rows}] = {};`);
    text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
      text.line('const int column = columnOf[slot][r][u];');
      text.block(`for (int i = thread % ${perColumn}; i < ${size / 4}; i += ${perColumn})`, () => {
        text.line('float4 value;');
        readColumn(writing, 'any', 0, 'value', 'i');
        addProducts(text, 'value', 'i');
      });
    });
    storeScores(writing, 'true');
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

function addMixture(text: KernelText, value: string): void {
  for (const field of fields)
    text.line(`sum[r].${field} = fmaf(scores[slot][r][u], ${value}.${field}, sum[r].${field});`);
}

/** The columns of a thread: `u`, and its `column` or -1. */
function overMixture(
  { text, rows, groups, mixtureRounds }: SplitWriting,
  unroll: string,
  write: () => void,
): void {
  text.line(unroll);
  text.block(`for (int n = 0; n < ${mixtureRounds}; n++)`, () => {
    const inside = chunk % groups === 0 ? '' : `u < ${chunk} && `;
    text.line(`const int u = group + ${groups} * n;`);
    text.line(`const int column = ${inside}group < ${groups} ? columnOf[slot][${rows - 1}][u] : -1;`);
    write();
  });
}

function writeMixture(writing: SplitWriting): void {
  const { text, rows } = writing;
  const late = lateColumns(writing);
  const addRows = (value: string): void => {
    text.unroll('r', rows, () => {
      addMixture(text, value);
    });
  };
  text.line(`float4 sum[${rows}] = {};`);
  overMixture(writing, unrolled, () => {
    text.block(`if (column >= 0 && column < ${late})`, () => {
      addRows('values[n]');
    });
  });
  text.block('if (hasLate[slot] != 0)', () => {
    overMixture(writing, rolled, () => {
      text.line(`if (column < ${late}) continue;`);
      text.line('float4 value;');
      readColumn(writing, 'late', 1, 'value', 'at');
      addRows('value');
    });
  });
  storeMixture(writing);
}

function writeForkedMixture(writing: SplitWriting): void {
  const { text, rows, groups } = writing;
  text.line(`float4 sum[${rows}] = {};`);
  text.block(`for (int u = group; group < ${groups} && u < ${chunk}; u += ${groups})`, () => {
    text.block(`for (int r = 0; r < ${rows}; r++)`, () => {
      text.line('const int column = columnOf[slot][r][u];');
      text.line('float4 value;');
      readColumn(writing, 'any', 1, 'value', 'at');
      text.block('if (column >= 0)', () => {
        addMixture(text, 'value');
      });
    });
  });
  storeMixture(writing);
}

function storeMixture({ text, rows, groups }: SplitWriting): void {
  text.block(`if (group < ${groups})`, () => {
    text.line('#pragma unroll');
    text.line(`for (int r = 0; r < ${rows}; r++) mixed[slot][group][r][at] = sum[r];`);
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
