/**
 * Changes single fields in the text of a JSON object and keeps every other byte: parsing and writing a body anew would
 * round 64-bit seeds. All functions expect valid JSON whose outermost value is an object.
 */
import { visitPunctuation } from '../../core/json-text.js';

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
  let [depth, from, colon] = [0, 0, 0];
  visitPunctuation(text, (character, at) => {
    if (character === '{' || character === '[') depth++;
    if (depth === 1 && character === ':') colon = at;
    if (depth === 1 && /[{,}]/.test(character)) {
      if (colon > from) spans.push(readField(text, from, colon, at));
      from = at + 1;
    }
    if (character === '}' || character === ']') depth--;
  });
  return spans;
}

function readField(text: string, from: number, colon: number, end: number): FieldSpan {
  const name = text.slice(from, colon);
  const value = text.slice(colon + 1, end);
  return {
    key: JSON.parse(name) as string,
    start: colon - name.trimStart().length,
    valueStart: end - value.trimStart().length,
    valueEnd: colon + 1 + value.trimEnd().length,
  };
}
