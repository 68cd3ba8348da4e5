/**
 * JSON from outside. JSON.parse builds values of any depth; JSON.stringify, comparing and joining them walk by recursion
 * and end the stack at some thousand levels. Honest files have a dozen, so the depth is bounded once, where text becomes
 * a value.
 */
export const maxJsonDepth = 500;

/** Like JSON.parse, and throws like it. */
export function parseJsonText(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (measureDepth(text) > maxJsonDepth)
    throw new SyntaxError(`it nests more than ${maxJsonDepth} lists and objects into each other`);
  return value;
}

/** Of valid JSON. */
function measureDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  visitPunctuation(text, (character) => {
    if (character === '[' || character === '{') {
      depth++;
      if (depth > deepest) deepest = depth;
    } else if (character === ']' || character === '}') depth--;
  });
  return deepest;
}

/** Members of objects and lists in lists, counted before anything is built; the text need not be valid JSON. */
export function countEntries(text: string): number {
  let count = 0;
  visitPunctuation(text, (character) => {
    if (character === ':' || character === '[') count++;
  });
  return count;
}

/** Every character outside strings. */
function visitPunctuation(text: string, visit: (character: string) => void): void {
  for (let position = 0; position < text.length; position++) {
    if (text[position] !== '"') visit(text[position]!);
    else
      for (position++; position < text.length && text[position] !== '"'; position++)
        if (text[position] === '\\') position++;
  }
}

const maxShownLength = 120;

/** A value of a stranger's file in a sentence: as it stands there, and not at any length. */
export function showValue(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value);
  return text.length > maxShownLength ? `${text.slice(0, maxShownLength)}...` : text;
}
