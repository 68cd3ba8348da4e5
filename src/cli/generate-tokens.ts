/**
 * Makes accepted draft tokens visible in a text: by colour where there is colour, between brackets where brackets are
 * asked for. The tokens that one step accepts stand together, since a token of the target's own follows them, so a
 * pair of brackets is the accepted draft of one step. Blanks at its edges stay outside, where the eye expects them;
 * a draft of blanks alone has no brackets.
 */
import type { TokenOrigin } from '../decode/answer.js';
import type { Colors } from './terminal.js';

export const draftBrackets = ['⟨', '⟩'] as const;

export interface TokenMarker {
  /** The text of one more token, marked. */
  mark(text: string, origin: TokenOrigin): string;
  /** What is left to write behind the last token. */
  finish(): string;
}

export function createTokenMarker(colors: Colors, hasBrackets: boolean): TokenMarker {
  const [opening, closing] = draftBrackets;
  let isOpen = false;
  let heldBlanks = ''; // behind an open draft: inside it if it goes on, outside if it ends

  // Word by word: whoever wraps or indents the text finds no colour open at the edges of its lines.
  const paint = (text: string): string => text.replace(/\S+/g, (word) => colors.green(word));

  const close = (): string => {
    const rest = `${isOpen ? closing : ''}${heldBlanks}`;
    isOpen = false;
    heldBlanks = '';
    return rest;
  };

  const bracket = (text: string): string => {
    const body = text.trim();
    if (body === '') {
      if (!isOpen) return text;
      heldBlanks += text;
      return '';
    }
    const lead = heldBlanks + text.slice(0, text.indexOf(body));
    heldBlanks = text.slice(text.indexOf(body) + body.length);
    const start = isOpen ? lead : `${lead}${opening}`;
    isOpen = true;
    return start + paint(body);
  };

  return {
    mark(text, origin) {
      if (text === '') return '';
      if (origin !== 'accepted') return close() + text;
      return hasBrackets ? bracket(text) : paint(text);
    },
    finish: close,
  };
}
