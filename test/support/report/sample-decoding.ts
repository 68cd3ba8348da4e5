/** Speculative decoding and a search as a biased coin would have them. */
import type { AcceptanceSummary, ArmName, SearchTrace } from '../../../src/audit/result.js';
import type { Random } from '../../../src/core/random.js';

const draftDepth = 4;

export interface SampleDecoding {
  readonly origins: string;
  readonly acceptance: AcceptanceSummary;
}

export function simulateDecoding(length: number, rate: number, random: Random): SampleDecoding {
  let origins = 'b'; // the prefill's own token
  const histogram = Array.from({ length: draftDepth + 1 }, () => 0);
  while (origins.length < length) {
    const coins = Array.from({ length: draftDepth }, () => random.next() < rate);
    const rejected = coins.indexOf(false);
    const accepted = rejected < 0 ? draftDepth : rejected;
    histogram[accepted]! += 1;
    origins += `${'a'.repeat(accepted)}b`;
  }
  const steps = histogram.reduce((sum, count) => sum + count, 0);
  const accepted = histogram.reduce((sum, count, depth) => sum + count * depth, 0);
  const acceptanceByDepth = Array.from(
    { length: draftDepth },
    (_, depth) => histogram.slice(depth + 1).reduce((sum, count) => sum + count, 0) / steps,
  );
  const meanAcceptedLength = 1 + accepted / steps;
  const counts = { steps, proposed: steps * draftDepth, accepted, emitted: length };
  return {
    origins: origins.slice(0, length),
    acceptance: { ...counts, meanAcceptedLength, acceptanceByDepth, histogram },
  };
}

export interface SampleTraceOptions {
  readonly arm: ArmName;
  readonly repeat: number;
  readonly from: number;
  readonly to: number;
  readonly random: Random;
}

/** From one accepted length to another in 40 steps; no suffix is inside the bounds in the first two. */
export function sampleTrace({ arm, repeat, from, to, random }: SampleTraceOptions): SearchTrace {
  let length = from;
  const steps = Array.from({ length: 40 }, (_, step) => {
    if (random.next() < 0.6) length += (to - length) * 0.25 * random.next();
    const free = arm === 'unprojected' ? 0.03 + 0.008 * step : 0.02 + 0.07 * (1 - Math.exp(-step / 12));
    return {
      step,
      degradation: from - length,
      divergence:
        arm === 'preservation-only'
          ? 0.02 * Math.exp(-step / 9) + 0.004
          : free * (0.92 + 0.08 * random.next()),
      acceptedLength: step < 2 ? null : length,
      cosineBefore: 0.3 + 0.1 * random.next(),
      cosineAfter: arm === 'unprojected' ? 0.35 : -0.3,
      candidates: 64,
      vetoed: Math.floor(30 * random.next()),
    };
  });
  return {
    arm,
    repeat,
    objective: arm === 'undirected' ? 'none' : 'margin',
    projection: arm === 'unprojected' || arm === 'undirected' ? 'none' : 'direction',
    scoredCandidates: 40 * 64,
    decodedSuffixes: 8,
    steps,
  };
}
