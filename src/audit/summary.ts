/** From prompts to one row for each arm: pooled means with intervals over prompts, and the paired tests. */
import { bootstrapInterval, pooledAcceptedLengthInterval } from '../measure/bootstrap.js';
import { testSignedRanks } from '../measure/wilcoxon.js';
import type {
  ArmName,
  ArmResult,
  ArmSummary,
  DrafterSummary,
  Interval,
  PairedTest,
  PromptResult,
} from './result.js';
import { arms } from './result.js';

const find = (prompt: PromptResult, arm: ArmName): ArmResult | undefined =>
  prompt.arms.find((entry) => entry.arm === arm);

export function summariseDrafter(prompts: readonly PromptResult[], seed: number): DrafterSummary {
  const audited = prompts.filter((prompt) => prompt.skipped === null && find(prompt, 'attack') !== undefined);
  return {
    arms: arms.flatMap((arm) => {
      const results = audited.flatMap((prompt) => find(prompt, arm) ?? []);
      return results.length === 0 ? [] : [summariseArm(arm, results, seed)];
    }),
    drop: dropInterval(audited, seed),
    againstClean: pairedTest(audited, 'clean'),
    againstRandom: pairedTest(audited, 'random'),
    promptsAudited: audited.length,
    promptsSkipped: prompts.length - audited.length,
  };
}

function summariseArm(arm: ArmName, results: readonly ArmResult[], seed: number): ArmSummary {
  const average = (value: (result: ArmResult) => number): number =>
    results.reduce((total, result) => total + value(result), 0) / results.length;
  const tasks = results.flatMap(({ preservation }) => preservation.taskAgrees ?? []);
  const suffixes = results.flatMap(({ preservation }) => preservation.suffixPerplexity ?? []);
  const depth = Math.max(...results.map(({ acceptance }) => acceptance.acceptanceByDepth.length));
  const steps = results.reduce((total, { acceptance }) => total + acceptance.steps, 0);
  return {
    arm,
    meanAcceptedLength: lengthInterval(results, seed),
    meanOfPromptMeans: average(({ acceptance }) => acceptance.meanAcceptedLength),
    acceptanceByDepth: Array.from({ length: depth }, (_, level) => {
      const reached = results.reduce(
        (total, { acceptance }) => total + (acceptance.acceptanceByDepth[level] ?? 0) * acceptance.steps,
        0,
      );
      return steps === 0 ? 0 : reached / steps;
    }),
    divergence: average(({ preservation }) => preservation.divergence),
    editSimilarity: average(({ preservation }) => preservation.editSimilarity),
    firstDifference: average(({ preservation }) => preservation.firstDifference),
    answerPerplexity: average(({ preservation }) => preservation.answerPerplexity),
    repetition: average(({ preservation }) => preservation.repetition),
    taskAgreement: tasks.length === 0 ? null : tasks.filter(Boolean).length / tasks.length,
    // Perplexities of nonsense span orders of magnitude: the geometric mean is the readable one.
    suffixPerplexity:
      suffixes.length === 0
        ? null
        : Math.exp(suffixes.reduce((total, value) => total + Math.log(value), 0) / suffixes.length),
    withinBound: average(({ preservation }) => Number(preservation.withinBound)),
  };
}

function lengthInterval(results: readonly ArmResult[], seed: number): Interval {
  const counts = results.map(({ acceptance }) => acceptance);
  if (counts.every(({ steps }) => steps === 0)) return { estimate: 1, low: 1, high: 1, n: 0 };
  return pooledAcceptedLengthInterval(counts, { seed });
}

function dropInterval(prompts: readonly PromptResult[], seed: number): Interval {
  const pairs = prompts.map((prompt) => ({
    clean: find(prompt, 'clean')!.acceptance,
    attack: find(prompt, 'attack')!.acceptance,
  }));
  if (pairs.length === 0) return { estimate: 0, low: 0, high: 0, n: 0 };
  const pooled = (counts: readonly { accepted: number; steps: number }[]): number => {
    const steps = counts.reduce((total, count) => total + count.steps, 0);
    return steps === 0 ? 1 : 1 + counts.reduce((total, count) => total + count.accepted, 0) / steps;
  };
  const statistic = (sample: typeof pairs): number =>
    1 - pooled(sample.map(({ attack }) => attack)) / pooled(sample.map(({ clean }) => clean));
  return bootstrapInterval(pairs, (sample) => statistic([...sample]), { seed });
}

function pairedTest(prompts: readonly PromptResult[], against: ArmName): PairedTest {
  const pairs = prompts.flatMap((prompt) => {
    const other = find(prompt, against);
    return other === undefined ? [] : [[find(prompt, 'attack')!, other] as const];
  });
  const lengths = (side: 0 | 1): number[] => pairs.map((pair) => pair[side].acceptance.meanAcceptedLength);
  const { pValue, method, n } = testSignedRanks(lengths(0), lengths(1), 'less');
  return { n, pValue, method };
}
