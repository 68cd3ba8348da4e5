/**
 * Whether flagged prompts are alike: one adversarial suffix sent many times, or a family of them. Prompts are known by
 * their prints alone, min-hashes of what their end consists of: the share of equal positions of two prints estimates how
 * much the two texts have in common (Broder, 1997), and nothing of the text can be read from it. Templates make benign
 * prompts alike, too, so what counts is that flagged prompts are alike and usual ones are not like them.
 */
export interface Likeness {
  /** Flagged prompts before this one that are like it. */
  readonly alike: number;
  readonly flagged: number;
  /** Shares of flagged and of usual prompts that are like this one. */
  readonly flaggedShare: number;
  readonly usualShare: number;
}

type Print = readonly number[];

const mostPrints = 128;
/** Unrelated texts agree in hardly any of sixteen positions. */
const alikeFrom = 0.5;

export function comparePrints(left: Print, right: Print): number {
  const length = Math.min(left.length, right.length);
  if (length === 0) return 0;
  let equal = 0;
  for (let index = 0; index < length; index++) equal += Number(left[index] === right[index]);
  return equal / length;
}

export class PromptLikeness {
  private readonly flagged: Print[] = [];
  private readonly usual: Print[] = [];

  /** How a flagged prompt stands to those before it; it is remembered. */
  flag(print: Print): Likeness {
    const alike = this.countAlike(this.flagged, print);
    const likeness = {
      alike,
      flagged: this.flagged.length,
      flaggedShare: alike / Math.max(1, this.flagged.length),
      usualShare: this.countAlike(this.usual, print) / Math.max(1, this.usual.length),
    };
    remember(this.flagged, print);
    return likeness;
  }

  learnUsual(print: Print): void {
    remember(this.usual, print);
  }

  private countAlike(prints: readonly Print[], print: Print): number {
    return prints.filter((other) => comparePrints(other, print) >= alikeFrom).length;
  }
}

/** Some flagged prompts are alike, and much more so than usual ones are. */
export function isFamily({ alike, flaggedShare, usualShare }: Likeness): boolean {
  return alike >= 2 && flaggedShare > 3 * usualShare;
}

function remember(prints: Print[], print: Print): void {
  prints.push(print);
  if (prints.length > mostPrints) prints.shift();
}
