/**
 * Text that is safe for a terminal. Names, ids and answers are untrusted and may contain escape sequences, so output is
 * cleaned of all of them except our own colors. Ours carry a random number that is only known to this process; it is
 * part of an ordinary color sequence, so tools that measure or strip colors work as usual.
 */
import { randomInt } from 'node:crypto';

/** The codes that start and end a style. */
const styles = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const;

type Style = keyof typeof styles;

export type Colors = { readonly isColorSupported: boolean } & Readonly<
  Record<Style, (text: string) => string>
>;

const seal = Array.from({ length: 4 }, () => randomInt(1000, 10_000)).join(';');
/** Matches only our own sequences; the group is the code. */
const sealedCode = new RegExp(`\u001b\\[${seal};(\\d+)m`, 'g');

/** Only an Output turns these marks into colors. */
export function createColors(isColorSupported: boolean): Colors {
  const entries = Object.entries(styles).map(([style, [begin, end]]) => {
    const [opening, closing] = [begin, end].map((code) => `\u001b[${seal};${code}m`) as [string, string];
    // A nested style that shares its end code would end the outer one too, so the outer one starts again.
    const paint = (text: string): string =>
      `${opening}${text.replaceAll(closing, closing + opening)}${closing}`;
    return [style, isColorSupported ? paint : (text: string) => text] as const;
  });
  return { isColorSupported, ...(Object.fromEntries(entries) as Record<Style, (text: string) => string>) };
}

/** Control characters except tab and line feed, and bidirectional marks. */
const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const replacement = '\ufffd';

export function withoutControls(text: string): string {
  return text.replace(steering, replacement);
}

/** For a name inside a sentence or a table: it cannot start a new line either. */
export function asOneLine(text: string): string {
  return withoutControls(text.replace(/\s+/g, ' '));
}

const steeringOrColor = new RegExp(`${sealedCode.source}|${steering.source}`, 'g');

/** Keeps our own colors, and no other control sequence. */
export function cleanForReaders(text: string): string {
  return text.replace(steeringOrColor, (_, code?: string) =>
    code === undefined ? replacement : `\u001b[${code}m`,
  );
}

/** Keeps our own colors, and everything else unchanged. */
export function openColors(text: string): string {
  return text.replace(sealedCode, '\u001b[$1m');
}

/** True for sequences that only move the cursor or clear lines. */
export function isCursorSequence(text: string): boolean {
  return /^(?:\r|\u001b\[\d*[A-HJK])*$/.test(text);
}
