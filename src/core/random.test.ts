import { describe, expect, it } from 'vitest';
import { chiSquareExcess, uniformDistribution } from '../../test/chi-square.js';
import { MistletoeError } from './errors.js';
import { createRandom, type Random } from './random.js';

const take = (random: Random, count: number) => Array.from({ length: count }, () => random.next());

describe('createRandom', () => {
  it('is xoshiro128**: the words that its authors publish for the state 1, 2, 3, 4', () => {
    const random = createRandom(0);
    random.restore([1, 2, 3, 4]);
    const words = Array.from({ length: 10 }, () => random.nextInteger(2 ** 32));
    expect(words).toEqual([
      11520, 0, 5927040, 70819200, 2031721883, 1637235492, 1287239034, 3734860849, 3729100597, 4258142804,
    ]);
  });

  it('never changes what a seed means', () => {
    expect(createRandom(7, 'audit', 'prompt-0').state()).toEqual([
      3423213609, 1539708248, 1728959622, 1531220842,
    ]);
  });

  it('depends on the seed, its type and every name, and on nothing else', () => {
    const streams = [
      createRandom(1),
      createRandom(2),
      createRandom('1'),
      createRandom(1, ''),
      createRandom(1, 'a'),
      createRandom(1, 'b'),
      createRandom(1, 'a', 'b'),
      createRandom(1, 'b', 'a'),
      createRandom(1, 'ab'),
      createRandom(1, 'a,b'),
      createRandom(1, 'a","b'),
    ];
    expect(new Set(streams.map((stream) => stream.state().join())).size).toBe(streams.length);
    expect(take(createRandom(1, 'a', 'b'), 5)).toEqual(take(createRandom(1, 'a', 'b'), 5));
  });

  it('forks by name, whatever was drawn before', () => {
    const parent = createRandom(3, 'a');
    const before = take(parent.fork('b'), 5);
    take(parent, 100);
    expect(take(parent.fork('b'), 5)).toEqual(before);
    expect(take(createRandom(3, 'a', 'b'), 5)).toEqual(before);
  });

  it('goes on from a restored state as if it had never stopped', () => {
    const random = createRandom(5, 'run');
    take(random, 17);
    const state: unknown = JSON.parse(JSON.stringify(random.state()));
    const rest = take(random, 20);
    const resumed = createRandom(0);
    resumed.restore(state as number[]);
    expect(take(resumed, 20)).toEqual(rest);
  });

  it.each([[[1, 2, 3]], [[0, 0, 0, 0]], [[1, 2, 3, -1]], [[1, 2, 3, 0.5]], [[1, 2, 3, 2 ** 32]]])(
    'refuses to restore %j',
    (state) => {
      expect(() => {
        createRandom(0).restore(state);
      }).toThrow(MistletoeError);
    },
  );

  it('refuses a seed that is not a number', () => {
    expect(() => createRandom(Number.NaN)).toThrow('The seed is NaN');
  });

  it.each([0, -1, 1.5, 2 ** 32 + 1])('refuses to draw below %d', (below) => {
    expect(() => createRandom(0).nextInteger(below)).toThrow(MistletoeError);
  });
});

describe('uniformity', () => {
  it('fills 64 cells evenly, alone and in consecutive pairs', () => {
    const random = createRandom('uniform');
    const single = new Int32Array(64);
    const pairs = new Int32Array(64);
    let outside = 0;
    for (let draw = 0; draw < 100_000; draw++) {
      const value = random.next();
      if (!(value >= 0 && value < 1)) outside += 1;
      single[Math.floor(value * 64)]!++;
      pairs[Math.floor(random.next() * 8) * 8 + Math.floor(random.next() * 8)]!++;
    }
    expect(outside).toBe(0);
    expect(chiSquareExcess(single, uniformDistribution(64))).toBeLessThan(1);
    expect(chiSquareExcess(pairs, uniformDistribution(64))).toBeLessThan(1);
  });

  it('uses the low bits too', () => {
    const random = createRandom('low-bits');
    const cells = new Int32Array(32);
    for (let draw = 0; draw < 50_000; draw++) cells[(random.next() * 2 ** 53) % 32]!++;
    expect(chiSquareExcess(cells, uniformDistribution(32))).toBeLessThan(1);
  });

  it('gives independent first numbers to seeds and names that differ by one', () => {
    const bySeed = new Int32Array(64);
    const byName = new Int32Array(64);
    for (let index = 0; index < 40_000; index++) {
      const [a, b] = [createRandom(index).next(), createRandom(index + 1).next()];
      bySeed[Math.floor(a * 8) * 8 + Math.floor(b * 8)]!++;
      const [c, d] = [createRandom(9, `n${index}`).next(), createRandom(9, `n${index}`, 'x').next()];
      byName[Math.floor(c * 8) * 8 + Math.floor(d * 8)]!++;
    }
    expect(chiSquareExcess(bySeed, uniformDistribution(64))).toBeLessThan(1);
    expect(chiSquareExcess(byName, uniformDistribution(64))).toBeLessThan(1);
  });

  it('draws integers below a number that does not divide 2^32 evenly', () => {
    const random = createRandom('integers');
    const below = 3 * 2 ** 30; // a plain remainder would draw the first third twice as often
    const thirds = new Int32Array(3);
    for (let draw = 0; draw < 30_000; draw++) thirds[Math.floor(random.nextInteger(below) / 2 ** 30)]!++;
    expect(chiSquareExcess(thirds, uniformDistribution(3))).toBeLessThan(1);
  });

  it('shuffles into every order equally often, and keeps the items', () => {
    const random = createRandom('shuffle');
    const orders = new Map<string, number>();
    for (let draw = 0; draw < 24_000; draw++) {
      const items = Int32Array.of(0, 1, 2, 3);
      random.shuffle(items);
      orders.set(items.join(''), (orders.get(items.join('')) ?? 0) + 1);
    }
    expect(orders.size).toBe(24);
    expect(chiSquareExcess([...orders.values()], uniformDistribution(24))).toBeLessThan(1);
    expect([...orders.keys()].every((order) => /^(?!.*(.).*\1)[0-3]{4}$/.test(order))).toBe(true);
  });
});
