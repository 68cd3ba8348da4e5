/**
 * One token by itself, as clients of an API are shown it: its text with the blank it begins with, and its bytes. A token
 * that is part of a character has bytes but no text of its own, and is written out as `bytes:\xe2\x80`.
 */
import type { PublishedTokenizer } from './published-tokenizers.js';
import type { TokenizerFile } from './tokenizer-file.js';
import type { Tokenizer } from './tokenizer.js';

/**
 * How few tokens a text can have, told from its size: a text that cannot fit a context is refused before it is
 * tokenised, which takes seconds for each megabyte. A token stands for no more bytes than its longest piece has, but
 * only where every byte of a text reaches some token. Tokenizers that drop characters (blanks between words, what the
 * vocabulary does not know, what a normalizer strikes) give no bound.
 */
/** The most that NFC shortens a text: three letters of Hangul with three bytes each become one syllable of three. */
const maxShortening = 4;
/** An added token may stand for a normalised text, in which each blank has become the three bytes of U+2581. */
const maxLengthening = 4;

/** Undefined where a token may stand for any number of bytes: published structures with every byte in the vocabulary give a bound. */
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
function byteLetters(): readonly string[] {
  let hidden = 0;
  return Array.from({ length: 256 }, (_, byte) => {
    const isVisible = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    return String.fromCharCode(isVisible ? byte : 256 + hidden++);
  });
}

function bytePieces(): readonly string[] {
  return Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
}

export interface TokenSpelling {
  readonly text: string;
  /** Null where they cannot be told. */
  readonly bytes: readonly number[] | null;
}

const replacement = '\uFFFD';

export function spellToken(tokenizer: Tokenizer, id: number): TokenSpelling {
  if (!tokenizer.hasToken(id)) return { text: '', bytes: null }; // scores may be wider than the vocabulary
  const piece = tokenizer.tokenText(id);
  if (tokenizer.isSpecial(id)) return spelled(piece);
  if (tokenizer.isByte(id)) return spellBytes([Number.parseInt(piece.slice(3, 5), 16)]);
  // Decoders strip the first blank of a text; behind another token, it is there.
  const text = tokenizer.decode([id, id]).slice(tokenizer.decode([id]).length);
  if (!text.includes(replacement)) return spelled(text);
  const bytes = Array.from(piece, (letter) => bytesByLetter().get(letter));
  return bytes.every((byte) => byte !== undefined) ? spellBytes(bytes) : { text, bytes: null };
}

function spelled(text: string): TokenSpelling {
  return { text, bytes: [...Buffer.from(text)] };
}

function spellBytes(bytes: readonly number[]): TokenSpelling {
  const text = Buffer.from(bytes).toString();
  if (!text.includes(replacement)) return { text, bytes };
  return {
    text: `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`,
    bytes,
  };
}

let letters: ReadonlyMap<string, number> | undefined;

function bytesByLetter(): ReadonlyMap<string, number> {
  letters ??= new Map(byteLetters().map((letter, byte) => [letter, byte]));
  return letters;
}
