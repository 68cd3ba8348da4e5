/**
 * A beginning that a cache and its forks have in common: rows that nobody changes any more, in a pool of their own, read
 * in place by all of them. What each has behind it lies in a lane of its own.
 *
 * Passes over sequences of one shared prefix read it once for all of them, and cannot take in sequences of another shared prefix, or of
 * none, whose lanes are longer. That pays where at least two forks are living and read at least 32 rows of it; any other
 * fork copies what it reads as soon as it has rows of its own or joins others, and shares its passes with everybody.
 */
import type { CachePool } from './cache-pool.js';

const minForks = 2;
const minRows = 32;

export class SharedPrefix {
  private readonly readers = new Set<object>();

  constructor(
    /** Of one lane. */
    readonly pool: CachePool,
    private readonly original: object,
  ) {
    this.join(original);
  }

  join(reader: object): void {
    this.readers.add(reader);
  }

  /** True for the last reader, which then owns the pool. */
  leave(reader: object): boolean {
    return this.readers.delete(reader) && this.readers.size === 0;
  }

  /** Who reads it alone may change it. */
  isOnlyFor(reader: object): boolean {
    return this.readers.size === 1 && this.readers.has(reader);
  }

  /** Whether reading so many rows of it in place is better than copying them. */
  isWorthKeeping(rows: number): boolean {
    const forks = this.readers.size - (this.readers.has(this.original) ? 1 : 0);
    return forks >= minForks && rows >= minRows;
  }
}
