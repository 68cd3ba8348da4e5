/** Paired signed-rank tests, the correction for several tests, and intervals over prompts. */
import { MistletoeError } from '../core/errors.js';
import { sum } from '../core/vector.js';

/**
 * Holm's step-down correction (1979) for several tests: the smallest of n p-values is multiplied by n, the next by
 * n - 1 and so on, and none may fall below the one before it. This bounds the probability of any false rejection,
 * however the tests depend on each other. Results are in the order given. NaN marks a test that was not made: it stays
 * NaN and does not count towards n.
 */
export function adjustHolm(pValues: readonly number[]): number[] {
  const adjusted = pValues.map(() => NaN);
  const order = [...pValues.keys()]
    .filter((index) => !Number.isNaN(pValues[index]!))
    .sort((a, b) => pValues[a]! - pValues[b]!);
  let largest = 0;
  for (const [rank, index] of order.entries()) {
    largest = Math.max(largest, Math.min(1, (order.length - rank) * pValues[index]!));
    adjusted[index] = largest;
  }
  return adjusted;
}

/** With fewer pairs no one-sided test can reach 0.05, so reports claim nothing from them. */
export const minPairs = 5;

/** 'less': left tends to be smaller than right. */
export type Alternative = 'less' | 'greater' | 'two-sided';

const LARGEST_EXACT = 25;

/**
 * The paired signed-rank test of Wilcoxon (1945): rank the absolute differences, and compute how likely the rank sum of
 * the positive ones is if every sign is a fair coin. Zero differences are dropped, ties share their mid-rank. Up to 25
 * differences the null distribution is counted exactly, ties included: doubled mid-ranks are whole numbers, so dynamic
 * programming counts the sign patterns per rank sum. Beyond that, the normal approximation with corrections for ties
 * and continuity.
 */
export function testSignedRanks(
  left: readonly number[],
  right: readonly number[],
  alternative: Alternative = 'two-sided',
) {
  const differences = left
    .map((value, index) => value - right[index]!)
    .filter((difference) => difference !== 0);
  const { doubledRanks, tieSizes } = rankMagnitudes(differences);
  let doubledStatistic = 0;
  for (let i = 0; i < differences.length; i++) {
    if (differences[i]! > 0) doubledStatistic += doubledRanks[i]!;
  }
  const exact = differences.length <= LARGEST_EXACT;
  const tails = exact
    ? countTails(doubledRanks, doubledStatistic)
    : approximateTails(differences.length, tieSizes, doubledStatistic / 2);
  return {
    n: left.length,
    nNonZero: differences.length,
    /** Rank sum of the pairs with left > right, whatever the alternative. */
    statistic: doubledStatistic / 2,
    pValue:
      alternative === 'two-sided' ? Math.min(1, 2 * Math.min(tails.less, tails.greater)) : tails[alternative],
    method: exact ? ('exact' as const) : ('normal' as const),
  };
}

function rankMagnitudes(differences: readonly number[]) {
  const magnitudes = differences.map(Math.abs);
  const order = magnitudes.map((_, index) => index).sort((a, b) => magnitudes[a]! - magnitudes[b]!);
  // Twice the mid-rank of each magnitude, in the order of the input: a whole number.
  const doubledRanks = new Uint32Array(order.length);
  const tieSizes: number[] = [];
  for (let start = 0; start < order.length;) {
    let end = start + 1;
    while (end < order.length && magnitudes[order[end]!] === magnitudes[order[start]!]) end++;
    // Ranks start + 1 .. end share their mean (start + 1 + end) / 2.
    for (let i = start; i < end; i++) doubledRanks[order[i]!] = start + 1 + end;
    tieSizes.push(end - start);
    start = end;
  }
  return { doubledRanks, tieSizes };
}

/** P(rank sum <= observed) and P(rank sum >= observed) under fair signs. */
interface Tails {
  readonly less: number;
  readonly greater: number;
}

function countTails(doubledRanks: Uint32Array, observed: number): Tails {
  const largest = doubledRanks.reduce((sum, rank) => sum + rank, 0);
  // [doubled rank sum]: sign patterns that reach it, at most 2^25 and so exact.
  const patterns = new Float64Array(largest + 1);
  patterns[0] = 1;
  for (const rank of doubledRanks) {
    for (let sum = largest; sum >= rank; sum--) patterns[sum]! += patterns[sum - rank]!;
  }
  let below = 0;
  for (let sum = 0; sum < observed; sum++) below += patterns[sum]!;
  const total = 2 ** doubledRanks.length;
  return { less: (below + patterns[observed]!) / total, greater: (total - below) / total };
}

function approximateTails(n: number, tieSizes: readonly number[], statistic: number): Tails {
  const mean = (n * (n + 1)) / 4;
  const tieLoss = tieSizes.reduce((sum, size) => sum + size ** 3 - size, 0) / 48;
  const deviation = Math.sqrt((n * (n + 1) * (2 * n + 1)) / 24 - tieLoss);
  return {
    less: normalUpperTail((mean - statistic - 0.5) / deviation),
    greater: normalUpperTail((statistic - mean - 0.5) / deviation),
  };
}

/** P(Z > z), with a relative accuracy of about 12 digits, also for large z. */
export function normalUpperTail(z: number): number {
  if (z < 0) return 1 - normalUpperTail(-z);
  const density = Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);
  if (z < 3) {
    let term = z;
    let sum = z;
    for (let odd = 3; term > sum * 1e-17; odd += 2) {
      term *= (z * z) / odd;
      sum += term;
    }
    return 0.5 - density * sum;
  }
  let fraction = z;
  for (let k = 120; k >= 1; k--) fraction = z + k / fraction;
  return density / fraction;
}

/** Verification steps and accepted draft tokens of one or more answers: all that a mean accepted length needs. */
export interface StepCounts {
  /** Verification passes of the target. Expected values may be fractions. */
  readonly steps: number;
  readonly accepted: number;
}

/** 1 + accepted / steps; without steps 1, as in plain decoding. */
export function acceptedLengthOf({ steps, accepted }: StepCounts): number {
  return steps === 0 ? 1 : 1 + accepted / steps;
}

/** Sums over all answers: a long answer weighs more than a short one. */
export function poolCounts(counts: readonly StepCounts[]): StepCounts {
  return {
    accepted: counts.reduce((total, count) => total + count.accepted, 0),
    steps: counts.reduce((total, count) => total + count.steps, 0),
  };
}

/** The 95 % interval of a statistic over prompts. */
export interface Interval {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  readonly n: number;
}

const level = 0.95;
/** Over n: standard errors on each side for the long tails that few samples do not show. Chosen by simulation. */
const tailAllowance = 12;

/**
 * What is left out must be what is independent. Steps of one request are not, so samples are requests, pooled inside the
 * statistic. The jackknife leaves out each one in turn: the statistic plus or minus its standard error times the quantile
 * of Student's t, and an allowance for tails. There are n - 2 degrees of freedom, because a ratio of two sums estimates
 * both. docs/method.md has what this covers; a percentile bootstrap covers 80 % at 5 prompts. One sample has no spread,
 * so its interval is the estimate.
 */
export function jackknifeInterval<T>(
  samples: readonly T[],
  statistic: (samples: readonly T[]) => number,
): Interval {
  const n = samples.length;
  if (n === 0) {
    throw new MistletoeError('incomplete', 'An interval was asked for over 0 samples; expected at least 1.', {
      hint: 'Measure at least one request that took a verification step.',
    });
  }
  const estimate = checkFinite(statistic(samples));
  if (n === 1) return { estimate, low: estimate, high: estimate, n };
  // What a sample adds to the statistic, times n - 1.
  const influences = samples.map(
    (_, left) => (n - 1) * (estimate - checkFinite(statistic(samples.toSpliced(left, 1)))),
  );
  const mean = sum(influences) / n;
  const squares = sum(influences.map((value) => (value - mean) ** 2));
  const error = Math.sqrt(squares / n / (n - 1));
  // Samples that are all alike differ by rounding only.
  const arm =
    error <= 1e-12 * Math.abs(estimate)
      ? 0
      : (studentQuantile(Math.max(1, n - 2)) + tailAllowance / n) * error;
  return { estimate, low: estimate - arm, high: estimate + arm, n };
}

/** Interval of 1 + accepted / steps, both summed over requests. Requests without steps say nothing and are left out. */
export function pooledAcceptedLengthInterval(requests: readonly StepCounts[]): Interval {
  const stepped = requests.filter(({ steps }) => steps > 0);
  const interval = jackknifeInterval(stepped, (sample) => acceptedLengthOf(poolCounts(sample)));
  return { ...interval, low: Math.max(1, interval.low) };
}

/** The t that |T| stays below with probability `level`: found by halving the angle in Student's finite series. */
export function studentQuantile(degrees: number): number {
  let low = 0;
  let high = Math.PI / 2;
  for (let halving = 0; halving < 60; halving++) {
    const middle = (low + high) / 2;
    if (centralProbability(middle, degrees) < level) low = middle;
    else high = middle;
  }
  return Math.sqrt(degrees) * Math.tan(low);
}

/** P(|T| < sqrt(degrees) tan(angle)); Abramowitz and Stegun, 26.7.3 and 26.7.4. */
function centralProbability(angle: number, degrees: number): number {
  const odd = degrees % 2;
  const cosine = Math.cos(angle);
  let term = odd === 1 ? cosine : 1;
  let series = degrees === 1 ? 0 : term;
  for (let power = odd + 2; power < degrees; power += 2) {
    term *= (cosine * cosine * (power - 1)) / power;
    series += term;
  }
  return odd === 1 ? (2 / Math.PI) * (angle + Math.sin(angle) * series) : Math.sin(angle) * series;
}

function checkFinite(value: number): number {
  if (Number.isFinite(value)) return value;
  throw new MistletoeError(
    'incomplete',
    `The statistic of an interval is ${value}; expected a finite number.`,
    {
      hint: 'Leave out samples on which the statistic is undefined before asking for an interval.',
    },
  );
}
