/**
 * Expected accepted draft tokens of a chain. Each depth has a rate: the share of drafts accepted there of those that
 * reached it. Recent steps count most; the long-term rate fills in where they are few, then the rate of the level
 * above.
 */
import type { StepRecord } from '../acceptance.js';

const recentDecay = 0.98;
const longDecay = 0.998;
/** Prior weights in steps: of the long-term rate, and of the level above. */
const longWeight = 8;
const levelWeight = 4;
/** Acceptance at the first level before any step. */
const initialRate = 0.6;

interface Tally {
  /** [level] Decaying counts. */
  readonly tried: number[];
  readonly accepted: number[];
}

export class DraftAcceptance {
  private readonly recent: Tally = { tried: [], accepted: [] };
  private readonly long: Tally = { tried: [], accepted: [] };
  /** Decaying counts of steps that asked for a draft and got one. */
  private readonly proposals = { asked: 1, made: 1 };

  get proposalRate(): number {
    return this.proposals.made / this.proposals.asked;
  }

  learn({ accepted, depth }: StepRecord): void {
    this.proposals.asked = this.proposals.asked * recentDecay + 1;
    this.proposals.made = this.proposals.made * recentDecay + Number(depth > 0);
    for (let level = 0; level < Math.min(accepted + 1, depth); level++) {
      count(this.recent, level, accepted > level, recentDecay);
      count(this.long, level, accepted > level, longDecay);
    }
  }

  fade(share: number): void {
    for (const counts of [this.recent.tried, this.recent.accepted])
      counts.forEach((value, level) => (counts[level] = value * share));
  }

  expect(length: number): number {
    let [longRate, survival, tokens] = [initialRate, this.proposalRate, 0];
    for (let level = 0; level < length; level++) {
      longRate = rateOf(this.long, level, longRate, levelWeight);
      survival *= rateOf(this.recent, level, longRate, longWeight);
      tokens += survival;
    }
    return tokens;
  }
}

function count({ tried, accepted }: Tally, level: number, isAccepted: boolean, decay: number): void {
  tried[level] = (tried[level] ?? 0) * decay + 1;
  accepted[level] = (accepted[level] ?? 0) * decay + Number(isAccepted);
}

/** A rate with a prior that counts like `weight` steps. */
function rateOf({ tried, accepted }: Tally, level: number, prior: number, weight: number): number {
  return ((accepted[level] ?? 0) + prior * weight) / ((tried[level] ?? 0) + weight);
}
