/**
 * The bytes of every token, to compare vocabularies of different kinds: `Ġthe` of a byte-level vocabulary and `▁the` of
 * SentencePiece are the same bytes. Computed from the pieces, because decoding each of 100,000 tokens takes seconds.
 */
import { byteLetters } from './tokenizer-structures.js';
import type { Tokenizer } from './tokenizer.js';

/** One character per byte, so that bytes can be concatenated, cut and looked up. */
export type ByteText = string;

export const toBytes = (text: string): ByteText => Buffer.from(text).toString('latin1');

/** Bytes that are not UTF-8 become replacement characters. */
export const toText = (bytes: ByteText): string => Buffer.from(bytes, 'latin1').toString();

export class TokenBytes {
  private readonly bytes: (ByteText | undefined)[] = [];
  private readonly ids = new Map<ByteText, number>();
  private longest = 0;

  /** `size`: rows of the model; tokens beyond them are left out. */
  constructor(
    readonly tokenizer: Tokenizer,
    readonly size: number,
  ) {
    const spell = chooseSpelling(tokenizer);
    const singleBytes: number[] = [];
    const ordered = [...tokenizer.vocabulary()].sort(([, left], [, right]) => left - right);
    for (const [piece, id] of ordered) {
      if (id >= size) continue;
      const isSpecial = tokenizer.isSpecial(id);
      const isByte = tokenizer.isByte(id);
      this.bytes[id] = isSpecial ? toBytes(piece) : isByte ? byteOf(piece) : spell(piece);
      if (isByte) singleBytes.push(id);
      else if (!isSpecial) this.name(id);
    }
    // A text has `A`, not `<0x41>`, where the vocabulary has both.
    for (const id of singleBytes) this.name(id);
  }

  /** Empty for ids that stand for no text. */
  of(id: number): ByteText {
    return this.bytes[id] ?? '';
  }

  /** The token of exactly these bytes; special tokens have none. */
  find(bytes: ByteText): number | undefined {
    return this.ids.get(bytes);
  }

  /** By the longest token that fits; undefined if some byte has no token. */
  cover(bytes: ByteText): readonly number[] | undefined {
    const covered: number[] = [];
    for (let start = 0; start < bytes.length;) {
      let end = Math.min(bytes.length, start + this.longest);
      while (end > start && !this.ids.has(bytes.slice(start, end))) end -= 1;
      if (end === start) return undefined;
      covered.push(this.ids.get(bytes.slice(start, end))!);
      start = end;
    }
    return covered;
  }

  /** The first id of the same bytes counts. */
  private name(id: number): void {
    const bytes = this.of(id);
    if (bytes === '' || this.ids.has(bytes)) return;
    this.ids.set(bytes, id);
    this.longest = Math.max(this.longest, bytes.length);
  }
}

const byteOf = (piece: string): ByteText => String.fromCharCode(Number.parseInt(piece.slice(3, 5), 16));

/** How pieces are written, found by decoding one that has a mark for blanks. */
function chooseSpelling(tokenizer: Tokenizer): (piece: string) => ByteText {
  const marksBlank = (mark: string): boolean => {
    for (const [piece, id] of tokenizer.vocabulary())
      if (piece.startsWith(mark) && !tokenizer.isSpecial(id)) return /\s/.test(tokenizer.decode([id, id]));
    return false;
  };
  if (marksBlank('Ġ')) {
    const letters = new Map(byteLetters().map((letter, byte) => [letter, String.fromCharCode(byte)]));
    return (piece) => {
      const bytes = Array.from(piece, (letter) => letters.get(letter));
      // An added token is written as it is.
      return bytes.includes(undefined) ? toBytes(piece) : bytes.join('');
    };
  }
  return marksBlank('▁') ? (piece) => toBytes(piece.replaceAll('▁', ' ')) : toBytes;
}

/** Bytes of a character whose rest is missing at the end. */
export function countUnfinished(bytes: ByteText): number {
  for (let count = 1; count <= Math.min(3, bytes.length); count++) {
    const byte = bytes.charCodeAt(bytes.length - count);
    if (isContinuation(byte)) continue;
    const needed = byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return byte < 0xf8 && needed > count ? count : 0;
  }
  return 0;
}

export const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80;

/**
 * Where each token ends in a text, with respect to its beginning; undefined if the tokens spell another text, because
 * the tokenizer normalizes. A blank that the tokenizer puts in front of every text is not counted.
 */
export function placeTokens(
  ids: readonly number[],
  spelled: TokenBytes,
  text: ByteText,
): readonly number[] | undefined {
  const whole = ids.map((id) => spelled.of(id)).join('');
  const added = whole.length - text.length;
  if ((added !== 0 && !(added === 1 && whole.startsWith(' '))) || !whole.endsWith(text)) return undefined;
  let end = -added;
  return ids.map((id) => (end += spelled.of(id).length));
}
