/**
 * Damage to JSON that stays JSON, or nearly so: a value somewhere in the document becomes an odd one. Odd values are
 * kept as the text that stands in the file, because much of what is odd (1e999, a key twice, half of a surrogate pair,
 * a thousand brackets) is no value that JSON.stringify could write.
 */
import type { Random } from '../../src/core/random.js';
import { pick } from './byte-mutations.js';

/** Text that goes into the file as it is. */
class Raw {
  constructor(readonly text: string) {}
}

type Node = Raw | null | boolean | number | string | Node[] | Entries;
/** Objects as lists of entries, which can hold a key twice. */
interface Entries {
  readonly entries: [key: string, value: Node][];
}

const nest = (open: string, close: string, depth: number): string => open.repeat(depth) + close.repeat(depth);

export const oddValues: readonly string[] = [
  ...['null', 'true', 'false', '0', '-0', '-1', '1', '2', '3', '1.0', '1e0', '0.5', '1e3', '1e999', '-1e999'],
  ...[
    '4294967296',
    '9007199254740993',
    '18446744073709551615',
    '18446744073709551616',
    '1e-400',
    '999999999',
  ],
  ...[
    '""',
    '"a"',
    '" "',
    '"\\u0000"',
    '"\\ud800"',
    '"\\udc00x"',
    '"\\ud83d\\ude00"',
    '"\\u001b[31mred"',
    '"__proto__"',
  ],
  ...[
    '"../../../etc/passwd"',
    '"/dev/zero"',
    '"NaN"',
    '"F32"',
    '"\\u202etxt.exe"',
    '"<script>alert(1)</script>"',
  ],
  ...[
    '[]',
    '{}',
    '[[]]',
    '[null]',
    '[1,2]',
    '[-1]',
    '[0,0]',
    '[0,18446744073709551615]',
    '{"a":{}}',
    '{"a":1,"a":2}',
  ],
  ...[
    'NaN',
    'Infinity',
    '01',
    '+1',
    '1.',
    '.5',
    "'a'",
    'undefined',
    '"\n"',
    '"\\x41"',
    '',
    '//',
    '[1,]',
    '{"a":1,}',
  ],
  ...[`"${'x'.repeat(5000)}"`, `"${'\\u0000'.repeat(300)}"`, `[${'0,'.repeat(3000)}0]`, '1'.repeat(400)],
  ...[
    nest('[', ']', 100),
    nest('[', ']', 200),
    nest('{"a":', '}', 50).replace('}', '1}'),
    nest('[', ']', 20_000),
  ],
];

export function mutateJson(value: unknown, random: Random): string {
  const root = { top: toNode(value) };
  const rounds = 1 + random.nextInteger(3);
  for (let round = 0; round < rounds; round++) mutateOnce(root, random);
  return write(root.top);
}

function mutateOnce(root: { top: Node }, random: Random): void {
  const places = listPlaces(root);
  const place = pick(random, places);
  const odd = (): Raw => new Raw(pick(random, oddValues));
  switch (random.nextInteger(8)) {
    case 0: // a key twice, or an item twice
      place.double();
      break;
    case 1:
      place.remove();
      break;
    case 2: // under another name
      place.rename(
        pick(random, [
          '',
          '__proto__',
          'constructor',
          '__metadata__',
          'x'.repeat(300),
          '\ud800',
          '\u001b[2J',
        ]),
      );
      break;
    case 3: // what stands elsewhere
      place.set(pick(random, places).value);
      break;
    case 4: // one level deeper
      place.set(random.nextInteger(2) === 0 ? [place.value] : { entries: [['a', place.value]] });
      break;
    default:
      place.set(odd());
  }
}

interface Place {
  readonly value: Node;
  set(value: Node): void;
  remove(): void;
  double(): void;
  rename(key: string): void;
}

function listPlaces(root: { top: Node }): readonly Place[] {
  const nothing = (): void => undefined;
  const places: Place[] = [
    {
      value: root.top,
      set: (value) => (root.top = value),
      remove: nothing,
      double: nothing,
      rename: nothing,
    },
  ];
  const visit = (node: Node, depth: number): void => {
    if (depth > 12 || typeof node !== 'object' || node === null || node instanceof Raw) return;
    const list: unknown[] = Array.isArray(node) ? node : node.entries;
    for (const [index, item] of list.entries()) {
      const entry = Array.isArray(node) ? undefined : (item as [string, Node]);
      const value = entry === undefined ? (item as Node) : entry[1];
      places.push({
        value,
        set: (changed) => {
          if (entry === undefined) list[index] = changed;
          else entry[1] = changed;
        },
        remove: () => void list.splice(index, 1),
        double: () => void list.splice(index, 0, item),
        rename: (key) => {
          if (entry !== undefined) entry[0] = key;
        },
      });
      visit(value, depth + 1);
    }
  };
  visit(root.top, 0);
  return places;
}

function toNode(value: unknown): Node {
  if (Array.isArray(value)) return value.map(toNode);
  if (typeof value === 'object' && value !== null)
    return { entries: Object.entries(value).map(([key, item]) => [key, toNode(item)]) };
  return value as null | boolean | number | string;
}

const longestText = 900_000;

/** Values put into each other can grow; a file is cut where it would be larger than what is promised about it. */
function write(node: Node): string {
  let left = longestText;
  const spend = (text: string): string => {
    left -= text.length;
    return text;
  };
  const text = (each: Node, depth: number): string => {
    left -= 1; // a list that was put into itself has places without end, and no text of its own
    if (left < 0 || depth > 40) return 'null';
    if (each instanceof Raw) return spend(each.text);
    if (Array.isArray(each)) return `[${each.map((item) => text(item, depth + 1)).join(',')}]`;
    if (typeof each === 'object' && each !== null)
      return `{${each.entries.map(([key, item]) => `${spend(JSON.stringify(key))}:${text(item, depth + 1)}`).join(',')}}`;
    return spend(JSON.stringify(each));
  };
  return text(node, 0);
}
