/**
 * What else a request could be judged by: evidence against floors under a larger part of benign requests, of how many draft tokens
 * a step accepts and not only whether it does, and the rank of its mean. Each is asked the same: what it finds at a rate of false alarms that
 * is measured on held-out benign requests.
 */
import { ShareEvidence } from '../src/core/share-evidence.js';
import { findFloors } from '../src/guard/baseline-floors.js';
import { RankTable } from '../src/guard/rank-table.js';
import { leastSteps } from '../src/guard/sequential-test.js';
import { areaUnderRoc, meanLengthOf, thresholdFor } from './guard-scores.js';
import type { Found } from './guard-missed.js';
import type { Trace } from './guard-traces.js';
import { draftLength } from './guard-traces.js';

const rates = [0.01, 0.02, 0.05, 0.1];
const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

/** At a request's end, and the most there was. */
interface Score {
  readonly last: number;
  readonly peak: number;
}

export const variantHeader = [
  ...['drafter', 'judged by', 'area'],
  ...rates.map((rate) => `found at ${percent(rate)} false alarms`),
];

export function describeVariants({ drafter, calibration, benign, attacked }: Found): string[][] {
  const isLong = ({ accepted }: Trace): boolean => accepted.length >= leastSteps;
  const usual = benign.map(({ trace }) => trace).filter(isLong);
  const others = attacked.map(({ trace }) => trace).filter(isLong);
  const learnt = calibration.filter(isLong);
  const named: [string, (trace: Trace) => Score][] = [
    ['first and first three, lowest 10 %', createEvidence(learnt, [1, 3], 0.1)],
    ['first and first three, lower half', createEvidence(learnt, [1, 3], 0.5)],
    ['all draft tokens, lowest 10 %', createEvidence(learnt, [draftLength], 0.1)],
    ['all draft tokens, lower half', createEvidence(learnt, [draftLength], 0.5)],
    ['first, first two and all, lowest 10 %', createEvidence(learnt, [1, 2, draftLength], 0.1)],
    ['rank of the mean, at the end', createRank(learnt)],
  ];
  return named.map(([name, scoreOf]) => {
    const [low, high] = [usual.map(scoreOf), others.map(scoreOf)];
    const last = (scores: readonly Score[]): number[] => scores.map((score) => score.last);
    const found = rates.map((rate) => {
      const threshold = thresholdFor(
        low.map(({ peak }) => peak),
        rate,
      );
      return percent(high.filter(({ peak }) => peak > threshold).length / high.length);
    });
    return [drafter, name, areaUnderRoc(last(low), last(high)).toFixed(3), ...found];
  });
}

/** As the monitor collects it, up to beginnings later than the first: `caps` are the draft tokens of a step that count. */
function createEvidence(
  learnt: readonly Trace[],
  caps: readonly number[],
  part: number,
): (trace: Trace) => Score {
  const shareOf = ({ accepted, proposed }: Trace, step: number, cap: number): number =>
    Math.min(accepted[step]!, cap) / Math.min(cap, proposed[step]!);
  const samples = learnt.map((trace) => ({
    weight: 1,
    shares: caps.map(
      (cap) =>
        trace.accepted.reduce((sum, _, step) => sum + shareOf(trace, step, cap), 0) / trace.accepted.length,
    ),
  }));
  const evidence = findFloors(samples, part, 0)!.floors.map((floor) => new ShareEvidence(floor));
  return (trace) => {
    const sums = caps.map(() => 0);
    let [last, peak] = [1, 1];
    for (const step of trace.accepted.keys()) {
      for (const [index, cap] of caps.entries()) sums[index]! += shareOf(trace, step, cap);
      if (step + 1 < leastSteps) continue;
      last = evidence.reduce((sum, each, index) => sum + each.value(step + 1, sums[index]!), 0) / caps.length;
      peak = Math.max(peak, last);
    }
    return { last, peak };
  };
}

function createRank(learnt: readonly Trace[]): (trace: Trace) => Score {
  const table = new RankTable(learnt.map((trace) => ({ value: meanLengthOf(trace), weight: 1 })));
  return (trace) => {
    const score = 1 - table.rank(meanLengthOf(trace));
    return { last: score, peak: score };
  };
}
