/**
 * Decides which tokenizers encode in this process. The tokenizers library is native code. Combinations of harmless parts
 * can make it panic, which ends the process. So a tokenizer.json must match a published structure as a whole: the same
 * normalizer, pre-tokenizer, decoder and model settings, at most one special token in front of the text, and nothing
 * else. Only vocabulary, merges and added tokens are its own. Every other tokenizer encodes in a sandboxed process
 * (sandboxed-encoder.ts).
 */
import { isRecord } from '../../core/json-text.js';
import type { Json } from './tokenizer-structures.js';
import {
  beginWith,
  byteLetters,
  byteOutput,
  describeTokenizer,
  fuse,
  metaspace,
  pieceDecoder,
  prefixedDecoder,
  structures,
} from './tokenizer-structures.js';

const knownDecoders: readonly (Json | null)[] = [
  ...[null, byteOutput, fuse, pieceDecoder, prefixedDecoder],
  ...['always', 'first', 'never'].flatMap((scheme) =>
    [true, false].map((split) => ({ ...metaspace(scheme), split })),
  ),
];

export interface PublishedTokenizer {
  readonly name: string;
  readonly contents: Json;
  /** How bytes without a piece are encoded: as byte-level letters, as pieces `<0x00>`, or not at all. */
  readonly bytes: 'letters' | 'pieces' | undefined;
  /** Whether the normalizer can shorten a text. */
  readonly shortens: boolean;
}

/** The published structure of a whole tokenizer.json; undefined if there is none. */
export function matchPublished(file: Json): PublishedTokenizer | undefined {
  const { normalizer, pre_tokenizer: splitter, decoder, model } = file;
  if (!hasOnly(file, topKeys) || file.truncation != null || file.padding != null) return undefined;
  const structure = structuresByForm.get(
    [formOf(normalizer), formOf(splitter), outputFormOf(decoder)].join(),
  );
  const settings = isRecord(model) ? readModel(model) : undefined;
  const added = readAddedTokens(file.added_tokens);
  if (structure === undefined || settings === undefined || added === undefined) return undefined;
  const wrapper = readWrapper(file.post_processor, added);
  if (wrapper === undefined) return undefined;
  const { name, isByteLevel } = structure;
  return {
    name,
    bytes: isByteLevel ? 'letters' : settings.byte_fallback === true ? 'pieces' : undefined,
    shortens: structure.normalizer?.type === 'NFC',
    contents: describeTokenizer(structure, { added, wrapper, model: settings }),
  };
}

/** The most that NFC shortens a text: three letters of Hangul with three bytes each become one syllable of three. */
const maxShortening = 4;
/** An added token may stand for a normalized text, in which each blank has become the three bytes of U+2581. */
const maxLengthening = 4;

const bytePieces = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
);

/**
 * A text that cannot fit a context is refused before it is tokenized, which takes seconds per megabyte: a token holds at
 * most the bytes of the longest piece. Undefined unless every byte of a text becomes part of a token: the structure is
 * published, and every byte is in the vocabulary.
 */
export function maxBytesPerToken(
  published: PublishedTokenizer | undefined,
  { ids, addedIds }: Readonly<Record<'ids' | 'addedIds', ReadonlyMap<string, number>>>,
): number | undefined {
  if (published?.bytes === undefined) return undefined;
  const bytes = published.bytes === 'letters' ? byteLetters() : bytePieces;
  if (!bytes.every((piece) => ids.has(piece))) return undefined;
  let longest = 1;
  for (const piece of ids.keys()) {
    const size = Buffer.byteLength(piece) * (addedIds.has(piece) ? maxLengthening : 1);
    longest = Math.max(longest, size);
  }
  return published.shortens ? longest * maxShortening : longest;
}

/** Undefined for an unknown decoder. Decoding always runs in this process. */
export function matchDecoder(decoder: unknown): Json | null | undefined {
  return decodersByForm.get(outputFormOf(decoder));
}

const byteLevelKeys = new Set(['type', 'add_prefix_space', 'trim_offsets', 'use_regex']);
const structuresByForm = new Map(
  structures.map((each) => [
    [formOf(each.normalizer), formOf(each.splitter), outputFormOf(each.decoder)].join(),
    each,
  ]),
);
const decodersByForm = new Map(knownDecoders.map((each) => [outputFormOf(each), each]));

const topKeys = new Set([
  ...['version', 'truncation', 'padding', 'added_tokens', 'normalizer', 'pre_tokenizer'],
  ...['post_processor', 'decoder', 'model'],
]);
const modelKeys = new Set([
  ...['type', 'vocab', 'merges', 'dropout', 'unk_token', 'continuing_subword_prefix'],
  ...['end_of_word_suffix', 'fuse_unk', 'byte_fallback', 'ignore_merges'],
]);

function readModel(model: Json): Json | undefined {
  const { type = 'BPE', vocab, merges, dropout = null, unk_token: unknown = null } = model;
  const { continuing_subword_prefix: prefix, end_of_word_suffix: suffix } = model;
  const { fuse_unk = false, byte_fallback = false, ignore_merges = false } = model;
  const isPlain = dropout === null && [prefix, suffix].every((affix) => affix == null || affix === '');
  const flags = { fuse_unk, byte_fallback, ignore_merges };
  if (type !== 'BPE' || !isPlain || !hasOnly(model, modelKeys)) return undefined;
  if (Object.values(flags).some((flag) => typeof flag !== 'boolean')) return undefined;
  if (unknown !== null && typeof unknown !== 'string') return undefined;
  if (!isRecord(vocab) || !hasKnownMerges(vocab, merges)) return undefined;
  return { type, dropout, unk_token: unknown, ...flags, vocab, merges };
}

/** The library panics at a merge whose result is longer than every piece, so all results must be pieces. */
function hasKnownMerges(vocab: Json, merges: unknown): boolean {
  if (!Array.isArray(merges)) return false;
  return merges.every((merge: unknown) => {
    const [left, right, ...more] =
      typeof merge === 'string' ? merge.split(' ') : Array.isArray(merge) ? (merge as unknown[]) : [];
    if (typeof left !== 'string' || typeof right !== 'string' || more.length > 0) return false;
    return [left, right, left + right].every((piece) => Object.hasOwn(vocab, piece));
  });
}

interface AddedToken {
  readonly id: unknown;
  readonly content: string;
}

const addedFlags = ['special', 'normalized', 'single_word', 'lstrip', 'rstrip'] as const;
const addedKeys = new Set(['id', 'content', ...addedFlags]);

/** Undefined unless all tokens are matched literally, as in all of these families. */
function readAddedTokens(added: unknown): readonly AddedToken[] | undefined {
  if (added === undefined) return [];
  if (!Array.isArray(added)) return undefined;
  const isKnown = (added as readonly unknown[]).every(
    (token) =>
      isRecord(token) &&
      hasOnly(token, addedKeys) &&
      typeof token.content === 'string' &&
      addedFlags.every((flag) => typeof token[flag] === 'boolean') &&
      !(token.single_word === true || token.lstrip === true || token.rstrip === true),
  );
  return isKnown ? (added as readonly AddedToken[]) : undefined;
}

/**
 * The special tokens around a text: none, or one in front of it. The form for pairs of texts is never used. A ByteLevel
 * post-processor only changes offsets, which are not used. Undefined for any other.
 */
function readWrapper(wrapper: unknown, added: readonly AddedToken[]): Json | null | undefined {
  if (wrapper == null || isByteLevel(wrapper)) return null;
  if (!isRecord(wrapper)) return undefined;
  if (wrapper.type === 'Sequence' && hasOnly(wrapper, new Set(['type', 'processors']))) {
    const [first, second, ...more] = Array.isArray(wrapper.processors)
      ? (wrapper.processors as unknown[])
      : [];
    const isKnown = isByteLevel(first) && isRecord(second) && second.type !== 'Sequence';
    return isKnown && more.length === 0 ? readWrapper(second, added) : undefined;
  }
  const { type, single, special_tokens: declared } = wrapper;
  if (type !== 'TemplateProcessing' || !Array.isArray(single) || !isRecord(declared)) return undefined;
  const token = single.length === 2 && isRecord(single[0]) ? single[0].SpecialToken : undefined;
  const content = isRecord(token) ? token.id : undefined;
  const known = added.find((each) => each.content === content);
  if (typeof content !== 'string' || known === undefined) return undefined;
  const found = beginWith(content, known.id);
  const isSame = formOf(single) === formOf(found.single) && Object.hasOwn(declared, content);
  return isSame && formOf(declared[content]) === formOf(found.special_tokens[content]) ? found : undefined;
}

/**
 * The settings of a part that affect ids and texts, with sorted keys: two parts with the same form do the same. Offsets are
 * left out, and a ByteLevel setting that older files lack gets its default.
 */
function formOf(part: unknown): string {
  return JSON.stringify(part ?? null, (_, value: unknown) => {
    if (!isRecord(value)) return value;
    const { trim_offsets: offsets, ...rest } = value;
    const kept = offsets === undefined || typeof offsets === 'boolean' ? rest : value;
    const whole = value.type === 'ByteLevel' ? { use_regex: true, ...kept } : kept;
    return Object.fromEntries(Object.entries(whole).sort(([left], [right]) => (left < right ? -1 : 1)));
  });
}

/** The same for a decoder, where ByteLevel settings have no effect. */
function outputFormOf(part: unknown): string {
  return isByteLevel(part) ? formOf(byteOutput) : formOf(part);
}

function isByteLevel(part: unknown): boolean {
  if (!isRecord(part) || part.type !== 'ByteLevel') return false;
  return Object.entries(part).every(
    ([key, value]) => byteLevelKeys.has(key) && (key === 'type' || typeof value === 'boolean'),
  );
}

function hasOnly(part: Json, keys: ReadonlySet<string>): boolean {
  return Object.keys(part).every((key) => keys.has(key));
}
