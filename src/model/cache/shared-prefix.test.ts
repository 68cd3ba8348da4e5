import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import { hostDataOf, HostRows } from '../../runtime/row-buffer.js';
import type { CachePool, SharedPrefix } from './cache-pool.js';
import { gatherCaches } from './cache-pool.js';
import { KvCache } from './kv-cache.js';

const runtime = createInterpreter();
const sizes = { layerCount: 1, keyValueHeadCount: 1, headSize: 2 };
const bytesPerPosition = 2 * 2 * Float32Array.BYTES_PER_ELEMENT;

/** Keys and values that carry a number. [slot, row, head, size] */
function rows(numbers: readonly number[]): HostRows {
  const keys = numbers.flatMap((number) => [number, number]);
  return new HostRows(Float32Array.from([...keys, ...keys.map((value) => -value)]), sizes.headSize);
}

const append = (cache: KvCache, numbers: readonly number[]): void => {
  cache.appendAll(rows(numbers), numbers.length);
};

const countUp = (length: number, from = 0): number[] => Array.from({ length }, (_, index) => from + index);

function fill(numbers: readonly number[]): KvCache {
  const cache = new KvCache(sizes, runtime);
  append(cache, numbers);
  return cache;
}

/** As a program sees the cache, in its shared prefix and in its lane, without the dummies. */
function read(cache: KvCache): number[] {
  const { pool, lane, prefix, prefixLength, content } = cache;
  if (content === undefined) return readLane(pool, 0, cache.length);
  const before = prefix === undefined ? [] : readLane(prefix.pool, 0, prefixLength);
  return [...before, ...readLane(pool, lane, cache.count(content))];
}

function readLane(pool: CachePool, lane: number, length: number): number[] {
  const keys = hostDataOf(pool.view(0, length + 1).buffer);
  return Array.from(
    { length },
    (_, position) => keys[((position + 1) * pool.lanes + lane) * sizes.headSize]!,
  );
}

const poolsOf = (caches: readonly KvCache[]): CachePool[] => [
  ...new Set(caches.flatMap(({ pool, prefix }) => (prefix === undefined ? [pool] : [pool, prefix.pool]))),
];

/** What a step of the engine does: forks that keep a shared prefix go together, all others too. */
function gatherByPrefix(caches: readonly KvCache[]): void {
  const groups = new Map<SharedPrefix | undefined, KvCache[]>();
  for (const cache of caches) groups.set(cache.keptPrefix, [...(groups.get(cache.keptPrefix) ?? []), cache]);
  for (const [prefix, group] of groups) gatherCaches(group, prefix === undefined ? 'whole' : 'rest');
}

describe('forks of a cache', () => {
  it('hold one prefix and short lanes', () => {
    const original = fill(countUp(512));
    const prefixBytes = original.pool.bytes;
    const forks = countUp(8).map(() => original.fork());
    expect(poolsOf([original, ...forks])).toEqual([original.pool]);
    gatherByPrefix(forks);
    forks.forEach((fork, index) => {
      append(fork, countUp(30, 1000 * index));
    });
    const pools = poolsOf([original, ...forks]);
    expect(pools).toHaveLength(2);
    const bytes = pools.reduce((sum, pool) => sum + pool.bytes, 0);
    expect(bytes).toBe(prefixBytes + 8 * (32 + 1) * bytesPerPosition);
    forks.forEach((fork, index) => {
      expect(read(fork)).toEqual([...countUp(512), ...countUp(30, 1000 * index)]);
    });
  });

  it('copy the prefix where one of them lives, or where it is short', () => {
    const original = fill(countUp(40));
    const [only, gone] = [original.fork(), original.fork()];
    gone.release();
    expect(only.keptPrefix).toBeUndefined();
    append(only, [7]);
    expect([only.content, only.length]).toEqual(['whole', 41]);
    const short = fill(countUp(31));
    const forks = [short.fork(), short.fork()] as const;
    append(forks[0], [7]);
    gatherByPrefix(forks);
    expect(forks.map(({ content }) => content)).toEqual(['whole', 'whole']);
    expect([only, ...forks].map((fork) => read(fork).at(-1))).toEqual([7, 7, 30]);
  });

  it('leave the prefix to the last of them, who writes behind it', () => {
    const original = fill(countUp(40));
    const { pool } = original;
    const [gone, last] = [original.fork(), original.fork()];
    original.release();
    gone.release();
    append(last, [7]);
    expect(last.pool).toBe(pool);
    expect([last.prefix, pool.owners[0]]).toEqual([undefined, last]);
    expect(read(last)).toEqual([...countUp(40), 7]);
  });

  it('see nothing of what the original does: forget, append, go', () => {
    const original = fill(countUp(50));
    const forks = countUp(3).map(() => original.fork());
    original.truncate(45);
    append(original, [1, 2]);
    expect(original.content).toBe('rest');
    expect(read(original)).toEqual([...countUp(45), 1, 2]);
    gatherByPrefix([original, ...forks]);
    append(forks[0]!, [3]);
    original.truncate(10);
    append(original, [4]);
    expect(read(original)).toEqual([...countUp(10), 4]);
    original.release();
    gatherByPrefix(forks);
    append(forks[1]!, [5]);
    forks[1]!.truncate(20);
    append(forks[1]!, [6]);
    expect(forks.map(read)).toEqual([[...countUp(50), 3], [...countUp(20), 6], countUp(50)]);
  });

  it('fork again: at the end of the prefix without a copy, behind it with one', () => {
    const original = fill(countUp(40));
    const forks = countUp(3).map(() => original.fork());
    append(forks[0]!, [7]);
    const again = forks[1]!.fork();
    expect(again.prefix).toBe(original.prefix);
    const further = forks[0]!.fork();
    expect(further.prefix).not.toBe(original.prefix);
    append(further, [8]);
    append(again, [9]);
    expect([original, ...forks, again, further].map((cache) => read(cache).slice(40))).toEqual([
      [],
      [7],
      [],
      [],
      [9],
      [7, 8],
    ]);
  });

  it('lie in one piece where all their rows are wanted', () => {
    const original = fill(countUp(40));
    const forks = countUp(2).map(() => original.fork());
    append(forks[0]!, [7, 8]);
    const keys = hostDataOf(forks[0]!.view(0).buffer);
    expect([...keys].filter((_, at) => at % 2 === 0).slice(1)).toEqual([...countUp(40), 7, 8]);
    expect(forks[1]!.view(0).buffer).toEqual(original.view(0).buffer);
  });

  it('keep every row through random forks, appends, forgettings, moves and departures', () => {
    const random = createRandom(5);
    const living: { cache: KvCache; numbers: number[] }[] = [];
    let kept = 0;
    for (let round = 0; round < 400; round++) {
      if (living.length < 2 || random.nextInteger(12) === 0) {
        const numbers = countUp(20 + random.nextInteger(60), 1000 * round);
        living.push({ cache: fill(numbers), numbers });
      }
      if (random.nextInteger(2) === 0) {
        const { cache, numbers } = living[random.nextInteger(living.length)]!;
        for (let count = 0; count < 3; count++) living.push({ cache: cache.fork(), numbers: [...numbers] });
      }
      for (const { cache, numbers } of living) {
        const added = countUp(random.nextInteger(4), random.nextInteger(1000));
        if (added.length > 0) append(cache, added);
        numbers.push(...added);
        const length = random.nextInteger(10) === 0 ? random.nextInteger(numbers.length + 1) : numbers.length;
        cache.truncate(length);
        numbers.length = length;
      }
      const asking = living.filter(() => random.nextInteger(3) > 0).map(({ cache }) => cache);
      if (asking.length > 0) gatherByPrefix(asking);
      if (random.nextInteger(10) === 0) living[random.nextInteger(living.length)]!.cache.view(0);
      while (living.length > 12) living.splice(random.nextInteger(living.length), 1)[0]!.cache.release();
      for (const { cache, numbers } of living) expect(read(cache)).toEqual(numbers);
      kept += living.filter(({ cache }) => cache.content === 'rest').length;
    }
    expect(kept).toBeGreaterThan(400);
  });
});
