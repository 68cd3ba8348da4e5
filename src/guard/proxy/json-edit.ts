/**
 * Changes single fields in the text of a JSON object and keeps every other byte: parsing and writing a body anew would
 * round 64-bit seeds. All functions expect valid JSON whose outermost value is an object.
 */
interface FieldSpan {
  readonly key: string;
  readonly start: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/** Sets a field. A key that occurs several times is set everywhere, because parsers disagree about which one counts. */
export function setField(text: string, key: string, value: string): string {
  const spans = findFields(text).filter((span) => span.key === key);
  if (spans.length > 0)
    return spans.reduceRight(
      (changed, { valueStart, valueEnd }) => changed.slice(0, valueStart) + value + changed.slice(valueEnd),
      text,
    );
  const brace = text.indexOf('{') + 1;
  const rest = text.slice(brace);
  return `${text.slice(0, brace)}${JSON.stringify(key)}:${value}${/^\s*\}/.test(rest) ? '' : ','}${rest}`;
}

/** Removes the field at a path such as ['sglext', 'spec_tokens_details'], and parents that become empty. */
export function removeField(text: string, [key, ...rest]: readonly string[]): string {
  const spans = findFields(text);
  const index = spans.findIndex((span) => span.key === key);
  const span = spans[index];
  if (span === undefined) return text;
  if (rest.length > 0) {
    const value = text.slice(span.valueStart, span.valueEnd);
    if (!value.startsWith('{')) return text;
    const inner = removeField(value, rest);
    if (!/^\{\s*\}$/.test(inner)) return text.slice(0, span.valueStart) + inner + text.slice(span.valueEnd);
  }
  const next = spans[index + 1];
  if (next !== undefined) return text.slice(0, span.start) + text.slice(next.start);
  const previous = spans[index - 1];
  return text.slice(0, previous?.valueEnd ?? span.start) + text.slice(span.valueEnd);
}

function findFields(text: string): FieldSpan[] {
  const spans: FieldSpan[] = [];
  let at = text.indexOf('{') + 1;
  for (;;) {
    at = skipSpace(text, at);
    if (text[at] === ',') at = skipSpace(text, at + 1);
    if (text[at] !== '"') return spans;
    const start = at;
    at = skipString(text, at);
    const key = JSON.parse(text.slice(start, at)) as string;
    const valueStart = skipSpace(text, skipSpace(text, at) + 1);
    at = skipValue(text, valueStart);
    spans.push({ key, start, valueStart, valueEnd: at });
  }
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text.charCodeAt(at) <= 32) at++;
  return at;
}

function skipString(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    at = text.indexOf('"', at);
    let slashes = 0;
    while (text[at - 1 - slashes] === '\\') slashes++;
    at++;
    if (slashes % 2 === 0) return at;
  }
}

function skipValue(text: string, from: number): number {
  let depth = 0;
  let at = from;
  do {
    const character = text[at];
    if (character === '"') at = skipString(text, at);
    else if (character === '{' || character === '[') {
      depth++;
      at++;
    } else if (character === '}' || character === ']') {
      depth--;
      at++;
    } else if (depth > 0) at++;
    else while (!/[\s,}\]]/.test(text[at] ?? ',')) at++;
  } while (depth > 0);
  return at;
}
