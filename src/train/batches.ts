/**
 * Batches of examples of like length, each found by its number alone, so that a run that goes on needs no memory of what
 * it has seen.
 *
 * Lengths are rounded up, examples sorted by that from long to short, and the list is cut into groups, each of as many
 * as fit a batch at the length of its first. The cuts follow from the lengths alone: every epoch has the same number of
 * batches, of the same shapes, and a program sees few of them. Who stands where among examples of one rounded length,
 * and the order of the groups, are drawn anew in every epoch.
 */
import { MistletoeError } from '../core/errors.js';
import { createRandom } from '../core/random.js';
import type { Example } from './examples.js';
import { compareIds, refuseRepeated } from './examples.js';

export interface Batch {
  /** Padded at the ends of rows, by zeros. [batch, position] */
  readonly tokens: Int32Array;
  /** 1 where a token is learnt, 0 in prompts and padding. [batch, position] */
  readonly weights: Float32Array;
  readonly shape: readonly [number, number];
  /** From 0. */
  readonly epoch: number;
  /** One for each row. */
  readonly exampleIds: readonly string[];
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
  readonly seed: number;
}

/** Lengths are multiples of this. */
const lengthStep = 16;

export function planBatches(examples: readonly Example[], { batchTokens, seed }: BatchOptions): BatchPlan {
  refuseRepeated(examples);
  if (examples.length === 0) {
    throw new MistletoeError('usage', 'There is no example to make batches of.', {
      hint: 'Give data with at least one answer that fits the length of an example.',
    });
  }
  if (!(batchTokens >= 1))
    throw new MistletoeError('usage', `A batch may have ${batchTokens} tokens; 1 or more was expected.`);
  const sorted = [...examples].sort((left, right) => compareIds(left.id, right.id));
  const classes = classByLength(sorted);
  const groups = cutGroups(classes, batchTokens);
  const positions = groups.reduce((total, { count, length }) => total + count * length, 0);
  const filled = sorted.reduce((total, { tokens }) => total + tokens.length, 0);

  let epochInUse = -1;
  let order: readonly Example[] = [];
  let places: readonly Group[] = [];
  const enter = (epoch: number): void => {
    if (epoch === epochInUse) return;
    const random = createRandom(seed, 'batches', String(epoch));
    const shuffled = classes.map(({ members }) => {
      const own = [...members];
      random.shuffle(own);
      return own;
    });
    const shuffledGroups = [...groups];
    random.shuffle(shuffledGroups);
    [epochInUse, order, places] = [epoch, shuffled.flat(), shuffledGroups];
  };

  return {
    batchesPerEpoch: groups.length,
    paddingShare: 1 - filled / positions,
    oversizedCount: groups.filter(({ length }) => length > batchTokens).length,
    batchAt(step) {
      if (!Number.isSafeInteger(step) || step < 0)
        throw new MistletoeError('usage', `There is no batch of step ${step}; 0 or more was expected.`);
      const epoch = Math.floor(step / groups.length);
      enter(epoch);
      const { start, count, length } = places[step % groups.length]!;
      return fillBatch(order.slice(start, start + count), length, epoch);
    },
  };
}

interface LengthClass {
  readonly length: number;
  readonly members: Example[];
}

/** Examples by their rounded length, the longest first. */
function classByLength(examples: readonly Example[]): readonly LengthClass[] {
  const classes = new Map<number, LengthClass>();
  for (const example of examples) {
    const length = Math.ceil(example.tokens.length / lengthStep) * lengthStep;
    const found = classes.get(length);
    if (found === undefined) classes.set(length, { length, members: [example] });
    else found.members.push(example);
  }
  return [...classes.values()].sort((left, right) => right.length - left.length);
}

/** Places in the list of all examples, longest first, with the length that all of them are padded to. */
interface Group {
  readonly start: number;
  readonly count: number;
  readonly length: number;
}

function cutGroups(classes: readonly LengthClass[], batchTokens: number): readonly Group[] {
  const lengths = classes.flatMap(({ length, members }) => members.map(() => length));
  const groups: Group[] = [];
  for (let start = 0; start < lengths.length; start += groups.at(-1)!.count) {
    const length = lengths[start]!;
    const count = Math.min(Math.max(1, Math.floor(batchTokens / length)), lengths.length - start);
    groups.push({ start, count, length });
  }
  return groups;
}

function fillBatch(rows: readonly Example[], length: number, epoch: number): Batch {
  const tokens = new Int32Array(rows.length * length);
  const weights = new Float32Array(rows.length * length);
  rows.forEach((example, row) => {
    tokens.set(example.tokens, row * length);
    weights.set(example.isLearnt, row * length);
  });
  return { tokens, weights, shape: [rows.length, length], epoch, exampleIds: rows.map(({ id }) => id) };
}
