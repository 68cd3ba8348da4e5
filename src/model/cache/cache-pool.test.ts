import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import { hostDataOf, HostRows } from '../../runtime/row-buffer.js';
import { CachePool, gatherCaches } from './cache-pool.js';
import { KvCache } from './kv-cache.js';

const runtime = createInterpreter();
const sizes = { layerCount: 1, keyValueHeadCount: 1, headSize: 2 };

/** Keys and values that carry a number. [slot, row, head, size] */
function rows(...numbers: number[]): HostRows {
  const keys = numbers.flatMap((number) => [number, number]);
  return new HostRows(Float32Array.from([...keys, ...keys.map((value) => -value)]), sizes.headSize);
}

function fill(...numbers: number[]): KvCache {
  const cache = new KvCache(sizes, runtime);
  cache.appendAll(rows(...numbers), numbers.length);
  return cache;
}

/** What a program would see of the cache, in its shared prefix and in its lane, without the dummies. */
function read(cache: KvCache): number[] {
  const { pool, lane, prefix, prefixLength, content } = cache;
  if (content === undefined) return readLane(cache.pool, 0, cache.length);
  const before = prefix === undefined ? [] : readLane(prefix.pool, 0, prefixLength);
  return [...before, ...readLane(pool, lane, cache.count(content))];
}

function readLane(pool: CachePool, lane: number, length: number): number[] {
  const data = hostDataOf(pool.view(0, length + 1).buffer);
  const values = hostDataOf(pool.view(1, length + 1).buffer);
  return Array.from({ length }, (_, position) => {
    const at = ((position + 1) * pool.lanes + lane) * sizes.headSize;
    if (!Object.is(values[at], -data[at]!)) expect(values[at]).toBe(-data[at]!); // an expect takes 20 µs
    return data[at]!;
  });
}

describe('gatherCaches', () => {
  it('brings caches of different lengths into one pool', () => {
    const caches = [fill(1, 2, 3), fill(4), fill(5, 6)];
    const pool = gatherCaches(caches);
    expect(caches.map((cache) => cache.pool === pool)).toEqual([true, true, true]);
    expect(pool.lanes).toBe(3);
    expect(caches.map(read)).toEqual([[1, 2, 3], [4], [5, 6]]);
    expect(pool.view(0, 4).shape).toEqual([4, 3, 2]);
  });

  it('moves nothing that lies together already, also where only some of them ask', () => {
    const caches = [fill(1), fill(2), fill(3)];
    const pool = gatherCaches(caches);
    expect(gatherCaches(caches)).toBe(pool);
    expect(gatherCaches(caches.slice(1))).toBe(pool);
    expect(gatherCaches([caches[2]!])).toBe(pool);
  });

  it('gives the lane of one that has gone to a newcomer', () => {
    const [gone, ...stay] = [fill(1, 1), fill(2), fill(3)] as const;
    const pool = gatherCaches([gone, ...stay]);
    gone.release();
    const newcomer = fill(7, 8);
    expect(gatherCaches([...stay, newcomer])).toBe(pool);
    expect([...stay, newcomer].map(read)).toEqual([[2], [3], [7, 8]]);
  });

  it('frees a lane once, whoever has it since', () => {
    const [gone, stays] = [fill(1), fill(2)] as const;
    gatherCaches([gone, stays, fill(3)]);
    gone.release();
    const newcomer = fill(4);
    const pool = gatherCaches([stays, newcomer]);
    gone.release();
    expect(pool.owners[newcomer.lane]).toBe(newcomer);
  });

  it('leaves a pool that is half empty, and takes along those that do not ask', () => {
    const caches = [fill(1), fill(2), fill(3), fill(4)] as const;
    const pool = gatherCaches(caches);
    caches[0].release();
    caches[1].release();
    const smaller = gatherCaches([caches[2]]);
    expect(smaller).not.toBe(pool);
    expect(smaller.lanes).toBe(2);
    expect(caches[3].pool).toBe(smaller);
    expect([read(caches[2]), read(caches[3])]).toEqual([[3], [4]]);
  });

  it('keeps every row through random appends, forgettings, forks, moves and departures', () => {
    const random = createRandom(11);
    let living: { cache: KvCache; numbers: number[] }[] = [];
    for (let round = 0; round < 300; round++) {
      if (living.length < 2 || random.nextInteger(6) === 0)
        living.push({ cache: new KvCache(sizes, runtime), numbers: [] });
      if (random.nextInteger(4) === 0) {
        const { cache, numbers } = living[random.nextInteger(living.length)]!;
        living.push({ cache: cache.fork(), numbers: [...numbers] });
      }
      for (const { cache, numbers } of living) {
        const added = Array.from({ length: random.nextInteger(5) }, () => random.nextInteger(1000));
        const picks = added.map((_, index) => index).filter(() => random.nextInteger(3) > 0);
        cache.append(rows(...added), picks);
        numbers.push(...picks.map((pick) => added[pick]!));
        const kept = random.nextInteger(8) === 0 ? random.nextInteger(numbers.length + 1) : numbers.length;
        cache.truncate(kept);
        numbers.length = kept;
      }
      const asking = living.filter(() => random.nextInteger(2) === 0).map(({ cache }) => cache);
      if (asking.length > 0) gatherCaches(asking);
      if (random.nextInteger(8) === 0)
        living.splice(random.nextInteger(living.length), 1)[0]!.cache.release();
      for (const { cache } of living.slice(9)) cache.release();
      living = living.slice(0, 9);
      for (const { cache, numbers } of living) expect(read(cache)).toEqual(numbers);
    }
  });
});

describe('KvCache', () => {
  it('forks without copying, until there are rows behind the common ones', () => {
    const original = fill(1, 2);
    const { pool } = original;
    const [first, second] = [original.fork(), original.fork()] as const;
    expect([original.pool, first.pool, second.fork().pool]).toEqual([pool, pool, pool]);
    first.appendAll(rows(5), 1);
    expect(first.pool).not.toBe(pool);
    expect([original, first, second].map(read)).toEqual([
      [1, 2],
      [1, 2, 5],
      [1, 2],
    ]);
  });

  it('forks out of a pool of several, and goes on in it no more', () => {
    const caches = [fill(1, 2), fill(3, 4)] as const;
    const pool = gatherCaches(caches);
    const fork = caches[1].fork();
    expect(pool.owners[1]).toBeUndefined();
    expect(fork.pool).toBe(caches[1].pool);
    caches[1].appendAll(rows(9), 1);
    fork.appendAll(rows(5), 1);
    expect([...caches, fork].map(read)).toEqual([
      [1, 2],
      [3, 4, 9],
      [3, 4, 5],
    ]);
  });

  it('changes nothing under a fork: not by forgetting, moving or going', () => {
    const original = fill(1, 2, 3);
    const forks = [original.fork(), original.fork()] as const;
    original.truncate(1);
    original.appendAll(rows(8, 9), 2);
    expect(forks.map(read)).toEqual([
      [1, 2, 3],
      [1, 2, 3],
    ]);
    const third = original.fork();
    const other = fill(7);
    gatherCaches([original, other]);
    expect(read(third)).toEqual([1, 8, 9]);
    const fourth = original.fork();
    original.release();
    gatherCaches([other, fill(5, 5, 5, 5)]);
    expect(read(fourth)).toEqual([1, 8, 9]);
  });

  it('brings forks into a pool with one copy, and leaves the original where it is', () => {
    const original = fill(1, 2);
    const forks = [original.fork(), original.fork(), original.fork()];
    const pool = gatherCaches(forks);
    expect(pool).not.toBe(original.pool);
    expect(pool.lanes).toBe(3);
    forks.forEach((fork, index) => {
      fork.appendAll(rows(index), 1);
    });
    expect([original, ...forks].map(read)).toEqual([
      [1, 2],
      [1, 2, 0],
      [1, 2, 1],
      [1, 2, 2],
    ]);
  });

  it('leaves nothing that is no number to the next one in its lane', () => {
    const [broken, ...stay] = [fill(1, NaN, Infinity), fill(2), fill(3)] as const;
    const pool = gatherCaches([broken, ...stay]);
    broken.release();
    const newcomer = fill(7);
    expect(gatherCaches([...stay, newcomer])).toBe(pool);
    for (const slot of [0, 1]) {
      const seen = hostDataOf(pool.view(slot, 4).buffer);
      expect(seen.every(Number.isFinite)).toBe(true);
    }
    expect(read(newcomer)).toEqual([7]);
  });

  it('moves into a pool of its own where its rows alone are wanted', () => {
    const caches = [fill(1, 2), fill(3)];
    const pool = gatherCaches(caches);
    expect([...hostDataOf(caches[1]!.view(0).buffer).slice(2)]).toEqual([3, 3]);
    expect(caches[1]!.pool).not.toBe(pool);
    expect(pool.owners[1]).toBeUndefined();
    expect(read(caches[0]!)).toEqual([1, 2]);
  });

  it('grows behind its neighbours', () => {
    const caches = [fill(1), fill(2)];
    const pool = gatherCaches(caches);
    const numbers = Array.from({ length: 700 }, (_, index) => index);
    caches[0]!.appendAll(rows(...numbers), numbers.length);
    expect(read(caches[0]!)).toEqual([1, ...numbers]);
    expect(read(caches[1]!)).toEqual([2]);
    expect(pool.bytes).toBeGreaterThanOrEqual(2 * 2 * 4 * 2 * 701);
    expect(new CachePool(runtime, sizes, 4).lanes).toBe(4);
  });
});
