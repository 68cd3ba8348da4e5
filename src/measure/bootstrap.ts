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
  options: BootstrapOptions,
): Interval {
  const resample = [...samples];
  return estimateInterval(
    samples.length,
    (indices) => {
      for (let i = 0; i < indices.length; i++) resample[i] = samples[indices[i]!]!;
      return statistic(resample);
    },
    options,
  );
}

/** Interval of 1 + accepted / steps, both summed over requests. Requests without steps say nothing and are left out. */
export function pooledAcceptedLengthInterval(
  requests: readonly StepCounts[],
  options: BootstrapOptions,
): Interval {
  const stepped = requests.filter((request) => request.steps > 0);
  const accepted = Float64Array.from(stepped, (request) => request.accepted);
  const steps = Float64Array.from(stepped, (request) => request.steps);
  return estimateInterval(
    stepped.length,
    (indices) => {
      let acceptedSum = 0;
      let stepSum = 0;
      for (const index of indices) {
        acceptedSum += accepted[index]!;
        stepSum += steps[index]!;
      }
      return 1 + acceptedSum / stepSum;
    },
    options,
  );
}

function estimateInterval(
  n: number,
  statistic: (indices: Uint32Array) => number,
  { seed, resamples = 2000, level = 0.95 }: BootstrapOptions,
): Interval {
  checkRequest(n, resamples, level);
  const indices = Uint32Array.from({ length: n }, (_, index) => index);
  const estimate = checkFinite(statistic(indices));
  const random = createRandom(seed, 'bootstrap');
  const values = new Float64Array(resamples);
  for (let r = 0; r < resamples; r++) {
    for (let i = 0; i < n; i++) indices[i] = random.nextInteger(n);
    values[r] = checkFinite(statistic(indices));
  }
  values.sort();
  const tail = (1 - level) / 2;
  return { estimate, low: interpolateQuantile(values, tail), high: interpolateQuantile(values, 1 - tail), n };
}

function interpolateQuantile(sorted: Float64Array, share: number): number {
  const position = share * (sorted.length - 1);
  const below = Math.floor(position);
  const lower = sorted[below]!;
  const upper = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return lower + (position - below) * (upper - lower);
}

function checkRequest(n: number, resamples: number, level: number): void {
  if (n === 0) {
    throw new MistletoeError('incomplete', 'An interval was asked for over 0 samples; expected at least 1.', {
      hint: 'Measure at least one request that took a verification step.',
    });
  }
  if (!Number.isInteger(resamples) || resamples < 1) {
    throw new MistletoeError('usage', `resamples is ${resamples}; expected a whole number of at least 1.`, {
      hint: 'Use the default of 2000.',
    });
  }
  if (!(level > 0 && level < 1)) {
    throw new MistletoeError('usage', `level is ${level}; expected a share between 0 and 1.`, {
      hint: 'Write 0.95 for a 95 % interval.',
    });
  }
}

function checkFinite(value: number): number {
  if (Number.isFinite(value)) return value;
  throw new MistletoeError('incomplete', `The resampled statistic is ${value}; expected a finite number.`, {
    hint: 'Leave out samples on which the statistic is undefined before asking for an interval.',
  });
}
