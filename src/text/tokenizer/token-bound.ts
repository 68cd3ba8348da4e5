/**
 * The min number of tokens of a text, from its size: a text that cannot fit a context is refused before it is tokenized,
 * which takes seconds per megabyte. A token holds at most the bytes of the longest piece, provided that every byte of a
 * text becomes part of a token. Tokenizers that drop characters (blanks between words, unknown characters, removals by a
 * normalizer) give no bound.
 */
import type { PublishedTokenizer } from './published-tokenizers.js';
import type { TokenizerFile } from './tokenizer-file.js';

/** The most that NFC shortens a text: three letters of Hangul with three bytes each become one syllable of three. */
const maxShortening = 4;
/** An added token may stand for a normalised text, in which each blank has become the three bytes of U+2581. */
const maxLengthening = 4;

/** Undefined unless the structure is published and every byte is in the vocabulary. */
export function maxBytesPerToken(
  published: PublishedTokenizer | undefined,
  { ids, addedIds }: Pick<TokenizerFile, 'ids' | 'addedIds'>,
): number | undefined {
  if (published?.bytes === undefined) return undefined;
  const bytes = published.bytes === 'letters' ? byteLetters() : bytePieces();
  if (!bytes.every((piece) => ids.has(piece))) return undefined;
  let longest = 1;
  for (const piece of ids.keys()) {
    const size = Buffer.byteLength(piece) * (addedIds.has(piece) ? maxLengthening : 1);
    longest = Math.max(longest, size);
  }
  return published.shortens ? longest * maxShortening : longest;
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
