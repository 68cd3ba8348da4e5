/**
 * Named random streams. Every consumer asks for its own stream, `createRandom(seed, 'audit', 'prompt-7')`, so that
 * adding a draw in one place never shifts the numbers seen in another. A stream depends on its seed and names only:
 * forking neither consumes numbers nor depends on how many were drawn before.
 *
 * The generator is xoshiro128** 1.1 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021):
 * 128 bits of state, only 32-bit integer operations (fast in JavaScript), and no failures in the usual test
 * batteries. Its state is the hash of the seed and names: four lanes, each a multiplicative absorption of the text
 * with its own odd multiplier, closed by the 32-bit finaliser of MurmurHash3.
 */
import { MistletoeError } from './errors.js';
import { sum } from './vector.js';

export interface Random {
  /** Uniform in [0, 1), 53 bits. */
  next(): number;
  /** Uniform in 0 .. below - 1, without modulo bias. */
  nextInteger(below: number): number;
  /** Permutes in place (Fisher-Yates). */
  shuffle(items: MutableItems): void;
  /** The stream whose names are this one's and one more. */
  fork(name: string): Random;
  /** Four 32-bit words; give them to `restore` to go on from here. */
  state(): readonly number[];
  restore(state: readonly number[]): void;
}

/** What `shuffle` can permute: arrays and typed arrays. */
interface MutableItems {
  readonly length: number;
  [index: number]: unknown;
}

const WORD_COUNT = 2 ** 32;

export function createRandom(seed: number | string, ...names: string[]): Random {
  if (typeof seed === 'number' && !Number.isFinite(seed)) {
    throw new MistletoeError('usage', `The seed is ${seed}; a finite number or a text was expected.`);
  }
  return new Xoshiro128(seed, names);
}

class Xoshiro128 implements Random {
  readonly #words: Int32Array;

  constructor(
    private readonly seed: number | string,
    private readonly names: readonly string[],
  ) {
    // JSON keeps 1 apart from "1" and ["a", "b"] apart from ["a,b"].
    this.#words = hashText(JSON.stringify([seed, ...names]));
  }

  next(): number {
    const high = this.#nextWord() >>> 5;
    const low = this.#nextWord() >>> 6;
    return (high * 2 ** 26 + low) / 2 ** 53;
  }

  nextInteger(below: number): number {
    if (!Number.isInteger(below) || below < 1 || below > WORD_COUNT) {
      throw new MistletoeError('usage', `Cannot draw an integer below ${below}; 1 to 2^32 was expected.`);
    }
    const limit = WORD_COUNT - (WORD_COUNT % below);
    let word = this.#nextWord();
    while (word >= limit) word = this.#nextWord();
    return word % below;
  }

  shuffle(items: MutableItems): void {
    for (let last = items.length - 1; last > 0; last--) {
      const other = this.nextInteger(last + 1);
      const item = items[last];
      items[last] = items[other];
      items[other] = item;
    }
  }

  fork(name: string): Random {
    return new Xoshiro128(this.seed, [...this.names, name]);
  }

  state(): readonly number[] {
    return Array.from(this.#words, (word) => word >>> 0);
  }

  restore(state: readonly number[]): void {
    const isWord = (word: number) => Number.isInteger(word) && word >= 0 && word < WORD_COUNT;
    if (state.length !== 4 || !state.every(isWord) || state.every((word) => word === 0)) {
      throw new MistletoeError(
        'usage',
        `The random state [${state.join(', ')}] is not four 32-bit words of which one is not 0.`,
        { hint: 'Restore only what state() returned.' },
      );
    }
    this.#words.set(state.map((word) => word | 0));
  }

  #nextWord(): number {
    const words = this.#words;
    const second = words[1]!;
    const result = Math.imul(rotateLeft(Math.imul(second, 5), 7), 9);
    words[2]! ^= words[0]!;
    words[3]! ^= second;
    words[1] = second ^ words[2]!;
    words[0]! ^= words[3]!;
    words[2]! ^= second << 9;
    words[3] = rotateLeft(words[3]!, 11);
    return result >>> 0;
  }
}

function rotateLeft(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}

const LANE_STARTS = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344]; // digits of pi
const LANE_MULTIPLIERS = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f]; // odd, bits well spread

/** 128 bits of a text: every lane reads every character, so two texts meet only if all four lanes collide. */
function hashText(text: string): Int32Array {
  const lanes = Int32Array.from(LANE_STARTS);
  for (let lane = 0; lane < 4; lane++) {
    const multiplier = LANE_MULTIPLIERS[lane]!;
    let hash = lanes[lane]! ^ text.length;
    for (let index = 0; index < text.length; index++) {
      hash = Math.imul(rotateLeft(hash, 15) ^ text.charCodeAt(index), multiplier);
    }
    lanes[lane] = finalise(hash);
  }
  if (lanes.every((lane) => lane === 0)) lanes[0] = 1; // the one state xoshiro cannot leave
  return lanes;
}

function finalise(word: number): number {
  let hash = word;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/** One index of a distribution; `total` is the mass it sums to, for weights that are not normalised. */
export function drawFrom(
  distribution: Float32Array, // [vocabulary]
  random: Pick<Random, 'next'>,
  total = 1,
): number {
  const { length } = distribution;
  let left = random.next() * total;
  let lastPossible = -1;
  for (let index = 0; index < length; index++) {
    const probability = distribution[index]!;
    if (probability > 0) {
      if (left < probability) return index;
      left -= probability;
      lastPossible = index;
    }
  }
  // Rounding can leave a sliver of the unit interval past the end of the distribution.
  if (lastPossible < 0)
    throw new MistletoeError('runtime', 'Cannot draw from a distribution whose every probability is 0.');
  return lastPossible;
}

/**
 * Up to `count` distinct indexes in the order drawn, each from the distribution without those before it; fewer when the distribution
 * has fewer possible indexes. Uses `count` random numbers in any case, because a device gets them before it draws. The
 * distribution itself is left as it was.
 */
export function drawWithoutReplacement(distribution: Float32Array, count: number, random: Random): number[] {
  const remaining = count > 1 ? distribution.slice() : distribution;
  const drawn: number[] = [];
  for (let place = 0; place < count; place++) {
    const uniform = random.next();
    const total = sum(remaining);
    if (!(total > 0)) continue;
    const index = drawFrom(remaining, { next: () => uniform }, total);
    drawn.push(index);
    if (count > 1) remaining[index] = 0;
  }
  return drawn;
}
