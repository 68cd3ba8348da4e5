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
  const smallest = new Int32Array(printLength).fill(0x7fffffff);
  for (let start = 0; start < shingles; start++) {
    const hash = hashShingle(end, start, key);
    for (let order = 0; order < printLength; order++) {
      // Odd multipliers and shifts can be undone: each order is another permutation of the 32-bit numbers.
      let rank = Math.imul(hash ^ orders[order]!, 0x85ebca6b);
      rank = Math.imul(rank ^ (rank >>> 15), 0xc2b2ae35);
      rank ^= rank >>> 16;
      if (rank < smallest[order]!) smallest[order] = rank;
    }
  }
  return Array.from(smallest, (rank) => rank >>> 0);
}

const orders = Int32Array.from({ length: printLength }, (_, order) => Math.imul(order + 1, 0x9e3779b9));

/** HalfSipHash-2-4 of UTF-16 units, two to a word. Shingles have one length, so that the length need not close it. */
function hashShingle(text: string, from: number, { low, high }: PrintKey): number {
  let v0 = low;
  let v1 = high;
  let v2 = 0x6c796765 ^ low;
  let v3 = 0x74656462 ^ high;
  // The loop is written out in plain variables: this runs some hundred times for every request that passes.
  for (let at = 0; at < shingleCharacters + 2; at += 2) {
    const isMessage = at < shingleCharacters;
    const second = at + 1 < shingleCharacters ? text.charCodeAt(from + at + 1) << 16 : 0;
    const word = isMessage ? text.charCodeAt(from + at) | second : 0;
    if (isMessage) v3 ^= word;
    else v2 ^= 0xff;
    for (let round = isMessage ? 2 : 4; round > 0; round--) {
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
    }
    v0 ^= word;
  }
  return v1 ^ v3;
}
