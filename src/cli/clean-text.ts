/** What models, checkpoints and prompt sets contain must not steer the reader's terminal. */
import { sealedCode } from './safe-text.js';

/** Control characters but tab and line end, and the marks that turn the reading direction. */
const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const replacement = '\ufffd';

export function withoutControls(text: string): string {
  return text.replace(steering, replacement);
}

/** For a name inside a sentence or a table: it must not begin a line of its own, either. */
export function asOneLine(text: string): string {
  return withoutControls(text.replace(/\s+/g, ' '));
}

const steeringOrColor = new RegExp(`${sealedCode.source}|${steering.source}`, 'g');

/** Our own colours, and nothing else that a terminal would obey. */
export function cleanForReaders(text: string): string {
  return text.replace(steeringOrColor, (_, code?: string) =>
    code === undefined ? replacement : `\u001b[${code}m`,
  );
}

/** Our own colours, and everything else as it is. */
export function openColors(text: string): string {
  return text.replace(sealedCode, '\u001b[$1m');
}

/** Moves the cursor, clears lines, or does nothing at all. */
export function isCursorSequence(text: string): boolean {
  return /^(?:\r|\u001b\[\d*[A-HJK])*$/.test(text);
}
