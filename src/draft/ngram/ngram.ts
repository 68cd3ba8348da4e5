/**
 * Prompt lookup (vLLM `ngram`, SGLang `NGRAM`, llama.cpp `lookup`): if the last tokens occurred before, propose what
 * followed them. The longest match counts (`shortest` to `longest` tokens), and its latest occurrence. No weights,
 * passes or gradients; proposals depend only on the text.
 */
import { MistletoeError } from '../../core/errors.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { WeightlessSystem } from '../draft-system.js';
import type { Drafter, DraftSession } from '../drafter.js';
import { certainScores } from '../programs/scores.js';

export interface NgramLengths {
  readonly shortest: number;
  readonly longest: number;
}

/** As in llama.cpp: one token is often enough, and a wrong draft costs little. */
const defaults: NgramLengths = { shortest: 1, longest: 4 };
const maxAllowed = 64;

export const ngram: WeightlessSystem = {
  name: 'ngram',
  title: 'ngram (no weights)',
  form: 'ngram[:MIN,MAX]',
  normalise: (text) => formatNgram(parseNgram(text)),
  create: (text, target) => new NgramDrafter(parseNgram(text), target),
};

const formatNgram = ({ shortest, longest }: NgramLengths): string => `ngram:${shortest},${longest}`;

export function parseNgram(text: string): NgramLengths {
  if (text === 'ngram') return defaults;
  const [, shortest, longest] = (/^ngram:(\d{1,4}),(\d{1,4})$/.exec(text) ?? []).map(Number);
  const isGood = shortest !== undefined && longest !== undefined && shortest >= 1 && longest <= maxAllowed;
  if (isGood && shortest <= longest) return { shortest, longest };
  throw new MistletoeError(
    'usage',
    `The drafter "${text}" is not understood; ngram or ngram:MIN,MAX with whole numbers from 1 to ${maxAllowed}, MIN not above MAX, was expected.`,
    {
      hint: `ngram alone is ${formatNgram(defaults)}: runs of ${defaults.shortest} to ${defaults.longest} tokens are looked for. A folder of that name is written ./ngram.`,
    },
  );
}

class NgramDrafter implements Drafter {
  readonly system = ngram.name;
  readonly name: string;
  readonly reads = 'tokens';
  readonly taps = [];
  readonly maximumDepth = Infinity;
  readonly vocabularySize: number;
  readonly parameterCount = 0;
  readonly isChainOnly = true;
  readonly graph = undefined;

  constructor(
    private readonly lengths: NgramLengths,
    { configuration }: CausalModel,
  ) {
    this.name = formatNgram(lengths);
    this.vocabularySize = configuration.vocabularySize;
  }

  prepare(): Promise<void> {
    return Promise.resolve();
  }

  startSession(): DraftSession {
    const { lengths, vocabularySize } = this;
    const text: number[] = []; // what the target has read
    let root = 0;
    return {
      room: Infinity,
      isDeterministic: true,
      observe({ tokens, next }) {
        for (const token of tokens) text.push(token);
        root = next;
      },
      draftChain: (length) => Promise.resolve(lookUp([...text, root], lengths, length)),
      expand(draft, nodes) {
        const depth = draft.depths[nodes[0]!]!;
        const drafted = lookUp([...text, root], lengths, depth + 1);
        return Promise.resolve(certainScores(drafted[depth], vocabularySize));
      },
      close: () => undefined,
    };
  }
}

export function lookUp(
  text: readonly number[],
  { shortest, longest }: NgramLengths,
  count: number,
): readonly number[] {
  const end = text.length;
  let found = 0; // the place behind the occurrence
  let most = shortest - 1;
  for (let behind = end - 1; behind >= shortest && most < longest; behind--) {
    let matched = 0;
    while (matched < longest && matched < behind && text[behind - 1 - matched] === text[end - 1 - matched])
      matched += 1;
    if (matched <= most) continue;
    most = matched;
    found = behind;
  }
  if (found === 0) return [];
  // A match that reaches the end of the text repeats itself.
  const period = end - found;
  return Array.from({ length: count }, (_, ahead) => text[found + (ahead % period)]!);
}
