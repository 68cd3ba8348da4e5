/** What lookups suggest for the next step: that of one sequence itself, and means over the sequences of a batch. */
const decay = 0.98;

export class TextSuggestions {
  /** Levels, and [length] expected accepted tokens, of the latest sequence. */
  private levels = 0;
  private expected: readonly number[] = [0];
  /** [length] Decaying means of the expected tokens, and of what they are above those of the drafter. */
  private readonly means: number[] = [];
  private readonly gains: number[] = [];

  /** @param expectDrafted the accepted tokens expected from a chain of the drafter */
  learn(survival: readonly number[], longest: number, expectDrafted: (length: number) => number): void {
    this.levels = survival.length;
    const expected = [0];
    for (let length = 1; length <= longest; length++) {
      expected.push(expected[length - 1]! + (survival[length - 1] ?? 0));
      this.means[length] = mix(this.means[length], expected[length]!);
      this.gains[length] = mix(this.gains[length], Math.max(0, expected[length]! - expectDrafted(length)));
    }
    this.expected = expected;
  }

  /** Of the latest sequence: undefined if its text suggests fewer tokens. */
  expect(length: number): number | undefined {
    return length > this.levels ? undefined : this.expected[length];
  }

  isBetter(length: number, drafted: number): boolean {
    return this.expected[length]! > drafted;
  }

  meanOf(length: number): number {
    return this.means[length] ?? 0;
  }

  /** Tokens that a batch gains if each sequence takes its lookup where that is better than the drafter's chain. */
  meanGainOf(length: number): number {
    return this.gains[length] ?? 0;
  }
}

const mix = (mean: number | undefined, value: number): number =>
  mean === undefined ? value : mean * decay + value * (1 - decay);
