/**
 * One row per arm: pooled means with intervals over prompts, and paired tests. Prompts are the independent unit:
 * their seeds and draws are pooled first.
 */
import { poolHistograms } from '../decode/acceptance.js';
import {
  acceptedLengthOf,
  jackknifeInterval,
  type Interval,
  poolCounts,
  pooledAcceptedLengthInterval,
  type StepCounts,
  testSignedRanks,
} from '../measure/statistics.js';
import { keptClasses, type KeptClass } from '../measure/kept-class.js';
import type {
  AcceptanceSummary,
  ArmName,
  ArmResult,
  ArmSummary,
  ControlName,
  DrafterSummary,
  PairedTest,
  PromptResult,
} from './result.js';
import { arms, controls } from './result.js';

const find = (prompt: PromptResult, arm: ArmName): ArmResult[] =>
  prompt.arms.filter((entry) => entry.arm === arm);

export function countedArm(prompts: readonly PromptResult[]): 'attack' | 'given' {
  return prompts.some((prompt) => find(prompt, 'given').length > 0) ? 'given' : 'attack';
}

export function summariseDrafter(prompts: readonly PromptResult[]): DrafterSummary {
  const counted = countedArm(prompts);
  const audited = prompts.filter((prompt) => prompt.skipped === null && find(prompt, counted).length > 0);
  const failed = audited.filter((prompt) => find(prompt, counted).every((arm) => arm.withoutSuffix !== null));
  const promptsReplayed = audited.filter((prompt) =>
    prompt.arms.some(({ origin }) => origin?.replayed),
  ).length;
  const armsNotKept = audited.flatMap((prompt) => prompt.arms).filter(({ notKept }) => notKept).length;
  return {
    arms: arms.flatMap((arm) => {
      const results = audited.map((prompt) => find(prompt, arm)).filter(({ length }) => length > 0);
      return results.length === 0 ? [] : [summariseArm(arm, results)];
    }),
    drop: dropInterval(audited, counted),
    tests: promptsReplayed > 0 ? [] : controls.flatMap((control) => testAgainst(audited, counted, control)),
    promptsAudited: audited.length,
    promptsSkipped: prompts.length - audited.length,
    promptsWithoutSuffix: failed.length,
    ...(armsNotKept === 0 ? {} : { armsNotKept }),
    ...(promptsReplayed === 0 ? {} : { promptsReplayed }),
  };
}

/** results [prompt][seed or draw] */
function summariseArm(arm: ArmName, results: readonly (readonly ArmResult[])[]): ArmSummary {
  const all = results.flat();
  const average = (value: (result: ArmResult) => number): number =>
    all.reduce((total, result) => total + value(result), 0) / all.length;
  const total = (value: (result: ArmResult) => number): number => average(value) * all.length;
  const suffixes = all.flatMap(({ preservation }) => preservation.suffixPerplexity ?? []);
  return {
    arm,
    sameAnswer: lengthInterval(results.map(poolHeld)),
    meanOfPromptMeans:
      results.reduce((sum, seeds) => sum + acceptedLengthOf(poolHeld(seeds)), 0) / results.length,
    acceptanceByDepth: pooledDepths(all.map(({ sameAnswer }) => sameAnswer)),
    passes: average(({ sameAnswer }) => sameAnswer.steps),
    freeRunning: acceptedLengthOf(poolCounts(all.map(({ freeRunning }) => freeRunning))),
    passRatio: total(({ compared }) => compared.passes) / total(({ compared }) => compared.cleanPasses),
    answerLength: average(({ answer }) => answer.tokenIds.length),
    kept: countClasses(all.map(({ preservation }) => preservation.kept)),
    divergence: average(({ preservation }) => preservation.divergence),
    editSimilarity: average(({ preservation }) => preservation.editSimilarity),
    firstDifference: average(({ preservation }) => preservation.firstDifference),
    answerPerplexity: average(({ preservation }) => preservation.answerPerplexity),
    repetition: average(({ preservation }) => preservation.repetition),
    // Perplexities of nonsense span orders of magnitude, hence the geometric mean.
    suffixPerplexity:
      suffixes.length === 0
        ? null
        : Math.exp(suffixes.reduce((sum, value) => sum + Math.log(value), 0) / suffixes.length),
    withinBound: average(({ preservation }) => Number(preservation.withinBound)),
  };
}

const poolHeld = (seeds: readonly ArmResult[]): StepCounts =>
  poolCounts(seeds.map(({ sameAnswer }) => sameAnswer));

function pooledDepths(records: readonly AcceptanceSummary[]): number[] {
  const histogram = poolHistograms(records.map((record) => record.histogram));
  const steps = records.reduce((total, record) => total + record.steps, 0);
  return histogram
    .slice(1)
    .map(
      (_, depth) => histogram.slice(depth + 1).reduce((sum, count) => sum + count, 0) / Math.max(steps, 1),
    );
}

export function countClasses(classes: readonly KeptClass[]): Record<KeptClass, number> {
  const count = (wanted: KeptClass): number => classes.filter((kept) => kept === wanted).length;
  return Object.fromEntries(keptClasses.map((kept) => [kept, count(kept)])) as Record<KeptClass, number>;
}

function lengthInterval(counts: readonly StepCounts[]): Interval {
  if (counts.every(({ steps }) => steps === 0)) return { estimate: 1, low: 1, high: 1, n: 0 };
  return pooledAcceptedLengthInterval(counts);
}

function dropInterval(prompts: readonly PromptResult[], counted: ArmName): Interval {
  const pairs = prompts.map((prompt) => ({
    clean: poolHeld(find(prompt, 'clean')),
    attack: poolHeld(find(prompt, counted)),
    seeds: find(prompt, counted).length,
  }));
  if (pairs.length === 0) return { estimate: 0, low: 0, high: 0, n: 0 };
  // A prompt weighs the same on both sides, however many seeds attacked it.
  const perSeed = ({ attack, seeds }: (typeof pairs)[number]): StepCounts => ({
    accepted: attack.accepted / seeds,
    steps: attack.steps / seeds,
  });
  return jackknifeInterval(
    pairs,
    (sample) =>
      1 -
      acceptedLengthOf(poolCounts(sample.map(perSeed))) /
        acceptedLengthOf(poolCounts(sample.map(({ clean }) => clean))),
  );
}

function testAgainst(
  prompts: readonly PromptResult[],
  counted: ArmName,
  control: ControlName,
): readonly PairedTest[] {
  const pairs = prompts.flatMap((prompt) => {
    const others = find(prompt, control);
    return others.length === 0 ? [] : [[poolHeld(find(prompt, counted)), poolHeld(others)] as const];
  });
  if (pairs.length === 0) return [];
  const lengths = (side: 0 | 1): number[] => pairs.map((pair) => acceptedLengthOf(pair[side]));
  const { pValue, method, n } = testSignedRanks(lengths(0), lengths(1), 'less');
  return [{ against: control, n, pValue, method }];
}
