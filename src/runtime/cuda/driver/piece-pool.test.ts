import { describe, expect, it } from 'vitest';
import { PiecePool } from './device-memory.js';

/** Memory that is counted, of which there is so much. */
function createMemory(totalBytes: number, room = totalBytes) {
  const taken = new Map<bigint, number>();
  const asked: number[] = [];
  let next = 4096n;
  const device = {
    totalBytes,
    allocate(bytes: number): bigint {
      asked.push(bytes);
      if ([...taken.values()].reduce((sum, each) => sum + each, bytes) > room) throw new Error('no room');
      const address = next;
      next += BigInt(bytes);
      taken.set(address, bytes);
      return address;
    },
    free(address: bigint): void {
      if (!taken.delete(address)) throw new Error('no allocation begins there');
    },
  };
  return { device, taken, asked };
}

describe('pieces of memory', () => {
  it('are given out again', () => {
    const { device, asked } = createMemory(2 ** 30);
    const pool = new PiecePool(device);
    const first = pool.take(512);
    pool.giveBack(first);
    expect(pool.take(512)).toBe(first);
    expect(asked).toEqual([512]);
  });

  it('come in the order of their addresses, so that equal requests get equal ones', () => {
    const pool = new PiecePool(createMemory(2 ** 30).device);
    const request = (order: readonly number[]): bigint[] => {
      const pieces = order.map(() => pool.take(512));
      for (const place of order) pool.giveBack(pieces[place]!);
      return pieces;
    };
    const first = request([0, 1, 2, 3, 4]);
    expect(request([3, 1, 4, 2, 0])).toEqual(first);
    expect(request([4, 3, 2, 1, 0])).toEqual(first);
  });

  it('are all freed at the end, those in use too', () => {
    const { device, taken } = createMemory(2 ** 30);
    const pool = new PiecePool(device);
    const pieces = [512, 512, 512, 1024].map((size) => pool.take(size));
    pool.giveBack(pieces[0]!);
    pool.dispose();
    expect(taken.size).toBe(0);
    pool.giveBack(pieces[3]!);
  });

  it('are allocated together, the more the more there are of their size', () => {
    const { device, asked } = createMemory(2 ** 30);
    const pool = new PiecePool(device);
    const pieces = Array.from({ length: 40 }, () => pool.take(1024));
    expect(new Set(pieces).size).toBe(40);
    expect(asked.map((bytes) => bytes / 1024)).toEqual([1, 1, 2, 4, 8, 16, 16]);
    pool.take(512);
    expect(asked.at(-1)).toBe(512);
  });

  it('are no more together than a small device bears', () => {
    const { device, asked } = createMemory(2 ** 20);
    const pool = new PiecePool(device);
    for (let piece = 0; piece < 8; piece++) pool.take(2048);
    expect(Math.max(...asked)).toBe(4096);
  });

  it('are freed where nobody has one of those that were allocated together', () => {
    const { device, taken } = createMemory(2 ** 30);
    const pool = new PiecePool(device);
    const [a, b, c] = [pool.take(512), pool.take(512), pool.take(512)]; // and one besides c
    pool.giveBack(a);
    pool.giveBack(c);
    expect(pool.release()).toBe(true);
    expect([...taken.values()]).toEqual([512]);
    pool.giveBack(b);
    expect(pool.release()).toBe(true);
    expect(taken.size).toBe(0);
    expect(pool.release()).toBe(false);
    pool.take(512);
    expect(taken.size).toBe(1);
  });

  it('make room for others where there is none, and are refused where that does not help', () => {
    const { device } = createMemory(2 ** 30, 4096);
    const pool = new PiecePool(device);
    const [first, second] = [pool.take(1024), pool.take(1024)];
    pool.giveBack(first);
    pool.giveBack(second);
    pool.take(4096);
    expect(() => pool.take(512)).toThrow('no room');
  });

  it('are single where several have no room', () => {
    const { device } = createMemory(2 ** 30, 5 * 1024);
    const pool = new PiecePool(device);
    for (let piece = 0; piece < 5; piece++) pool.take(1024);
    expect(() => pool.take(1024)).toThrow('no room');
  });
});
