/**
 * Whole parts of tokenizers in the library's words, written by chance: not damage to a file, but files that somebody could
 * have meant. Faults are in how parts act together and in values at the edge, so those come up often.
 */
import type { Random } from '../../src/core/random.js';
import { pick } from './byte-mutations.js';

export type Json = Record<string, unknown>;
type Writer = (random: Random) => Json;

const flag = (random: Random): boolean => random.nextInteger(2) === 0;
/** One in three is empty: the length that is forgotten first. */
const text = (random: Random): string =>
  pick(random, ['', '', '', 'a', 'ab', ' ', '▁', 'é', '\u0000', 'ab'.repeat(20)]);
const size = (random: Random): number => pick(random, [0, 1, 2, 3, 40, 1e6, 2 ** 32 - 6, 2 ** 53 - 1]);
const behavior = (random: Random): string =>
  pick(random, ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous']);

const atoms = ['a', '[ab]', '[^a]', '.', '\\s', '\\p{L}', '\\d', '(?:a|b)', '(a|ab)', 'a*', '(?=a)', '\\b'];
const repeats = ['', '?', '?', '*', '+', '{3}', '{1,3}', '{40}', '??', '*?'];

/** Regular expressions in which the same letters can be matched in many ways. */
export function writeRegex(random: Random): string {
  const piece = (): string => pick(random, atoms) + pick(random, repeats);
  switch (random.nextInteger(5)) {
    case 0:
      return Array.from({ length: 1 + random.nextInteger(4) }, piece).join(pick(random, ['', '|']));
    case 1:
      return `(${piece()}${piece()})${pick(random, ['+', '*', '{2,}'])}${piece()}$`;
    case 2: {
      // Optional letters before the same letters: on a shorter run, each choice of optional ones is tried.
      const [letter, count] = [pick(random, ['a', '[ab]', '.', '\\p{L}']), 20 + random.nextInteger(30)];
      return `${letter}?`.repeat(count) + `${letter}{${count}}`;
    }
    default:
      return piece().repeat(2 + random.nextInteger(40)) + pick(random, atoms) + pick(random, repeats);
  }
}

const pattern: Writer = (random) => (flag(random) ? { Regex: writeRegex(random) } : { String: text(random) });

const byteLevel: Writer = (random) => ({
  ...{ type: 'ByteLevel', add_prefix_space: flag(random), trim_offsets: flag(random) },
  use_regex: flag(random),
});
const metaspace: Writer = (random) => ({
  ...{ type: 'Metaspace', replacement: pick(random, ['▁', '▁', '▁', 'a', 'ab']) },
  ...{ prepend_scheme: pick(random, ['always', 'first', 'never']), split: flag(random) },
});

const normalizers: readonly Writer[] = [
  (random) => ({ type: pick(random, ['NFC', 'NFKD', 'Lowercase', 'Nmt', 'StripAccents', 'ByteLevel']) }),
  (random) => ({ type: 'Prepend', prepend: text(random) }),
  () => ({ type: 'Prepend', prepend: '' }),
  (random) => ({ type: 'Replace', pattern: pattern(random), content: text(random) }),
  (random) => ({ type: 'Strip', strip_left: flag(random), strip_right: flag(random) }),
  (random) => ({
    type: 'Precompiled',
    precompiled_charsmap: pick(random, ['', 'AAAA', 'A'.repeat(64), '////']),
  }),
];

const splitters: readonly Writer[] = [
  byteLevel,
  byteLevel,
  byteLevel,
  metaspace,
  (random) => ({ type: 'Split', pattern: pattern(random), behavior: behavior(random), invert: flag(random) }),
  (random) => ({
    ...{ type: 'Split', pattern: { Regex: writeRegex(random) }, behavior: 'Isolated', invert: false },
  }),
  (random) => ({
    type: pick(random, ['Whitespace', 'WhitespaceSplit', 'UnicodeScripts', 'BertPreTokenizer']),
  }),
  (random) => ({ type: 'Digits', individual_digits: flag(random) }),
  (random) => ({ type: 'Punctuation', behavior: behavior(random) }),
  (random) => ({ type: 'FixedLength', length: size(random) }),
  (random) => ({ type: 'CharDelimiterSplit', delimiter: pick(random, ['a', ' ', '', 'ab']) }),
];

const template: Writer = (random) => {
  const piece = (): Json =>
    pick(random, [
      { Sequence: { id: 'A', type_id: 0 } },
      { Sequence: { id: 'B', type_id: random.nextInteger(2) } },
      { SpecialToken: { id: pick(random, ['<s>', '<s>', '</s>']), type_id: 0 } },
    ]);
  const pieces = (): Json[] => Array.from({ length: 1 + random.nextInteger(3) }, piece);
  const ids = pick(random, [[27], [27], [], [27, 27], [4_000_000_000]]);
  return {
    ...{ type: 'TemplateProcessing', single: pieces(), pair: pieces() },
    special_tokens: { '<s>': { id: '<s>', ids, tokens: pick(random, [['<s>'], ['<s>'], []]) } },
  };
};

const wrappers: readonly Writer[] = [
  template,
  template,
  byteLevel,
  () => ({ type: 'BertProcessing', sep: ['a', 0], cls: ['b', 4_000_000_000] }),
  (random) => ({
    ...{ type: 'RobertaProcessing', sep: ['a', 0], cls: ['b', 1] },
    ...{ trim_offsets: flag(random), add_prefix_space: flag(random) },
  }),
];

const decoders: readonly Writer[] = [
  ...[byteLevel, byteLevel, byteLevel, metaspace, metaspace],
  ...[() => ({ type: 'Fuse' }), () => ({ type: 'Fuse' })],
  () => ({ type: 'ByteFallback' }),
  (random) => ({ type: 'Replace', pattern: pattern(random), content: text(random) }),
  (random) => ({
    ...{ type: 'Strip', content: pick(random, [' ', 'a', '']), start: size(random), stop: size(random) },
  }),
  (random) => ({ type: 'WordPiece', prefix: text(random), cleanup: flag(random) }),
  () => ({ type: 'CTC', pad_token: '', word_delimiter_token: '', cleanup: true }),
];

/** A vocabulary of letters, at times with ids that count nothing. */
function writeVocabulary(random: Random): Record<string, number> {
  const vocab = Object.fromEntries(Array.from('abcdefghijklmnopqrstuvwxyz ', (piece, id) => [piece, id]));
  if (random.nextInteger(4) === 0)
    vocab[pick(random, ['z', 'ab', '<unk>'])] = pick(random, [
      ...[0, 28, 5000, 999_999, 999_999_999, 2 ** 31, 2 ** 32 - 6, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1],
    ]);
  for (const piece of ['ab', 'aa', 'aab', 'bc']) if (flag(random)) vocab[piece] ??= Object.keys(vocab).length;
  return vocab;
}

function writeModel(random: Random): Json {
  const vocab = writeVocabulary(random);
  const pieces = Object.keys(vocab);
  const unknown = pick(random, [null, null, 'a', '<unk>']);
  switch (random.nextInteger(12)) {
    case 0:
      return { type: 'WordLevel', vocab, unk_token: unknown ?? 'a' };
    case 1:
      return {
        ...{ type: 'WordPiece', vocab, unk_token: unknown ?? 'a', continuing_subword_prefix: text(random) },
        max_input_chars_per_word: size(random),
      };
    case 2:
      return {
        ...{ type: 'Unigram', unk_id: pick(random, [null, 0, size(random)]), byte_fallback: flag(random) },
        vocab: pieces.map((piece, id) => [piece, pick(random, [-id, 0, -1e300, 5])]),
      };
    default: {
      const merge = (): string[] => [pick(random, pieces), pick(random, ['a', 'b', 'c'])];
      const leadsOut = random.nextInteger(6) === 0;
      const merges = Array.from({ length: random.nextInteger(4) }, merge);
      return {
        ...{ type: 'BPE', vocab, merges: merges.filter(([a, b]) => leadsOut || `${a}${b}` in vocab) },
        ...{ unk_token: unknown, fuse_unk: flag(random), byte_fallback: flag(random) },
        ...(random.nextInteger(6) === 0 ? { dropout: pick(random, [0, 0.5, 1, 2]) } : {}),
        ...(random.nextInteger(6) === 0 ? { continuing_subword_prefix: text(random) } : {}),
        ...(random.nextInteger(6) === 0 ? { end_of_word_suffix: text(random) } : {}),
      };
    }
  }
}

/** One part, or several in order. */
function writeSlot(random: Random, listKey: string, writers: readonly Writer[]): Json {
  if (flag(random)) return pick(random, writers)(random);
  const parts = Array.from({ length: 1 + random.nextInteger(3) }, () => pick(random, writers)(random));
  return { type: 'Sequence', [listKey]: parts };
}

function writeAddedTokens(random: Random): Json[] {
  const flags = (): Json => ({
    ...{ special: flag(random), normalized: flag(random), single_word: flag(random) },
    ...{ lstrip: flag(random), rstrip: flag(random) },
  });
  const others = ['', ' ', 'a', 'ab', '<s>', 'é\u0301'].filter(() => random.nextInteger(5) === 0);
  return [...(flag(random) ? ['<s>'] : []), ...others].map((content, index) => ({
    ...{ id: random.nextInteger(9) === 0 ? size(random) : 27 + index, content },
    ...flags(),
  }));
}

/** How seldom a slot is written anew. Most decoders are refused, and odd models and tokens by the library. */
const rarity: Readonly<Record<string, number>> = {
  ...{ normalizer: 2, pre_tokenizer: 2, post_processor: 2, decoder: 5, added_tokens: 5, model: 3 },
};

/** A tokenizer.json, whole. `published` gives the slots that are left as a family published them. */
export function writeTokenizer(random: Random, published: Json): Json {
  const slots: Json = {
    normalizer: writeSlot(random, 'normalizers', normalizers),
    pre_tokenizer: writeSlot(random, 'pretokenizers', splitters),
    post_processor: writeSlot(random, 'processors', wrappers),
    decoder: writeSlot(random, 'decoders', decoders),
    added_tokens: writeAddedTokens(random),
    model: writeModel(random),
  };
  const base: Json = { version: '1.0', truncation: null, padding: null, decoder: { type: 'Fuse' } };
  const plain = { added_tokens: [], model: { type: 'BPE', vocab: writeVocabulary(random), merges: [] } };
  const kept = random.nextInteger(3) === 0 ? published : plain;
  const own = Object.keys(slots).filter((key) => random.nextInteger(rarity[key]!) === 0);
  return { ...base, ...kept, ...Object.fromEntries(own.map((key) => [key, slots[key]])) };
}
