/**
 * Text of a growing token sequence, piece by piece. The pieces concatenate to the decoding of the whole, cut behind
 * the prompt: `decode(prompt + ids).slice(base.length)`, base being `decode(prompt)` without an unfinished character
 * at its end. Nothing is taken back, so text is held while later tokens could still change it:
 * - a run of byte tokens, until another token ends it: the decoder turns the whole run into replacement characters
 *   if any part of it is not UTF-8, so no character of the run is certain before;
 * - one replacement character at the end, which may be the first bytes of a character in byte-level vocabularies.
 * Decoding sees a window of the last tokens. Both decodings of a comparison start at the same token, so what decoders do
 * to the beginning of a text (stripping a space) falls on tokens that were emitted before and cancels.
 */
import { MistletoeError } from '../core/errors.js';
import type { Tokenizer } from './tokenizer/tokenizer.js';
import { byteLetters } from './tokenizer/tokenizer-structures.js';

/**
 * Ends a text at the first stop string that completes, wherever the pieces of the text happen to be cut. Of stops that
 * complete with the same character the longest counts. The stop itself is not emitted, and neither is any tail that
 * could still become one.
 */
export function createStopScanner(stops: readonly string[]) {
  if (stops.includes('')) {
    throw new MistletoeError('text', 'A stop string is empty; it would end every text before it begins.', {
      hint: 'Leave the stop strings out, or give each at least one character.',
    });
  }
  let held = '';
  let match: string | undefined;

  return {
    push(text: string) {
      if (match !== undefined) return { emit: '', stopped: true };
      held += text;
      const found = findFirstStop(held, stops);
      if (found !== undefined) {
        const emit = held.slice(0, found.start);
        match = found.stop;
        held = '';
        return { emit, stopped: true };
      }
      const safe = held.length - openTailLength(held, stops);
      const emit = held.slice(0, safe);
      held = held.slice(safe);
      return { emit, stopped: false };
    },
    /** The tail that was held back and turned out not to be a stop. */
    finish(): string {
      const rest = held;
      held = '';
      return rest;
    },
    matched: (): string | undefined => match,
  };
}

function findFirstStop(
  text: string,
  stops: readonly string[],
): { readonly start: number; readonly stop: string } | undefined {
  let best: { start: number; end: number; stop: string } | undefined;
  for (const stop of stops) {
    const start = text.indexOf(stop);
    if (start < 0) continue;
    const end = start + stop.length;
    if (best === undefined || end < best.end || (end === best.end && start < best.start)) {
      best = { start, end, stop };
    }
  }
  return best;
}

function openTailLength(text: string, stops: readonly string[]): number {
  let longest = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}

// An unfinished character reaches back three bytes, so at most three tokens; the rest is margin.
const contextTokens = 8;
const windowTokens = 24;
const replacement = '\uFFFD';

export function createTextStream(tokenizer: Tokenizer, promptIds: readonly number[] = []) {
  const isVisible = (id: number): boolean => tokenizer.hasToken(id) && !tokenizer.isSpecial(id);
  // The last tokens of the prompt, with all of a run of bytes that is still open at its end.
  const visible = promptIds.filter(isVisible);
  const closed = visible.findLastIndex((id) => !tokenizer.isByte(id)) + 1;
  let window = visible.slice(Math.max(0, closed - contextTokens));
  // A run of bytes is unfinished as a whole; in a byte-level vocabulary it is one character at most.
  const unfinished = closed < visible.length ? /\uFFFD+$/ : /\uFFFD$/;
  let emitted = tokenizer.decode(window).replace(unfinished, '').length;
  let finished = false;

  const emitUpTo = (text: string, end: number): string => {
    const piece = text.slice(emitted, end);
    emitted = Math.max(emitted, end);
    return piece;
  };

  return {
    push(id: number): string {
      if (finished) throw new Error('A finished text stream takes no more tokens.');
      if (!isVisible(id)) return '';
      window.push(id);
      if (tokenizer.isByte(id)) return '';
      const text = tokenizer.decode(window);
      const held = text.endsWith(replacement) ? 1 : 0;
      const piece = emitUpTo(text, text.length - held);
      if (window.length > windowTokens) {
        window = window.slice(-contextTokens);
        emitted = tokenizer.decode(window).length - held;
      }
      return piece;
    },
    /** What was held back. The stream accepts no tokens afterwards. */
    finish(): string {
      if (finished) return '';
      finished = true;
      const text = tokenizer.decode(window);
      return emitUpTo(text, text.length);
    },
  };
}

// One token as API clients see it: its text with a leading blank, and its bytes. A token that is part of a character has
// no text of its own and is written as `bytes:\xe2\x80`.
export interface TokenSpelling {
  readonly text: string;
  /** Null if unknown. */
  readonly bytes: readonly number[] | null;
}

export function spellToken(tokenizer: Tokenizer, id: number): TokenSpelling {
  if (!tokenizer.hasToken(id)) return { text: '', bytes: null }; // logits may be wider than the vocabulary
  const piece = tokenizer.tokenText(id);
  if (tokenizer.isSpecial(id)) return spelled(piece);
  if (tokenizer.isByte(id)) return spellBytes([Number.parseInt(piece.slice(3, 5), 16)]);
  // Decoders strip the first blank of a text, so decode it after another token.
  const text = tokenizer.decode([id, id]).slice(tokenizer.decode([id]).length);
  if (!text.includes(replacement)) return spelled(text);
  letters ??= new Map(byteLetters().map((letter, byte) => [letter, byte]));
  const bytes = Array.from(piece, (letter) => letters!.get(letter));
  return bytes.every((byte) => byte !== undefined) ? spellBytes(bytes) : { text, bytes: null };
}

function spelled(text: string): TokenSpelling {
  return { text, bytes: [...Buffer.from(text)] };
}

function spellBytes(bytes: readonly number[]): TokenSpelling {
  const text = Buffer.from(bytes).toString();
  if (!text.includes(replacement)) return { text, bytes };
  return { text: `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`, bytes };
}

let letters: ReadonlyMap<string, number> | undefined;
