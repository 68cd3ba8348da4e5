/**
 * Percentile bootstrap: resample with replacement, take the statistic each time, cut the tails. What is resampled must
 * be what is independent. Steps of one request are not, so accepted lengths are resampled by request (a cluster
 * bootstrap) and pooled inside each resample. With few samples (below about 10) percentile intervals are too narrow.
 */
import { MistletoeError } from '../core/errors.js';
import { createRandom } from '../core/random.js';

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

export interface BootstrapOptions {
  readonly seed: number | string;
  readonly resamples?: number;
  /** Share of the resamples inside the interval. */
  readonly level?: number;
}

export interface Interval {
  readonly estimate: number;
  readonly low: number;
  readonly high: number;
  /** Independent samples. */
  readonly n: number;
}

/** The statistic must not keep the array it is given: it is refilled for the next resample. */
export function bootstrapInterval<T>(
  samples: readonly T[],
  statistic: (samples: readonly T[]) => number,
  { seed, resamples = 2000, level = 0.95 }: BootstrapOptions,
): Interval {
  const n = samples.length;
  if (n === 0) {
    throw new MistletoeError('incomplete', 'An interval was asked for over 0 samples; expected at least 1.', {
      hint: 'Measure at least one request that took a verification step.',
    });
  }
  const estimate = checkFinite(statistic(samples));
  const random = createRandom(seed, 'bootstrap');
  const resample = [...samples];
  const values = new Float64Array(resamples);
  for (let r = 0; r < resamples; r++) {
    for (let i = 0; i < n; i++) resample[i] = samples[random.nextInteger(n)]!;
    values[r] = checkFinite(statistic(resample));
  }
  values.sort();
  const tail = (1 - level) / 2;
  return { estimate, low: interpolateQuantile(values, tail), high: interpolateQuantile(values, 1 - tail), n };
}

/** Interval of 1 + accepted / steps, both summed over requests. Requests without steps say nothing and are left out. */
export function pooledAcceptedLengthInterval(
  requests: readonly StepCounts[],
  options: BootstrapOptions,
): Interval {
  const stepped = requests.filter(({ steps }) => steps > 0);
  return bootstrapInterval(stepped, (sample) => acceptedLengthOf(poolCounts(sample)), options);
}

function interpolateQuantile(sorted: Float64Array, share: number): number {
  const position = share * (sorted.length - 1);
  const below = Math.floor(position);
  const lower = sorted[below]!;
  const upper = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return lower + (position - below) * (upper - lower);
}

function checkFinite(value: number): number {
  if (Number.isFinite(value)) return value;
  throw new MistletoeError('incomplete', `The resampled statistic is ${value}; expected a finite number.`, {
    hint: 'Leave out samples on which the statistic is undefined before asking for an interval.',
  });
}
