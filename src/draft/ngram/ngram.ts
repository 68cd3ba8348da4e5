/**
 * Prompt lookup, as vLLM's `ngram`, SGLang's `NGRAM` and llama.cpp's `lookup` draft: if the last tokens occurred in the
 * text before, it proposes what followed them then. The longest match wins, from `min` to `max` tokens; of equally long
 * ones, the latest. It has no weights and no gradient, and its drafts depend on the text alone, at any temperature.
 */
import { MistletoeError } from '../../core/errors.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { Drafter, MatchLengths, VerifiedTokens } from '../drafter.js';
import { certainScores } from '../programs/scores.js';
import { forwardSession } from '../rotating-drafter.js';

/** Those of llama.cpp: a single token is often enough, and a wrong draft costs little. */
const defaults: MatchLengths = { min: 1, max: 4 };
const maxAllowed = 64;

export const ngram = {
  name: 'ngram',
  title: 'ngram (no weights)',
  form: 'ngram[:MIN,MAX]',
  /** The canonical form; throws if the text is invalid. */
  normalise: (text: string) => formatNgram(parseNgram(text)),
  create: (text: string, target: CausalModel) => createNgram(parseNgram(text), target),
};

export const formatNgram = ({ min, max }: MatchLengths): string => `ngram:${min},${max}`;

export function parseNgram(text: string, unspecified = defaults): MatchLengths {
  if (text === 'ngram') return unspecified;
  const [, min, max] = (/^ngram:(\d{1,4}),(\d{1,4})$/.exec(text) ?? []).map(Number);
  if (min !== undefined && max !== undefined && min >= 1 && min <= max && max <= maxAllowed)
    return { min, max };
  throw new MistletoeError(
    'usage',
    `The drafter "${text}" is not understood; ngram or ngram:MIN,MAX with whole numbers from 1 to ${maxAllowed}, MIN not above MAX, was expected.`,
    {
      hint: `ngram alone is ${formatNgram(unspecified)}: it looks for matches of ${unspecified.min} to ${unspecified.max} tokens. A folder of that name is written ./ngram.`,
    },
  );
}

/** Adds verified tokens and the root behind them to the text. */
export function observeText(index: LookupIndex, { tokens, next }: VerifiedTokens): void {
  // The first token is the previous root, which is in the text already.
  for (const token of index.length === 0 ? tokens : tokens.subarray(1)) index.push(token);
  index.push(next);
}

function createNgram(lengths: MatchLengths, { configuration: { vocabularySize } }: CausalModel): Drafter {
  return {
    system: ngram.name,
    name: formatNgram(lengths),
    reads: 'tokens',
    taps: [],
    maximumDepth: Infinity,
    vocabularySize,
    parameterCount: 0,
    isChainOnly: true,
    graph: undefined,
    prepare: () => Promise.resolve(),
    startSession() {
      const index = new LookupIndex(lengths);
      return {
        room: Infinity,
        isDeterministic: true,
        observe(verified) {
          observeText(index, verified);
        },
        draftChain: (length) => Promise.resolve(index.findContinuation(length)),
        expand(draft, nodes) {
          const depth = draft.depths[nodes[0]!]!;
          return Promise.resolve(certainScores(index.findContinuation(depth + 1)[depth], vocabularySize));
        },
        close: () => undefined,
      };
    },
  };
}

// A lookup in the text in front of another drafter, written `ngram+eagle3`. If the last tokens occurred before, a chain is
// what followed them then, and the drafter isn't asked; otherwise the drafter drafts. A tree holds both. A lookup costs
// nothing and depends on the text alone, so a suffix that misleads the drafter leaves it as it is.
/** Longer than those of a lookup alone: a short match is less reliable than a drafter. */
const hybridDefaults: MatchLengths = { min: 3, max: 8 };

/**
 * A lookup such as `ngram:3,8` and the drafter behind it, as a user writes it; undefined for a drafter alone. A folder
 * whose name begins with `ngram+` is written `./ngram+x`.
 */
export function parseHybrid(source: string) {
  const [, lookup, behind] = /^(ngram(?::[^+]*)?)\+(.+)$/s.exec(source) ?? [];
  if (lookup === undefined || behind === undefined) return undefined;
  return { lookup: formatNgram(parseNgram(lookup, hybridDefaults)), behind };
}

export const withLookup = (lookup: string, behind: string): string => `${lookup}+${behind}`;

/** The drafter with a lookup in front of it. Audits follow the gradient of the drafter and measure both. */
export function addLookup(lookup: string, drafter: Drafter): Drafter {
  const lengths = parseNgram(lookup, hybridDefaults);
  return {
    ...drafter,
    name: `${lookup}+${drafter.name}`,
    lookup: lengths,
    startSession(scheduler) {
      const inner = drafter.startSession(scheduler);
      const index = new LookupIndex(lengths);
      return Object.assign(
        forwardSession(() => inner),
        {
          lookUp: (length: number) => index.findContinuation(length),
          observe(verified: VerifiedTokens) {
            observeText(index, verified);
            inner.observe(verified);
          },
        },
      );
    },
  };
}

/**
 * A growing text in which its own last tokens are found again. Positions are chained by a hash of the `min` tokens before
 * them, so a search visits only the places where at least that many tokens can match.
 */

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
