/**
 * A growing text in which its own last tokens are found again. Positions are chained by a hash of the `min` tokens before
 * them, so a search visits only the places where at least that many tokens can match.
 */

/** How many tokens have to match. */
export interface MatchLengths {
  readonly min: number;
  readonly max: number;
}

export class LookupIndex {
  private readonly text: number[] = [];
  /** [position] the previous position behind tokens with the same hash, or 0. */
  private readonly previous: number[] = [0];
  /** The latest position of each hash. */
  private readonly latest = new Map<number, number>();

  constructor(private readonly lengths: MatchLengths) {}

  get length(): number {
    return this.text.length;
  }

  push(token: number): void {
    this.text.push(token);
    const position = this.text.length;
    if (position < this.lengths.min) {
      this.previous.push(0);
      return;
    }
    const hash = this.hashBefore(position);
    this.previous.push(this.latest.get(hash) ?? 0);
    this.latest.set(hash, position);
  }

  /** What followed the latest of the longest earlier occurrences of the last tokens, at most `count` tokens. */
  findContinuation(count: number): readonly number[] {
    const { text, previous, lengths } = this;
    const end = text.length;
    let found = 0;
    let longest = lengths.min - 1;
    for (let place = previous[end]!; place > 0 && longest < lengths.max; place = previous[place]!) {
      const matched = this.countMatching(place);
      if (matched <= longest) continue;
      longest = matched;
      found = place;
    }
    if (found === 0) return [];
    // A continuation that reaches the end of the text continues with itself: a repeating text keeps repeating.
    const period = end - found;
    return Array.from({ length: count }, (_, ahead) => text[found + (ahead % period)]!);
  }

  /** Tokens before `place` that equal those before the end. */
  private countMatching(place: number): number {
    const { text, lengths } = this;
    const end = text.length;
    let matched = 0;
    while (matched < lengths.max && matched < place && text[place - 1 - matched] === text[end - 1 - matched])
      matched += 1;
    return matched;
  }

  private hashBefore(position: number): number {
    let hash = 0;
    for (let place = position - this.lengths.min; place < position; place++)
      hash = (Math.imul(hash, 0x01000193) ^ this.text[place]!) | 0;
    return hash;
  }
}
