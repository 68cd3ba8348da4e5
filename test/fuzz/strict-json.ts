/**
 * JSON by the rules of serde_json, which the reference implementation of safetensors uses: whole numbers are told from
 * others by how they are written, a number out of range is an error, half of a surrogate pair is an error, nesting ends
 * at 128, and keys come as often as they stand there. A second implementation on purpose, slow and plain: the reader under
 * test is held against it.
 */
export type StrictJson =
  | null
  | boolean
  | string
  | StrictJson[]
  | { readonly kind: 'whole'; readonly value: bigint }
  | { readonly kind: 'fraction' }
  | { readonly kind: 'object'; readonly entries: readonly (readonly [string, StrictJson])[] };

const deepest = 127;
const largestWhole = 2n ** 64n - 1n;

/** Throws an Error at the first character that is not as it has to be. */
export function parseStrictJson(text: string): StrictJson {
  let position = 0;
  const fail = (why: string): Error => new Error(`${why} at character ${position}`);
  const skipBlanks = (): void => {
    while (position < text.length && ' \n\t\r'.includes(text[position]!)) position++;
  };
  const take = (expected: string): boolean => {
    if (!text.startsWith(expected, position)) return false;
    position += expected.length;
    return true;
  };

  const readString = (): string => {
    if (!take('"')) throw fail('a string was expected');
    let value = '';
    for (;;) {
      const character = text[position];
      if (character === undefined || character < ' ') throw fail('a string does not end');
      position++;
      if (character === '"') break;
      value += character === '\\' ? readEscape() : character;
    }
    if (/\p{Cs}/u.test(value)) throw fail('half of a surrogate pair');
    return value;
  };

  const readEscape = (): string => {
    const escape = text[position++] ?? '';
    if (escape !== 'u') {
      const meant = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }[escape];
      if (meant === undefined) throw fail('an unknown escape');
      return meant;
    }
    const digits = text.slice(position, position + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw fail('an escape without its digits');
    position += 4;
    return String.fromCharCode(Number.parseInt(digits, 16));
  };

  const readNumber = (): StrictJson => {
    const match = /^-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/.exec(text.slice(position, position + 2000));
    if (match === null) throw fail('a value was expected');
    const [written, fraction, exponent] = match;
    position += written.length;
    if (!Number.isFinite(Number(written))) throw fail('a number out of range');
    if (fraction !== undefined || exponent !== undefined || written === '-0') return { kind: 'fraction' };
    const value = BigInt(written);
    return value > largestWhole || value < -(2n ** 63n) ? { kind: 'fraction' } : { kind: 'whole', value };
  };

  const readValue = (depth: number): StrictJson => {
    skipBlanks();
    if (text[position] === '"') return readString();
    if (take('null')) return null;
    if (take('true')) return true;
    if (take('false')) return false;
    if (text[position] === '[') return readList(depth);
    if (text[position] === '{') return readObject(depth);
    return readNumber();
  };

  const readList = (depth: number): StrictJson[] => {
    if (depth >= deepest) throw fail('nested too deeply');
    position++;
    const items: StrictJson[] = [];
    skipBlanks();
    if (take(']')) return items;
    for (;;) {
      items.push(readValue(depth + 1));
      skipBlanks();
      if (take(']')) return items;
      if (!take(',')) throw fail('a comma was expected');
    }
  };

  const readObject = (depth: number): StrictJson => {
    if (depth >= deepest) throw fail('nested too deeply');
    position++;
    const entries: [string, StrictJson][] = [];
    skipBlanks();
    if (take('}')) return { kind: 'object', entries };
    for (;;) {
      skipBlanks();
      const key = readString();
      skipBlanks();
      if (!take(':')) throw fail('a colon was expected');
      entries.push([key, readValue(depth + 1)]);
      skipBlanks();
      if (take('}')) return { kind: 'object', entries };
      if (!take(',')) throw fail('a comma was expected');
    }
  };

  const value = readValue(0);
  skipBlanks();
  if (position !== text.length) throw fail('more than one value');
  return value;
}
