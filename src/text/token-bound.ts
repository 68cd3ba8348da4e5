/**
 * How few tokens a text can have, told from its size: a text that cannot fit a context is refused before it is
 * tokenised, which takes seconds for each megabyte. A token stands for no more bytes than its longest piece has, but
 * only where every byte of a text reaches some token. Tokenizers that drop characters (blanks between words, what the
 * vocabulary does not know, what a normalizer strikes) give no bound.
 */
import type { TokenizerFile } from './tokenizer-file.js';
import { findUnusualParts } from './tokenizer-shape.js';

type Part = Readonly<Record<string, unknown>>;

/**
 * The most that a Unicode normal form or lower case shortens a text: a mathematical A of four bytes becomes one of one,
 * three letters of Hangul with three bytes each one syllable of three.
 */
const mostShortening = 4;
/** An added token may stand for a normalised text, in which each blank has become the three bytes of U+2581. */
const mostLengthening = 4;

/** Undefined where a token may stand for any number of bytes. */
export function mostBytesPerToken({
  contents,
  ids,
  addedIds,
}: Pick<TokenizerFile, 'contents' | 'ids' | 'addedIds'>): number | undefined {
  const { model, normalizer, pre_tokenizer: splitter, added_tokens: added } = contents;
  const splitters = listParts(splitter, 'pretokenizers');
  if (findUnusualParts(contents).length > 0 || splitters.some(drops)) return undefined;
  if (Array.isArray(added) && added.some(takesBlanks)) return undefined;
  const hasEveryByte = splitters.some(({ type }) => type === 'ByteLevel')
    ? byteLetters().every((letter) => ids.has(letter))
    : isPart(model) && model.byte_fallback === true && bytePieces().every((piece) => ids.has(piece));
  if (!hasEveryByte) return undefined;
  let longest = 1;
  for (const piece of ids.keys()) {
    const bytes = Buffer.byteLength(piece) * (addedIds.has(piece) ? mostLengthening : 1);
    longest = Math.max(longest, bytes);
  }
  const shortening = listParts(normalizer, 'normalizers').reduce(
    (product, part) => product * shortens(part),
    1,
  );
  return shortening === Infinity ? undefined : longest * shortening;
}

function listParts(part: unknown, listKey: string): readonly Part[] {
  if (!isPart(part)) return [];
  const list = part.type === 'Sequence' ? part[listKey] : [part];
  return Array.isArray(list) ? list.filter(isPart) : [];
}

/** Parts that findUnusualParts lets pass; of them, these lose what stands between two words. */
function drops({ type, behavior }: Part): boolean {
  return type === 'Whitespace' || type === 'WhitespaceSplit' || behavior === 'Removed';
}

function takesBlanks(token: unknown): boolean {
  return isPart(token) && (token.lstrip === true || token.rstrip === true);
}

function shortens({ type, pattern, content }: Part): number {
  if (type === 'Prepend') return 1;
  if (type !== 'Replace') return mostShortening;
  const before = isPart(pattern) ? Buffer.byteLength(String(pattern.String)) : Infinity;
  return Math.max(1, before / Buffer.byteLength(String(content)));
}

/** The letters by which GPT-2's scheme writes the 256 bytes: themselves where they are visible, else from U+0100 on. */
export function byteLetters(): readonly string[] {
  let hidden = 0;
  return Array.from({ length: 256 }, (_, byte) => {
    const isVisible = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCharCode(isVisible ? byte : 256 + hidden++);
  });
}

function bytePieces(): readonly string[] {
  return Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
}

function isPart(value: unknown): value is Part {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
