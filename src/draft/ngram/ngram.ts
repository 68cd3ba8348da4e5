/**
 * Prompt lookup, as vLLM's `ngram`, SGLang's `NGRAM` and llama.cpp's `lookup` draft: if the last tokens occurred in the
 * text before, it proposes what followed them then. All matches of `min` to `max` tokens vote. It has no weights and no gradient, and its drafts depend on the text alone, at any temperature.
 */
import { MistletoeError } from '../../core/errors.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { Drafter, VerifiedTokens } from '../drafter.js';
import { levelsOf } from '../tree/policy.js';
import { chainTree } from '../tree/token-tree.js';
import type { LookupIndex, MatchLengths } from './lookup-index.js';
import { TextLookup } from './text-lookup.js';

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
export function observeText(
  index: Pick<LookupIndex, 'length' | 'push'>,
  { tokens, next }: VerifiedTokens,
): void {
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
      const text = new TextLookup(lengths);
      return {
        room: Infinity,
        observe(verified) {
          observeText(text, verified);
        },
        catchUp: () => Promise.resolve(),
        propose({ root, policy, depthLimit }) {
          const { tokens } = text.lookUp(Math.min(levelsOf(policy), depthLimit));
          return Promise.resolve(chainTree(root, tokens));
        },
        suggest: (length) => text.lookUp(length),
        close: () => undefined,
      };
    },
  };
}
