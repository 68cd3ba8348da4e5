/**
 * How many draft tokens of a chain are expected to be accepted. Each depth has a rate: of the drafts that reached it, the
 * share that was accepted there. Recent steps count most, so the estimate follows the text. The long-term rate fills in
 * where recent steps are few, and the rate one level above where even those are few.
 */
import type { StepRecord } from '../acceptance.js';

const recentDecay = 0.98;
const longDecay = 0.998;
/** Weight of the long-term rate against recent steps, and of the level above against the long-term rate, in steps. */
const longWeight = 8;
const levelWeight = 4;
/** Acceptance at the first level before any step. */
const initialRate = 0.6;

interface Tally {
  /** [level] Decaying counts of drafts that reached it, and that were accepted there. */
  readonly tried: number[];
  readonly accepted: number[];
}

export class DraftAcceptance {
  private readonly recent: Tally = { tried: [], accepted: [] };
  private readonly long: Tally = { tried: [], accepted: [] };
  /** Decaying counts of steps that asked for a draft, and that got one. */
  private readonly proposals = { asked: 1, made: 1 };

  /** The share of steps in which the drafter has anything to propose. */
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

  /** Reduces the weight of recent steps. */
  fade(share: number): void {
    for (const counts of [this.recent.tried, this.recent.accepted])
      counts.forEach((value, level) => (counts[level] = value * share));
  }

  /** Mean accepted draft tokens of a chain. */
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
