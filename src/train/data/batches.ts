/**
 * Batches of examples. A batch follows from its number alone, so a resumed run needs no record of earlier batches.
 *
 * Only the lengths decide which rows a batch has, so every epoch has the same number of batches with the same few shapes.
 * Each epoch shuffles the examples of equal length, the rows of equal length, and the order of the batches.
 */
import { type Random, createRandom } from '../../core/random.js';
import { blocked } from '../../model/attention-inputs.js';
import type { TrainSettings } from '../settings.js';
import { type Example, compareIds } from './examples.js';

/**
 * Texts as rows of a batch: one text and padding, or several packed texts. A text attends only to itself, and drafts
 * end with their text. Positions continue along a row: rotary attention depends on distances only.
 */
export interface TextPlace {
  /** Key of its stored states. */
  readonly id: string;
  readonly row: number;
  readonly start: number;
  readonly length: number;
}

export interface TextBatch {
  readonly tokens: Int32Array; // [batch, position]
  /** 1 for tokens in the loss, 0 in prompts and padding. */
  readonly weights: Float32Array; // [batch, position]
  readonly shape: readonly [number, number];
  readonly texts: readonly TextPlace[];
}

/** [batch, position] */
export function positionsInTexts({ shape: [count, length], texts }: TextBatch): Float32Array {
  const positions = new Float32Array(count * length);
  for (const { row, start, length: own } of texts)
    for (let position = 0; position < own; position++) positions[row * length + start + position] = position;
  return positions;
}

/** Added to scores: causal within each text and window. [batch, position, position] */
export function maskTexts({ shape: [count, length], texts }: TextBatch, window = Infinity): Float32Array {
  const mask = new Float32Array(count * length * length).fill(blocked);
  // Padding attends to itself, to avoid NaN.
  for (let at = 0; at < count * length; at++) mask[at * length + (at % length)] = 0;
  for (const { row, start, length: own } of texts)
    for (let position = start; position < start + own; position++) {
      const columns = (row * length + position) * length;
      mask.fill(0, columns + Math.max(start, position - window + 1), columns + position + 1);
    }
  return mask;
}

export type BatchPlan = Readonly<ReturnType<typeof planBatches>>;

/** `batchTokens`: positions of a batch, padding included. */
export function planBatches(
  examples: readonly Example[],
  { batchTokens, rows, seed }: Pick<TrainSettings, 'batchTokens' | 'rows' | 'seed'>,
) {
  const sorted = [...examples].sort((left, right) => compareIds(left.id, right.id));
  const isPacked = rows === 'packed';
  const classes = classByLength(sorted, isPacked ? (length) => length : roundUp);
  const lengths = classes.flatMap(({ length, members }) => members.map(() => length));
  const shelves = (isPacked ? packTexts : padTexts)(lengths, batchTokens);
  const total = (count: (shelf: Shelf) => number): number =>
    shelves.reduce((sum, shelf) => sum + count(shelf), 0);
  const batchesPerEpoch = total((shelf) => Math.ceil(shelf.rows.length / shelf.rowsOfBatch));
  const positions = total((shelf) => shelf.rows.length * shelf.length);
  const filled = sorted.reduce((sum, { tokens }) => sum + tokens.length, 0);

  let epochInUse = -1;
  let order: readonly Example[] = [];
  let batches: readonly Shelf[] = [];
  const enter = (epoch: number): void => {
    if (epoch === epochInUse) return;
    const random = createRandom(seed, 'batches', String(epoch));
    const shuffled = classes.flatMap(({ members }) => shuffle(members, random));
    const cut = shelves.flatMap((shelf) => cutBatches(shelf, random));
    [epochInUse, order, batches] = [epoch, shuffled, shuffle(cut, random)];
  };

  return {
    batchesPerEpoch,
    paddingShare: 1 - filled / positions,
    batchAt(step: number): TextBatch {
      enter(Math.floor(step / batchesPerEpoch));
      const batch = batches[step % batchesPerEpoch]!;
      const own = batch.rows.map((row) => row.map((place) => order[place]!));
      return fillBatch(own, batch.length);
    },
  };
}

interface LengthClass {
  readonly length: number;
  readonly members: Example[];
}

function classByLength(
  examples: readonly Example[],
  lengthOf: (length: number) => number,
): readonly LengthClass[] {
  const classes = new Map<number, LengthClass>();
  for (const example of examples) {
    const length = lengthOf(example.tokens.length);
    const found = classes.get(length);
    if (found === undefined) classes.set(length, { length, members: [example] });
    else found.members.push(example);
  }
  return [...classes.values()].sort((left, right) => right.length - left.length);
}

function cutBatches(shelf: Shelf, random: Random): readonly Shelf[] {
  const { rows, rowsOfBatch } = shelf;
  if (rows.length === rowsOfBatch) return [shelf];
  const shuffled = shuffle(rows, random);
  return Array.from({ length: Math.ceil(rows.length / rowsOfBatch) }, (_, batch) => ({
    ...shelf,
    rows: shuffled.slice(batch * rowsOfBatch, (batch + 1) * rowsOfBatch),
  }));
}

function shuffle<T>(items: readonly T[], random: Random): readonly T[] {
  const shuffled = [...items];
  random.shuffle(shuffled);
  return shuffled;
}

function fillBatch(rows: readonly (readonly Example[])[], length: number): TextBatch {
  const tokens = new Int32Array(rows.length * length);
  const weights = new Float32Array(rows.length * length);
  const texts: TextPlace[] = [];
  rows.forEach((examples, row) => {
    let start = 0;
    for (const example of examples) {
      tokens.set(example.tokens, row * length + start);
      weights.set(example.isLearnt, row * length + start);
      texts.push({ id: example.id, row, start, length: example.tokens.length });
      start += example.tokens.length;
    }
  });
  return { tokens, weights, shape: [rows.length, length], texts };
}

/**
 * Assigns texts to rows, and rows to batches, by length alone. Texts are sorted from long to short and known by
 * index. Longer packed rows have less padding but waste more attention, so the shortest rows with little padding are
 * used.
 */
interface Shelf {
  readonly length: number;
  readonly rowsOfBatch: number;
  /** Indices of the texts of each row. */
  readonly rows: readonly (readonly number[])[];
}

/** Lengths of rows are multiples of this, so that a program sees few of them. */
const lengthStep = 16;

/** Max share of padding in packed rows. */
const fullEnough = 0.02;

const roundUp = (length: number): number => Math.ceil(length / lengthStep) * lengthStep;

/** A batch has as many rows as fit at the length of its first text. */
export function padTexts(lengths: readonly number[], batchTokens: number): readonly Shelf[] {
  const shelves: Shelf[] = [];
  for (let start = 0; start < lengths.length; start += shelves.at(-1)!.rowsOfBatch) {
    const length = roundUp(lengths[start]!);
    const count = Math.min(Math.max(1, Math.floor(batchTokens / length)), lengths.length - start);
    const rows = Array.from({ length: count }, (_, row) => [start + row]);
    shelves.push({ length, rowsOfBatch: count, rows });
  }
  return shelves;
}

/** A text longer than a batch gets a batch of its own. */
export function packTexts(lengths: readonly number[], batchTokens: number): readonly Shelf[] {
  const first = lengths.findIndex((length) => roundUp(length) <= batchTokens);
  const oversized = first < 0 ? lengths : lengths.slice(0, first);
  const shelves: Shelf[] = oversized.map((length, place) => ({
    length: roundUp(length),
    rowsOfBatch: 1,
    rows: [[place]],
  }));
  if (first < 0) return shelves;
  const rest = lengths.slice(first);
  const tokens = rest.reduce((sum, length) => sum + length, 0);
  const shareEmpty = ({ length, rows }: Shelf): number => 1 - tokens / (length * rows.length);
  const tried: Shelf[] = []; // from short rows to long ones
  for (let count = Math.floor(batchTokens / roundUp(rest[0]!)); count >= 1; count = Math.floor(count / 2))
    tried.push(fillShelf(rest, batchTokens, count));
  const taken =
    tried.find((shelf) => shareEmpty(shelf) <= fullEnough) ??
    tried.reduce((left, right) => (shareEmpty(right) < shareEmpty(left) ? right : left));
  return [...shelves, { ...taken, rows: taken.rows.map((row) => row.map((place) => first + place)) }];
}

function fillShelf(lengths: readonly number[], batchTokens: number, rowsOfBatch: number): Shelf {
  const room = Math.floor(batchTokens / rowsOfBatch / lengthStep) * lengthStep;
  const rows = fillRows(lengths, room);
  const filled = rows.map((row) => row.reduce((sum, place) => sum + lengths[place]!, 0));
  const fullest = filled.reduce((most, count) => Math.max(most, count), 0);
  return { length: roundUp(fullest), rowsOfBatch: Math.min(rowsOfBatch, rows.length), rows };
}

/** Best fit. */
function fillRows(lengths: readonly number[], room: number): readonly (readonly number[])[] {
  const rows: number[][] = [];
  const byRoom = Array.from({ length: room + 1 }, (): number[] => []); // [room left] rows
  lengths.forEach((length, place) => {
    let left = length;
    while (left < room && byRoom[left]!.length === 0) left += 1;
    const row = byRoom[left]!.pop() ?? rows.push([]) - 1;
    rows[row]!.push(place);
    byRoom[left - length]!.push(row);
  });
  return rows;
}
