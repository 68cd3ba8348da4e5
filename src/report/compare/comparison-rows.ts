/**
 * The numbers of a comparison. Resamples draw prompts and take both runs of each, so that what the runs share cancels
 * out. A row is judged by its accepted length against the clean row of its own run: a faster drafter that loses the same
 * share under attack has not become more fragile. The difference of two shares is in percentage points.
 */
import type { ArmName } from '../../audit/arms/arms.js';
import { countClasses } from '../../audit/summary.js';
import type { StepCounts } from '../../measure/bootstrap.js';
import { acceptedLengthOf, bootstrapInterval, poolCounts } from '../../measure/bootstrap.js';
import { testSignedRanks } from '../../measure/significance.js';
import type { CountedComparison, RowComparison, Sides } from './comparison-record.js';
import type { ComparableArm, ComparablePrompt } from './finished-run.js';

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
  const side = (name: Side) => ({
    row: countsOf(pair[name], arm[name]),
    clean: countsOf(pair[name], 'clean'),
  });
  return { before: side('before'), after: side('after') };
}

const rowLength = (samples: readonly Sample[], side: Side): number =>
  acceptedLengthOf(poolCounts(samples.map((sample) => sample[side].row)));

const changeOf = (samples: readonly Sample[], side: Side): number =>
  rowLength(samples, side) / acceptedLengthOf(poolCounts(samples.map((sample) => sample[side].clean))) - 1;

const options = { seed: 'comparison' };

export function compareRow(pairs: readonly PromptPair[], arm: Sides<ArmName>): RowComparison[] {
  const present = pairs.filter((pair) => sides.every((side) => findRows(pair[side], arm[side]).length > 0));
  if (present.length === 0) return [];
  const samples = present.map((pair) => sampleOf(pair, arm));
  const both = <T>(value: (side: Side) => T): Sides<T> => ({
    before: value('before'),
    after: value('after'),
  });
  const isClean = arm.before === 'clean';
  return [
    {
      arm,
      n: present.length,
      length: both((side) => rowLength(samples, side)),
      lengthChange: bootstrapInterval(
        samples,
        (drawn) => rowLength(drawn, 'after') / rowLength(drawn, 'before') - 1,
        options,
      ),
      change: isClean ? null : both((side) => changeOf(samples, side)),
      difference: isClean
        ? null
        : bootstrapInterval(
            samples,
            (drawn) => changeOf(drawn, 'after') - changeOf(drawn, 'before'),
            options,
          ),
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

export function compareCounted(pairs: readonly PromptPair[], arm: Sides<ArmName>): CountedComparison {
  const samples = pairs.map((pair) => sampleOf(pair, arm));
  const own = (side: Side): number[] => samples.map((sample) => changeOf([sample], side));
  const { pValue, nNonZero } = testSignedRanks(own('after'), own('before'));
  const without = (side: Side): number =>
    pairs.filter((pair) =>
      findRows(pair[side], arm[side]).every(({ withoutSuffix }) => withoutSuffix !== null),
    ).length;
  return {
    drop: { before: -changeOf(samples, 'before'), after: -changeOf(samples, 'after') },
    growth: bootstrapInterval(
      samples,
      (drawn) => changeOf(drawn, 'before') - changeOf(drawn, 'after'),
      options,
    ),
    withoutSuffix: { before: without('before'), after: without('after') },
    nNonZero,
    pValue,
  };
}
