/**
 * What JSON.parse lets pass and a header of tensors may not have, because readers disagree on what it means: a key twice
 * in one object (JSON.parse keeps the last without a word), a number that is not written in digits (1.0, 1e0 and -0
 * become 1 and 0) or that a double cannot hold exactly, half of a surrogate pair in a text, and deep nesting.
 */

/** Where serde_json, with which the reference implementation of safetensors reads, gives up. */
const deepest = 127;

/** The first fault as a phrase that "in its header" can follow; undefined where there is none. The text must be valid JSON. */
export function findJsonFault(text: string, quote: (value: string) => string): string | undefined {
  const open: (Set<string> | undefined)[] = []; // keys of the objects around this place; undefined for a list
  let expectsKey = false;
  for (let position = 0; position < text.length; position += 1) {
    const character = text[position]!;
    if (character === '"') {
      const end = findStringEnd(text, position);
      const value = JSON.parse(text.slice(position, end + 1)) as string;
      if (/\p{Cs}/u.test(value)) return `has half of a surrogate pair in the text ${quote(value)}`;
      const keys = expectsKey ? open.at(-1) : undefined;
      if (keys?.has(value) === true) return `names ${quote(value)} twice`;
      keys?.add(value);
      expectsKey = false;
      position = end;
    } else if (character === '{' || character === '[') {
      open.push(character === '{' ? new Set() : undefined);
      if (open.length > deepest) return `nests more than ${deepest} levels`;
      expectsKey = character === '{';
    } else if (character === '}' || character === ']') {
      open.pop();
    } else if (character === ',') {
      expectsKey = open.at(-1) !== undefined;
    } else if (character === '-' || isDigit(character)) {
      const number = readNumber(text, position);
      if (!/^\d+$/.test(number) || !Number.isSafeInteger(Number(number)))
        return `has the number ${number.slice(0, 40)}, expected digits below 2^53`;
      position += number.length - 1;
    }
  }
  return undefined;
}

function isDigit(character: string): boolean {
  return character >= '0' && character <= '9';
}

function readNumber(text: string, start: number): string {
  const pattern = /[-+.\deE]+/y;
  pattern.lastIndex = start;
  return pattern.exec(text)![0];
}

function findStringEnd(text: string, start: number): number {
  let position = start + 1;
  while (text[position] !== '"') position += text[position] === '\\' ? 2 : 1;
  return position;
}
