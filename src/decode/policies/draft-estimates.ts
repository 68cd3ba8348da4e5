import type { StepRecord } from '../acceptance.js';
import { LevelRates } from '../../draft/level-rates.js';

/**
 * Expected accepted draft tokens of a chain. Each depth has a rate: the share of drafts accepted there of those that
 * reached it. Recent steps count most; the long-term rate fills in where they are few, then the rate of the level
 * above.
 */
const recentDecay = 0.98;
const longDecay = 0.998;
/** Prior weight of the long-term rate, in steps. */
const longWeight = 8;

export class DraftAcceptance {
  private readonly recent = new LevelRates(recentDecay);
  private readonly long = new LevelRates(longDecay);
  /** Decaying counts of steps that asked for a draft and got one. */
  private readonly proposals = { asked: 1, made: 1 };

  get proposalRate(): number {
    return this.proposals.made / this.proposals.asked;
  }

  learn({ accepted, depth }: StepRecord): void {
    this.proposals.asked = this.proposals.asked * recentDecay + 1;
    this.proposals.made = this.proposals.made * recentDecay + Number(depth > 0);
    for (let level = 0; level < Math.min(accepted + 1, depth); level++) {
      this.recent.count(level, Number(accepted > level));
      this.long.count(level, Number(accepted > level));
    }
  }

  fade(share: number): void {
    this.recent.fade(share);
  }

  expect(length: number): number {
    let [survival, tokens] = [this.proposalRate, 0];
    for (const [level, longRate] of this.long.listRates(length).entries()) {
      survival *= this.recent.rateOf(level, longRate, longWeight);
      tokens += survival;
    }
    return tokens;
  }
}

/** Of an even number, the lower one in the middle: interruptions only make a step slower. */
export function lowerMedian(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}
