/**
 * Untrusted JSON. JSON.parse builds values of any depth, but JSON.stringify and other recursive functions overflow the
 * stack at a few thousand levels; and a value of two characters takes up to a hundred bytes and a microsecond. So depth
 * and, if asked for, the number of values are limited before text is parsed.
 */
export const maxJsonDepth = 500;

export function parseJsonText(text: string, maxValues = Infinity): unknown {
  let values = 1;
  let depth = 0;
  // Exact for valid JSON, but for empty lists and objects, which count as two.
  visitPunctuation(text, (character) => {
    const isOpening = character === '[' || character === '{';
    if ((isOpening || character === ',') && ++values > maxValues) throw new TooManyValues(maxValues);
    if (isOpening && ++depth > maxJsonDepth)
      throw new SyntaxError(`it nests more than ${maxJsonDepth} lists and objects into each other`);
    if (character === ']' || character === '}') depth--;
  });
  return JSON.parse(text);
}

export class TooManyValues extends SyntaxError {
  constructor(maxValues: number) {
    super(`it has more than ${maxValues} values`);
  }
}

/** Counts object members and nested lists without parsing. The text need not be valid JSON. */
export function countEntries(text: string): number {
  let count = 0;
  visitPunctuation(text, (character) => {
    if (character === ':' || character === '[') count++;
  });
  return count;
}

/** Every character outside strings. */
export function visitPunctuation(text: string, visit: (character: string, position: number) => void): void {
  for (let position = 0; position < text.length; position++)
    if (text[position] === '"') position = findClosingQuote(text, position + 1);
    else visit(text[position]!, position);
}

/** Prompts are long strings: a search for the quote is ten times as fast as reading every character. */
function findClosingQuote(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text[at - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return at;
  }
  return text.length;
}

/** Control characters except tab and line feed, and bidirectional marks: they steer a terminal, or hide text on it. */
export const steering =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A line of JSON for a log, which ends up on terminals: the same values, with such characters as escapes. */
export function toLogLine(value: object): string {
  return `${escapeSteering(JSON.stringify(value))}\n`;
}

/** Of JSON, where they stand in strings only. */
export function escapeSteering(json: string): string {
  return json.replace(steering, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const maxShownLength = 120;

/** An untrusted value for a message, shortened. */
export function showValue(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > maxShownLength ? `${text.slice(0, maxShownLength)}...` : text;
}
