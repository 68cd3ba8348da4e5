/**
 * A print of a prompt's end, by which prompts that end alike are found and from which none is read back. The end's
 * shingles (runs of five characters) are put into one order and dealt to 16 places, and each place keeps its first
 * (min-hash in one permutation: Li, Owen and Zhang, 2012). The share of places in which two prints agree estimates the
 * share of shingles that two ends have in common. The end alone is taken, because that is where a suffix stands: in a
 * whole prompt it would drown.
 *
 * What is kept of a first shingle is its HalfSipHash-2-4 (Aumasson and Bernstein, the 32-bit sibling of SipHash) under a
 * key that is drawn for the process or made from the operator's secret: without the key, guessing texts leads nowhere.
 * Every request that passes is printed, so all shingles get a cheap hash, and only the 16 that are kept a good one.
 */
import { createHash, randomBytes } from 'node:crypto';

export const printLength = 16;
/** Characters of the end that are looked at, and of one shingle. */
const [endCharacters, shingleCharacters] = [200, 5];
const nowhere = 0x7fffffff;

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
  const end = endOfLast;
  const [start, stop] = readEnd(prompt);
  if (stop - start < shingleCharacters) return null;
  const ranks = new Int32Array(printLength).fill(nowhere);
  const firsts = new Int32Array(printLength);
  let shingle = 0;
  for (let at = start; at < stop; at++) {
    // A number in a base, modulo 2^32: the next shingle is the last one less its first character, moved by one.
    const gone = at - start < shingleCharacters ? 0 : Math.imul(end[at - shingleCharacters]!, baseToShingle);
    shingle = (Math.imul(shingle, base) + end[at]! - gone) | 0;
    if (at - start < shingleCharacters - 1) continue;
    // Odd multipliers and shifts can be undone: another key is another permutation.
    let rank = Math.imul(shingle ^ key.low, 0x85ebca6b);
    rank = Math.imul(rank ^ (rank >>> 15), 0xc2b2ae35);
    rank ^= rank >>> 16;
    const place = rank >>> 28;
    rank &= 0x0fffffff;
    if (rank >= ranks[place]!) continue;
    ranks[place] = rank;
    firsts[place] = shingle;
  }
  const print: number[] = [];
  for (let place = 0; place < printLength; place++) {
    // A place to which nothing was dealt borrows from the next that has something, and says from how far: that keeps the
    // estimate true for ends of few shingles (Shrivastava and Li, 2014).
    let distance = 0;
    while (ranks[(place + distance) % printLength] === nowhere) distance++;
    print.push(hashWords(firsts[(place + distance) % printLength]!, distance, key) >>> 0);
  }
  return print;
}

const base = 0x9e3779b1;
const baseToShingle = Array.from({ length: shingleCharacters }).reduce<number>(
  (power) => Math.imul(power, base),
  1,
);

/** One for all prints, as they are made one after the other; in lower case a character may become three. */
const endOfLast = new Uint16Array(6 * endCharacters);

/** Where in `endOfLast` it lies, without what a copy changes first: case, and how wide blanks are. */
function readEnd(prompt: string): readonly [start: number, stop: number] {
  const text = prompt.slice(-2 * endCharacters).toLowerCase();
  const codes = endOfLast;
  let length = 0;
  let isBlank = true;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const isNext = code <= 0x20 || code === 0xa0 || code === 0x3000;
    if (!isNext || !isBlank) codes[length++] = isNext ? 0x20 : code;
    isBlank = isNext;
  }
  if (isBlank && length > 0) length--;
  return [Math.max(0, length - endCharacters), length];
}

/** HalfSipHash-2-4 of two words. All messages have one length, so that the length need not close them. */
function hashWords(first: number, second: number, { low, high }: PrintKey): number {
  let v0 = low;
  let v1 = high;
  let v2 = 0x6c796765 ^ low;
  let v3 = 0x74656462 ^ high;
  for (let part = 0; part < 3; part++) {
    const isMessage = part < 2;
    const word = part === 0 ? first : part === 1 ? second : 0;
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
