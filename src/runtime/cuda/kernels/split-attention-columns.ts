/**
 * What split attention reads of the past: which columns the rows of a block see (found for all layers by
 * seen-columns-kernel.ts), and their keys and values. Loads of the past start before the kernel waits for the one that
 * makes the queries; columns of segments that are computed in the same run come late.
 */
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import { isKept } from '../../../graph/operations/attention-view.js';
import type { ElementType } from '../driver/device.js';
import type { Place } from '../programs/step.js';
import { findMaskRow } from './attention-kernel.js';
import type { ElementCode } from './element-code.js';
import { fourOf, type KernelOperand, type KernelText, round, widen } from './kernel-text.js';

/** Columns of a part. */
export const chunk = 64;
export const fields = ['x', 'y', 'z', 'w'];

export interface SplitShape {
  /** Of a part. */
  readonly threads: number;
  /** Parts of a block. */
  readonly slots: number;
  /** Threads per column for the scores, each with four values at a time. */
  readonly perColumn: number;
  /** Groups of threads that share columns for the mixture. */
  readonly groups: number;
}

export interface SplitAttention {
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

export interface SplitWriting extends SplitShape {
  readonly text: KernelText;
  readonly code: ElementCode;
  readonly work: SplitAttention;
  readonly rows: number;
  readonly size: number;
  /** Rounds of columns that a thread has a share of, for the scores and the mixture, and loads of a column. */
  readonly scoreRounds: number;
  readonly mixtureRounds: number;
  readonly loads: number;
  /** Of what is read before the kernel waits. */
  readonly pastType: ElementType;
  readonly place: (tensor: Tensor) => Place;
}

/** Columns of the parts from `base`, and what is known of them before the kernel waits. */
export function readPast(writing: SplitWriting): void {
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

export const [unrolled, rolled] = ['#pragma unroll', '#pragma unroll 1'];

/** Of the segments that are read before the kernel waits. */
export function findPastType(
  { attributes: { segments }, inputs }: TensorOf<'attention'>,
  place: (tensor: Tensor) => Place,
): ElementType {
  const places = segments.map((kind, index) => ({ kind, side: place(inputs[2 + 2 * index]!) }));
  return places.find(({ kind, side }) => isEarly(kind, side))?.side.type ?? 'float32';
}

/** Whether a segment can be read before the kernel waits. */
const isEarly = (kind: string, place: Place): boolean => kind !== 'own' && place.origin === 'input';

/** The first column that can only be read after the kernel waited. */
export function lateColumns({ text, work, place }: SplitWriting): string {
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
export function readColumn(
  writing: SplitWriting,
  when: 'early' | 'late' | 'any',
  side: 0 | 1,
  target: string,
  spot: string,
): void {
  const { text, work, size, pastType } = writing;
  const { attributes, inputs } = work.tensor;
  const { cacheType = 'float32' } = attributes;
  const lengths = attributes.segments.map((_, index) => text.dimension(inputs[2 + 2 * index]!.shape.at(-3)!));
  if (when !== 'late') text.line(`${target} = ${when === 'early' ? fourOf(pastType) : 'float4'}{};`);
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
          text.line(`${target} = ${round(cacheType, target)};`);
          return;
        }
        const [stride, own] =
          kind === 'common' ? [attributes.keyValueHeads, 'commonHead'] : ['keyHeads', 'keyHead'];
        const row = kind === 'own' ? `(sequence * ${lengths[index]!} + ${line})` : line;
        const element = `(const ${fourOf(place.type)}*)${text.pointer(place)} + ((${row} * ${stride} + ${own}) * ${size / 4} + ${spot})`;
        const read = `${isEarly(kind, place) ? 'readAhead' : '*'}(${element})`;
        const rounded = isKept(kind) ? widen(place.type, read) : round(cacheType, read);
        text.line(`${target} = ${when === 'early' ? read : rounded};`);
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
export function overShares(
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
export function overSpots({ text, loads, perColumn }: SplitWriting, unroll: string, write: () => void): void {
  text.line(unroll);
  text.block(`for (int i = 0; i < ${loads}; i++)`, () => {
    text.line(`const int spot = thread % ${perColumn} + ${perColumn} * i;`);
    write();
  });
}

/** The columns of a thread: `u`, and its `column` or -1. */
export function overMixture(
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
