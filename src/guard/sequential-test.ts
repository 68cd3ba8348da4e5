/**
 * The test within a request: may it still be a benign one? It can be asked after every step, or once at the end.
 *
 * The null hypothesis comes from the baseline: of requests like this one, all but a small share have, for each share that
 * is looked at (request-counts.ts), a mean of at least a floor and at most a ceiling. Against it, `ShareEvidence` collects a factor
 * that stays below 1 / level for all times with probability 1 - level, if each step's mean, given the steps before,
 * keeps to the floor. A mean of such factors is again one, so the shares are averaged, and so are several beginnings:
 * after steps 0, 32, 128, 512 ... with weights 1/2, 1/4, 1/8 ..., which finds a collapse that comes late, at the price
 * of a factor 2 for one that comes at once. Beginnings that have not come yet stand at 1.
 *
 * The operator sets one number, the share of benign requests that may ring. It is spent on four things that can go
 * wrong: the request is one of the few below the floors (`lowShare`) or above the ceiling (`highShare`), or the factor is
 * unlucky (`lowLevel`, `highLevel`). The four add up to it, so the promise needs no independence of any of them.
 * What it does need: requests come from where the baseline's came from, and a request's mean does not wander far below
 * its floor for long stretches while its whole mean keeps to it. The threshold that is really used is then fitted to the
 * traffic, which needs neither (sensitivity.ts).
 */
import { ShareEvidence } from '../core/share-evidence.js';
import type { RequestCounts } from './request-counts.js';
import { addStep } from './request-counts.js';

export interface NullHypothesis {
  /** [share] */
  readonly floors: readonly number[];
  /** [share] Of a larger part of benign requests, below which evidence is only worth what the traffic shows (sensitivity.ts). */
  readonly sharpFloors: readonly number[];
  /** Of the last share. */
  readonly ceiling: number;
}

export interface AlarmLevels {
  readonly lowShare: number;
  readonly lowLevel: number;
  /** Of benign requests below the sharp floors; no part of the promise. */
  readonly sharpShare: number;
  readonly highShare: number;
  readonly highLevel: number;
}

export const divideFalseAlarms = (rate: number): AlarmLevels => ({
  lowShare: 0.5 * rate,
  lowLevel: 0.3 * rate,
  sharpShare: Math.max(0.1, 2 * rate),
  highShare: 0.1 * rate,
  highLevel: 0.1 * rate,
});

/** Shorter requests are neither judged nor learnt from: their shares are mostly chance. */
export const leastSteps = 16;

export interface Evidence {
  readonly low: number;
  /** Against the sharp floors. */
  readonly sharp: number;
  readonly high: number;
}

export const noEvidence: Evidence = { low: 1, sharp: 1, high: 1 };

/** From totals or a histogram: the same factor for the one beginning that they know of. */
export function weighCounts(hypothesis: NullHypothesis, counts: RequestCounts): Evidence {
  return createJudge(hypothesis).weigh(counts.steps, counts.sums);
}

export class RequestTest {
  /** The most there was since the request is long enough to be judged; at least 1. */
  peak: Evidence = noEvidence;
  /** Accepted draft tokens of the first `leastSteps` steps: whether a low request was low from the start. */
  acceptedAtFirst = 0;
  steps = 0;
  private readonly judge: Judge;
  private readonly beginnings: Beginning[];
  private readonly sums: number[];
  private accepted = 0;
  private nextBeginning = firstBeginning;

  constructor(hypothesis: NullHypothesis) {
    this.judge = createJudge(hypothesis);
    this.sums = hypothesis.floors.map(() => 0);
    this.beginnings = [{ steps: 0, sums: [...this.sums] }];
  }

  get counts(): RequestCounts {
    return { kind: 'steps', steps: this.steps, accepted: this.accepted, sums: [...this.sums] };
  }

  get now(): Evidence {
    let low = 0;
    let sharp = 0;
    let high = 0;
    let weight = 1;
    for (const from of this.beginnings) {
      weight /= 2;
      const evidence = this.judge.weigh(this.steps - from.steps, this.sums, from.sums);
      low += weight * evidence.low;
      sharp += weight * evidence.sharp;
      high += weight * evidence.high;
    }
    return { low: low + weight, sharp: sharp + weight, high: high + weight };
  }

  /** The evidence after this step; undefined while there is none, as after nearly every step of a usual request. */
  step(accepted: number, proposed: number | null): Evidence | undefined {
    if (proposed === 0) return undefined;
    addStep(this.sums, accepted, proposed);
    this.steps += 1;
    this.accepted += accepted;
    if (this.steps <= leastSteps) this.acceptedAtFirst += accepted;
    const evidence = this.steps >= leastSteps && this.hasEvidence() ? this.now : undefined;
    if (evidence !== undefined) {
      const { low, sharp, high } = this.peak;
      this.peak = {
        low: Math.max(low, evidence.low),
        sharp: Math.max(sharp, evidence.sharp),
        high: Math.max(high, evidence.high),
      };
    }
    if (this.steps === this.nextBeginning) {
      this.beginnings.push({ steps: this.steps, sums: [...this.sums] });
      this.nextBeginning *= beginningsGrowBy;
    }
    return evidence;
  }

  private hasEvidence(): boolean {
    return this.beginnings.some((from) =>
      this.judge.hasEvidence(this.steps - from.steps, this.sums, from.sums),
    );
  }
}

const firstBeginning = 32;
const beginningsGrowBy = 4;

interface Beginning {
  readonly steps: number;
  readonly sums: readonly number[];
}

/** `before`: what the sums were when the count of steps began. */
interface Judge {
  weigh(steps: number, sums: readonly number[], before?: readonly number[]): Evidence;
  hasEvidence(steps: number, sums: readonly number[], before: readonly number[]): boolean;
}

function createJudge({ floors, sharpFloors, ceiling }: NullHypothesis): Judge {
  const below = floors.map((floor) => new ShareEvidence(floor));
  const sharplyBelow = sharpFloors.map((floor) => new ShareEvidence(floor));
  const above = new ShareEvidence(1 - ceiling);
  const last = floors.length - 1;
  return {
    weigh(steps, sums, before) {
      let low = 0;
      let sharp = 0;
      for (let share = 0; share <= last; share++) {
        const sum = sums[share]! - (before?.[share] ?? 0);
        low += below[share]!.value(steps, sum);
        sharp += sharplyBelow[share]!.value(steps, sum);
      }
      const high = above.value(steps, steps - sums[last]! + (before?.[last] ?? 0));
      return { low: low / floors.length, sharp: sharp / floors.length, high };
    },
    hasEvidence(steps, sums, before) {
      for (let share = 0; share <= last; share++) {
        // Sharp floors are the higher ones: where they have nothing to say, the others have not.
        if (sharplyBelow[share]!.isAboveOne(steps, sums[share]! - before[share]!)) return true;
      }
      return above.isAboveOne(steps, steps - sums[last]! + before[last]!);
    },
  };
}
