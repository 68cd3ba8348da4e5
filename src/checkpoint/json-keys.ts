/**
 * JSON.parse keeps the last of two equal keys without a word. A header that names one tensor twice means two things at
 * once, so the keys of the outermost object are collected here and compared. The text must be valid JSON already.
 */
export function findDuplicateKey(text: string): string | undefined {
  const seen = new Set<string>();
  let depth = 0;
  let expectsKey = false;
  for (let position = 0; position < text.length; position += 1) {
    const character = text[position];
    if (character === '"') {
      const end = findStringEnd(text, position);
      if (depth === 1 && expectsKey) {
        const key = JSON.parse(text.slice(position, end + 1)) as string;
        if (seen.has(key)) return key;
        seen.add(key);
        expectsKey = false;
      }
      position = end;
    } else if (character === '{' || character === '[') {
      depth += 1;
      expectsKey = depth === 1;
    } else if (character === '}' || character === ']') {
      depth -= 1;
    } else if (character === ',' && depth === 1) {
      expectsKey = true;
    }
  }
  return undefined;
}

function findStringEnd(text: string, start: number): number {
  let position = start + 1;
  while (text[position] !== '"') position += text[position] === '\\' ? 2 : 1;
  return position;
}
