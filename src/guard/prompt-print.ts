/**
 * A print of a prompt's end, by which prompts that end alike are found and from which none is read back: the smallest of
 * the hashes of its shingles (runs of five characters), under each of 16 orders (Broder's min-hash). The share of places in
 * which two prints agree estimates the share of shingles that two ends have in common. The end alone is taken, because
 * that is where a suffix stands: in a whole prompt it would drown.
 *
 * The hash is HalfSipHash-2-4 (Aumasson and Bernstein, the 32-bit sibling of SipHash) under a key that is drawn for the
 * process or made from the operator's secret: without the key, guessing texts leads nowhere.
 */
import { createHash, randomBytes } from 'node:crypto';

export const printLength = 16;
/** Characters of the end that are looked at, and of one shingle. */
const [endCharacters, shingleCharacters] = [200, 5];

export interface PrintKey {
  readonly low: number;
  readonly high: number;
}

/** Prints under different keys cannot be compared; without a secret they last as long as the process. */
export function createPrintKey(secret?: string): PrintKey {
  const bytes = secret === undefined ? randomBytes(8) : createHash('sha256').update(secret).digest();
  return { low: bytes.readInt32LE(0), high: bytes.readInt32LE(4) };
}

/** Null for an end too short to be compared. */
export function printPrompt(prompt: string, key: PrintKey): readonly number[] | null {
  // Blanks and case are what a copy changes first.
  const end = prompt
    .slice(-2 * endCharacters)
    .replace(/\s+/g, ' ')
    .trim()
    .toLowerCase()
    .slice(-endCharacters);
  const shingles = end.length - shingleCharacters + 1;
  if (shingles < 1) return null;
  const smallest = new Uint32Array(printLength).fill(0xffffffff);
  for (let start = 0; start < shingles; start++) {
    const hash = hashCharacters(end, start, start + shingleCharacters, key);
    for (let order = 0; order < printLength; order++) {
      const rank = reorder(hash, order);
      if (rank < smallest[order]!) smallest[order] = rank;
    }
  }
  return Array.from(smallest);
}

/** Another permutation of the 32-bit numbers for each order: odd multipliers and shifts can be undone. */
function reorder(hash: number, order: number): number {
  let mixed = Math.imul(hash ^ Math.imul(order + 1, 0x9e3779b9), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

const rotate = (word: number, by: number): number => (word << by) | (word >>> (32 - by));

/** HalfSipHash-2-4 of UTF-16 units, two to a word; the length closes it. */
function hashCharacters(text: string, from: number, to: number, { low, high }: PrintKey): number {
  let [v0, v1, v2, v3] = [low, high, 0x6c796765 ^ low, 0x74656462 ^ high];
  const mix = (rounds: number): void => {
    for (let round = 0; round < rounds; round++) {
      v0 = (v0 + v1) | 0;
      v1 = rotate(v1, 5) ^ v0;
      v0 = rotate(v0, 16);
      v2 = (v2 + v3) | 0;
      v3 = rotate(v3, 8) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = rotate(v3, 7) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = rotate(v1, 13) ^ v2;
      v2 = rotate(v2, 16);
    }
  };
  const absorb = (word: number): void => {
    v3 ^= word;
    mix(2);
    v0 ^= word;
  };
  for (let at = from; at < to; at += 2)
    absorb(text.charCodeAt(at) | (at + 1 < to ? text.charCodeAt(at + 1) << 16 : 0));
  absorb((to - from) << 24);
  v2 ^= 0xff;
  mix(4);
  return v1 ^ v3;
}
