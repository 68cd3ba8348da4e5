/** Damage to a file's bytes that knows nothing of its format: a function of the stream, so that a seed is a file. */
import type { Random } from '../../src/core/random.js';

/** Lengths and counts at which readers go wrong. */
const lies = [0n, 1n, 0x7fn, 0xffn, 0x7fffffffn, 0xffffffffn, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n];
const maxBytes = 1_000_000;

export function pick<Item>(random: Random, items: readonly Item[]): Item {
  return items[random.nextInteger(items.length)]!;
}

type ByteMutation = (bytes: Buffer, random: Random) => Buffer;

const mutations: readonly ByteMutation[] = [
  function flip(bytes, random) {
    bytes[random.nextInteger(bytes.length)]! ^= 1 << random.nextInteger(8);
    return bytes;
  },
  function set(bytes, random) {
    bytes[random.nextInteger(bytes.length)] = pick(
      random,
      [0, 0x22, 0x2d, 0x2e, 0x30, 0x39, 0x5b, 0x7b, 0xff],
    );
    return bytes;
  },
  function cut(bytes, random) {
    return bytes.subarray(0, random.nextInteger(bytes.length));
  },
  function remove(bytes, random) {
    const start = random.nextInteger(bytes.length);
    return Buffer.concat([bytes.subarray(0, start), bytes.subarray(start + 1 + random.nextInteger(24))]);
  },
  function insert(bytes, random) {
    const start = random.nextInteger(bytes.length + 1);
    const piece = Buffer.from(
      Array.from({ length: 1 + random.nextInteger(12) }, () => random.nextInteger(256)),
    );
    return Buffer.concat([bytes.subarray(0, start), piece, bytes.subarray(start)]);
  },
  function repeat(bytes, random) {
    const start = random.nextInteger(bytes.length);
    const piece = bytes.subarray(start, start + 1 + random.nextInteger(64));
    const copies = new Array<Buffer>(1 + random.nextInteger(40)).fill(piece);
    return Buffer.concat([bytes.subarray(0, start), ...copies, bytes.subarray(start)]);
  },
  function splice(bytes, random) {
    const from = random.nextInteger(bytes.length);
    bytes.copy(bytes, random.nextInteger(bytes.length), from, from + 1 + random.nextInteger(32));
    return bytes;
  },
  function lie(bytes, random) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(pick(random, lies));
    length.copy(bytes, random.nextInteger(bytes.length), 0, 2 ** random.nextInteger(4));
    return bytes;
  },
];

export function mutateBytes(original: Uint8Array, random: Random): Buffer {
  let bytes = Buffer.from(original);
  const rounds = 1 + random.nextInteger(3);
  for (let round = 0; round < rounds && bytes.length > 0; round++) {
    bytes = Buffer.from(pick(random, mutations)(bytes, random));
  }
  return bytes.subarray(0, maxBytes);
}
