/**
 * Batches of examples, each found by its number alone, so that a run that goes on needs no memory of what it has seen.
 *
 * Which lengths meet in a row and in a batch follows from the lengths (row-layout.ts): every epoch has the same number of
 * batches, of the same shapes, and a program sees few of them. Who stands where among examples of one length (a rounded
 * one where rows are padded), which rows meet where all are of one length, and the order of the batches are drawn anew in
 * every epoch.
 */
import { MistletoeError } from '../core/errors.js';
import type { Random } from '../core/random.js';
import { createRandom } from '../core/random.js';
import type { Example } from './examples.js';
import { compareIds, refuseRepeated } from './examples.js';
import type { Shelf } from './row-layout.js';
import { packTexts, padTexts, roundUp } from './row-layout.js';
import type { TextBatch, TextPlace } from './text-batch.js';

export interface Batch extends TextBatch {
  /** From 0. */
  readonly epoch: number;
}

export interface BatchPlan {
  readonly batchesPerEpoch: number;
  /** Of all positions, those that hold nothing. */
  readonly paddingShare: number;
  /** Examples that are longer than a batch is meant to be, each in one of its own. */
  readonly oversizedCount: number;
  /** The batch of a step, from 0; the same whenever it is asked for. */
  batchAt(step: number): Batch;
}

export interface BatchOptions {
  /** Positions of a batch, padding included. */
  readonly batchTokens: number;
  /** Whether a row has one example, or as many as fit it. */
  readonly rows: 'padded' | 'packed';
  readonly seed: number;
}

export function planBatches(
  examples: readonly Example[],
  { batchTokens, rows, seed }: BatchOptions,
): BatchPlan {
  refuseRepeated(examples);
  if (examples.length === 0) {
    throw new MistletoeError('usage', 'There is no example to make batches of.', {
      hint: 'Give data with at least one answer that fits the length of an example.',
    });
  }
  if (!(batchTokens >= 1))
    throw new MistletoeError('usage', `A batch may have ${batchTokens} tokens; 1 or more was expected.`);
  const sorted = [...examples].sort((left, right) => compareIds(left.id, right.id));
  const isPacked = rows === 'packed';
  const classes = classByLength(sorted, isPacked ? (length) => length : roundUp);
  const lengths = classes.flatMap(({ length, members }) => members.map(() => length));
  const shelves = (isPacked ? packTexts : padTexts)(lengths, batchTokens);
  const batchCount = (shelf: Shelf): number => Math.ceil(shelf.rows.length / shelf.rowsOfBatch);
  const total = (count: (shelf: Shelf) => number): number =>
    shelves.reduce((sum, shelf) => sum + count(shelf), 0);
  const batchesPerEpoch = total(batchCount);
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
    oversizedCount: total((shelf) => (shelf.length > batchTokens ? batchCount(shelf) : 0)),
    batchAt(step) {
      if (!Number.isSafeInteger(step) || step < 0)
        throw new MistletoeError('usage', `There is no batch of step ${step}; 0 or more was expected.`);
      const epoch = Math.floor(step / batchesPerEpoch);
      enter(epoch);
      const batch = batches[step % batchesPerEpoch]!;
      const own = batch.rows.map((row) => row.map((place) => order[place]!));
      return { ...fillBatch(own, batch.length), epoch };
    },
  };
}

interface LengthClass {
  readonly length: number;
  readonly members: Example[];
}

/** Examples by what counts as their length, the longest first. */
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

/** Shelves of one batch each. */
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
