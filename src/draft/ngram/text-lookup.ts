/**
 * A lookup in a text with an estimate of how likely each token is right, learned from this text alone: the same text
 * gives the same drafts.
 */
import type { Suggestion } from '../drafter.js';
import { LevelRates } from '../level-rates.js';
import { LookupIndex, type MatchLengths, type VotedToken } from './lookup-index.js';

/** Shares of votes fall into bins. Each bin learns how often its tokens were right. */
const bins = 10;
/** How many tokens of a bin the share itself counts for. */
const shareWeight = 8;
const maxLevels = 16;

interface Prediction {
  readonly voted: readonly VotedToken[];
  /** Tokens that the text has confirmed. */
  confirmed: number;
}

export class TextLookup {
  private readonly index: LookupIndex;
  private readonly right = new LevelRates(1); // [bin]
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

  lookUp(length: number): Suggestion {
    this.isAnswer = true;
    const voted = length > maxLevels ? this.index.findVoted(length) : this.find().slice(0, length);
    let reached = 1;
    const survival = voted.map(
      ({ share }) => (reached *= this.right.rateOf(binOf(share), share, shareWeight)),
    );
    return { tokens: voted.map(({ token }) => token), survival };
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
