/**
 * The tokenizers of published model families, part by part as the tokenizers library writes them, and tokenizer.json made
 * of such parts.
 */
export type Json = Readonly<Record<string, unknown>>;

export interface Structure {
  readonly name: string;
  readonly normalizer: Json | null;
  readonly splitter: Json | null;
  readonly decoder: Json | null;
  readonly isByteLevel: boolean;
}

const prepend = { type: 'Prepend', prepend: '▁' };
const blankToBar = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
export const metaspace = (scheme: string): Json => ({
  type: 'Metaspace',
  replacement: '▁',
  prepend_scheme: scheme,
  split: false,
});
const byteLevel = (usesRegex: boolean): Json => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: usesRegex,
});
const splitAt = (regex: string): Json => ({
  type: 'Split',
  pattern: { Regex: regex },
  behavior: 'Isolated',
  invert: false,
});
const inOrder = (listKey: string, ...parts: readonly Json[]): Json => ({
  type: 'Sequence',
  [listKey]: parts,
});

const barToBlank = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
const pieceParts = [barToBlank, { type: 'ByteFallback' }, { type: 'Fuse' }];
export const pieceDecoder = inOrder('decoders', ...pieceParts);
export const prefixedDecoder = inOrder('decoders', ...pieceParts, {
  type: 'Strip',
  content: ' ',
  start: 1,
  stop: 0,
});
/** Settings of a byte-level decoder have no effect. */
export const byteOutput = { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true };
export const fuse = { type: 'Fuse' };

const llama3Split = splitAt(
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
);
const qwenSplit = splitAt(
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
);
const digits = { type: 'Digits', individual_digits: true };
const sentencePiece = inOrder('normalizers', prepend, blankToBar);

const pieces = (name: string, normalizer: Json | null, splitter: Json | null, decoder: Json): Structure => ({
  name,
  normalizer,
  splitter,
  decoder,
  isByteLevel: false,
});
const letters = (name: string, normalizer: Json | null, ...splitters: readonly Json[]): Structure => ({
  name,
  normalizer,
  decoder: byteOutput,
  isByteLevel: true,
  splitter: splitters.length === 1 ? splitters[0]! : inOrder('pretokenizers', ...splitters),
});

/** Each was tested with text that makes its split backtrack most. Add structures only exactly as published. */
export const structures: readonly Structure[] = [
  pieces('Llama 2', sentencePiece, null, prefixedDecoder),
  pieces('Llama 2 without a prefix', inOrder('normalizers', blankToBar), null, pieceDecoder),
  pieces('Mistral', null, metaspace('first'), prefixedDecoder),
  pieces('Mistral without a prefix', null, metaspace('never'), pieceDecoder),
  pieces('Mistletoe reference', sentencePiece, splitAt('\\n|\\d|▁?[^▁\\n\\d]+|▁'), prefixedDecoder),
  letters('Llama 3', null, llama3Split, byteLevel(false)),
  letters('Qwen 2', { type: 'NFC' }, qwenSplit, byteLevel(false)),
  letters('GPT-2', null, byteLevel(true)),
  letters('SmolLM', null, digits, byteLevel(true)),
  // A model without other parts: texts are split into the letters of the vocabulary.
  pieces('letters', null, null, fuse),
];

export const findStructure = (name: string | undefined): Structure | undefined =>
  structures.find((each) => each.name === name);

export interface TokenizerParts {
  readonly added: readonly object[];
  readonly wrapper?: Json | null;
  readonly model: Json;
}

/** As tokenizer.json. Neither truncates nor pads. */
export function describeTokenizer(
  { normalizer, splitter, decoder }: Structure,
  { added, wrapper = null, model }: TokenizerParts,
): Json {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer,
    pre_tokenizer: splitter,
    post_processor: wrapper,
    decoder,
    model,
  };
}

/** A post-processor that puts one special token in front of a text. */
export function beginWith(content: string, id: unknown) {
  const begin = { SpecialToken: { id: content, type_id: 0 } };
  const text = { Sequence: { id: 'A', type_id: 0 } };
  return {
    type: 'TemplateProcessing',
    single: [begin, text],
    pair: [begin, text, begin, { Sequence: { id: 'B', type_id: 1 } }], // never used
    special_tokens: { [content]: { id: content, ids: [id], tokens: [content] } },
  };
}

/** The letters by which GPT-2's scheme writes the 256 bytes: themselves where they are visible, else from U+0100 on. */
export function byteLetters(): readonly string[] {
  let hidden = 0;
  return Array.from({ length: 256 }, (_, byte) => {
    const isVisible = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCharCode(isVisible ? byte : 256 + hidden++);
  });
}
