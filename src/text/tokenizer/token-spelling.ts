/**
 * One token as API clients see it: its text with a leading blank, and its bytes. A token that is part of a character has
 * no text of its own and is written as `bytes:\xe2\x80`.
 */
import { byteLetters } from './token-bound.js';
import type { Tokenizer } from './tokenizer.js';

export interface TokenSpelling {
  readonly text: string;
  /** Null if unknown. */
  readonly bytes: readonly number[] | null;
}

const replacement = '\uFFFD';

export function spellToken(tokenizer: Tokenizer, id: number): TokenSpelling {
  if (!tokenizer.hasToken(id)) return { text: '', bytes: null }; // logits may be wider than the vocabulary
  const piece = tokenizer.tokenText(id);
  if (tokenizer.isSpecial(id)) return spelled(piece);
  if (tokenizer.isByte(id)) return spellBytes([Number.parseInt(piece.slice(3, 5), 16)]);
  // Decoders strip the first blank of a text, so decode it after another token.
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
