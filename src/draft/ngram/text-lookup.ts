/**
 * A lookup in a text with an estimate of how likely each token is right, and the choice between it and a drafter. Both
 * estimates are learned from this text alone, so the same text gives the same drafts.
 */
import { sum } from '../../core/vector.js';
import type { LookupDraft, MatchLengths } from '../drafter.js';
import { LevelRates } from '../level-rates.js';
import { LookupIndex, type VotedToken } from './lookup-index.js';

/** Shares of votes fall into bins. Each bin learns how often its tokens were right. */
const bins = 10;
/** How many tokens of a bin the share itself counts for. */
const shareWeight = 8;
const maxLevels = 16;
const drafterDecay = 0.95;
/** Duration of a drafter's step over that of a lookup's: a constant, because drafts must not depend on the clock. */
const drafterCost = 1.4;

interface Prediction {
  readonly voted: readonly VotedToken[];
  /** Tokens that the text has confirmed. */
  confirmed: number;
}

export class TextLookup {
  private readonly index: LookupIndex;
  private readonly right = new LevelRates(1); // [bin]
  private readonly drafter = new LevelRates(drafterDecay);
  private newest: readonly VotedToken[] | undefined;
  private open: Prediction[] = [];
  private isAnswer = false;

  constructor(lengths: MatchLengths) {
    this.index = new LookupIndex(lengths);
  }

  get length(): number {
    return this.index.length;
  }

  /** From the first lookup on, every place of the text shows whether its lookup was right, drafted or not. */
  push(token: number): void {
    if (this.isAnswer) {
      this.open.push({ voted: this.find(), confirmed: 0 });
      this.open = this.open.filter((prediction) => this.check(prediction, token));
    }
    this.index.push(token);
    this.newest = undefined;
  }

  lookUp(length: number): LookupDraft {
    this.isAnswer = true;
    const voted = this.find().slice(0, length);
    let reached = 1;
    const survival = voted.map(
      ({ share }) => (reached *= this.right.rateOf(binOf(share), share, shareWeight)),
    );
    return { tokens: voted.map(({ token }) => token), survival };
  }

  /** The lookup's tokens if they should bring at least as many tokens for their cost as the drafter's; else none. */
  chooseTokens(length: number): readonly number[] {
    const { tokens, survival } = this.lookUp(length);
    return (1 + sum(survival)) * drafterCost >= 1 + this.expectDrafted(length) ? tokens : [];
  }

  /** @param rates [level] the share accepted of those reached, up to the first 0 */
  learnDrafted(rates: readonly number[], weight = 1): void {
    let reached = weight;
    for (let level = 0; level < rates.length && reached > 0; level++) {
      this.drafter.count(level, rates[level]!, reached);
      reached *= rates[level]!;
    }
  }

  private expectDrafted(length: number): number {
    let reached = 1;
    return sum(this.drafter.listRates(length).map((rate) => (reached *= rate)));
  }

  private find(): readonly VotedToken[] {
    return (this.newest ??= this.index.findVoted(maxLevels));
  }

  /** Whether the prediction is right so far and has more tokens. */
  private check(prediction: Prediction, token: number): boolean {
    const voted = prediction.voted[prediction.confirmed];
    if (voted === undefined) return false;
    const isRight = voted.token === token;
    this.right.count(binOf(voted.share), Number(isRight));
    prediction.confirmed += 1;
    return isRight;
  }
}

const binOf = (share: number): number => Math.min(bins - 1, Math.floor(share * bins));
