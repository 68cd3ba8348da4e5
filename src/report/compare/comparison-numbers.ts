/**
 * The numbers of a comparison. Intervals are over prompts and take both runs of each, so that what the runs share cancels
 * out. A row is judged by its accepted length against the clean row of its own run: a faster drafter that loses the same
 * share under attack has not become more fragile. The difference of two shares is in percentage points.
 */
import type { ArmName } from '../../audit/result.js';
import { countClasses } from '../../audit/summary.js';
import {
  acceptedLengthOf,
  jackknifeInterval,
  type Interval,
  poolCounts,
  type StepCounts,
  testSignedRanks,
} from '../../measure/statistics.js';
import type { ComparableArm, ComparablePrompt } from './finished-run.js';

export interface Sides<T> {
  readonly before: T;
  readonly after: T;
}

export type RowComparison = ReturnType<typeof compareRow>[number];
export type CountedComparison = ReturnType<typeof compareCounted>;
export type PromptPair = Sides<ComparablePrompt>;

export function findRows({ arms }: ComparablePrompt, arm: ArmName): ComparableArm[] {
  return arms.filter((row) => row.arm === arm);
}

/** The mean of its seeds and draws, so that a prompt weighs the same however many there were. */
function countsOf(prompt: ComparablePrompt, arm: ArmName): StepCounts {
  const rows = findRows(prompt, arm);
  const mean = (value: (counts: StepCounts) => number): number =>
    rows.reduce((total, { sameAnswer }) => total + value(sameAnswer), 0) / rows.length;
  return { accepted: mean(({ accepted }) => accepted), steps: mean(({ steps }) => steps) };
}

const sides = ['before', 'after'] as const;
type Side = (typeof sides)[number];

/** Both runs of a prompt: the row, and the clean row that it is held against. */
type Sample = Sides<{ readonly row: StepCounts; readonly clean: StepCounts }>;

function sampleOf(pair: PromptPair, arm: Sides<ArmName>): Sample {
  return both((side) => ({ row: countsOf(pair[side], arm[side]), clean: countsOf(pair[side], 'clean') }));
}

const rowLength = (samples: readonly Sample[], side: Side): number =>
  acceptedLengthOf(poolCounts(samples.map((sample) => sample[side].row)));

const changeOf = (samples: readonly Sample[], side: Side): number =>
  rowLength(samples, side) / acceptedLengthOf(poolCounts(samples.map((sample) => sample[side].clean))) - 1;

const both = <T>(value: (side: Side) => T): Sides<T> => ({ before: value('before'), after: value('after') });

const interval = (samples: readonly Sample[], value: (drawn: readonly Sample[]) => number): Interval =>
  jackknifeInterval(samples, value);

export function compareRow(pairs: readonly PromptPair[], arm: Sides<ArmName>) {
  const present = pairs.filter((pair) => sides.every((side) => findRows(pair[side], arm[side]).length > 0));
  if (present.length === 0) return [];
  const samples = present.map((pair) => sampleOf(pair, arm));
  const isClean = arm.before === 'clean';
  return [
    {
      /** Two names only where an attack is compared with suffixes that were given. */
      arm,
      n: present.length,
      /** Accepted length along the clean answer, pooled over the shared prompts. */
      length: both((side) => rowLength(samples, side)),
      /** after / before - 1 of that length. */
      lengthChange: interval(samples, (drawn) => rowLength(drawn, 'after') / rowLength(drawn, 'before') - 1),
      /** Against the clean row of the same run: -0.25 is a quarter less; null for that row itself. */
      change: isClean ? null : both((side) => changeOf(samples, side)),
      /** The second change less the first: -0.08 is 8 percentage points worse. */
      difference: isClean
        ? null
        : interval(samples, (drawn) => changeOf(drawn, 'after') - changeOf(drawn, 'before')),
      /** Target passes for the clean answer, a prompt. */
      passes: both((side) => poolCounts(samples.map((sample) => sample[side].row)).steps / samples.length),
      kept: both((side) =>
        countClasses(
          present.flatMap((pair) =>
            findRows(pair[side], arm[side]).map(({ preservation }) => preservation.kept),
          ),
        ),
      ),
    },
  ];
}

export function compareCounted(pairs: readonly PromptPair[], arm: Sides<ArmName>) {
  const samples = pairs.map((pair) => sampleOf(pair, arm));
  const own = (side: Side): number[] => samples.map((sample) => changeOf([sample], side));
  const { pValue, nNonZero } = testSignedRanks(own('after'), own('before'));
  return {
    /** 1 - attacked / clean length. */
    drop: both((side) => -changeOf(samples, side)),
    /** The second less the first: above 0 is worse. */
    growth: interval(samples, (drawn) => changeOf(drawn, 'before') - changeOf(drawn, 'after')),
    /** Prompts on which the search found no suffix. */
    withoutSuffix: both(
      (side) =>
        pairs.filter((pair) =>
          findRows(pair[side], arm[side]).every(({ withoutSuffix }) => withoutSuffix !== null),
        ).length,
    ),
    /** Prompts whose change differs between the runs: the others do not count in the test. */
    nNonZero,
    /** Whether the changes of the prompts differ, by a paired signed-rank test; two-sided. */
    pValue,
  };
}
