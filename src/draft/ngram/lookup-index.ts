/**
 * A growing text in which its own last tokens are found again. Positions are chained by a hash of the `min` tokens before
 * them, so a search visits only the places where at least that many tokens can match.
 */

/** How many tokens of the text have to match. */
export interface MatchLengths {
  readonly min: number;
  readonly max: number;
}

/** Bounds the time of a search where a text repeats a token thousands of times; the latest places count. */
const maxPlaces = 1024;
/** The weight of the tokens that no place votes for: a match of one token is right in a third of cases. */
const unseenWeight = 5;

export interface VotedToken {
  readonly token: number;
  /** Of the votes for all tokens at this place, and for unseen ones. */
  readonly share: number;
}

interface Place {
  /** The position after the match. */
  readonly start: number;
  readonly matched: number;
}

export class LookupIndex {
  private readonly text: number[] = [];
  /** [position] the previous position behind tokens with the same hash, or 0. */
  private readonly previous: number[] = [0];
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

  /**
   * The most likely continuation: every earlier place that matches votes for what followed it, with the weight
   * 2^(matched tokens). Places that followed the continuation so far vote for its next token.
   */
  findVoted(count: number): readonly VotedToken[] {
    const { text, lengths } = this;
    const votes = new Map<number, number>();
    const voted: VotedToken[] = [];
    let places = this.findPlaces();
    for (let level = 0; level < count && places.length > 0; level++) {
      const tokenAt = ({ start }: Place): number =>
        text[start + level] ?? voted[start + level - text.length]!.token;
      votes.clear();
      for (const place of places) {
        const token = tokenAt(place);
        votes.set(token, (votes.get(token) ?? 0) + 2 ** Math.min(place.matched + level, lengths.max));
      }
      let [chosen, most, total] = [0, 0, unseenWeight];
      for (const [token, weight] of votes) {
        total += weight;
        // Of equal ones, the latest.
        if (weight > most) [chosen, most] = [token, weight];
      }
      places = places.filter((place) => tokenAt(place) === chosen);
      voted.push({ token: chosen, share: most / total });
    }
    return voted;
  }

  /** Earlier places behind at least `min` of the last tokens, the latest first. */
  private findPlaces(): readonly Place[] {
    const { text, previous, lengths } = this;
    const places: Place[] = [];
    let start = previous[text.length]!;
    for (let visited = 0; start > 0 && visited < maxPlaces; visited++) {
      const matched = this.countMatching(start);
      if (matched >= lengths.min) places.push({ start, matched });
      start = previous[start]!;
    }
    return places;
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
