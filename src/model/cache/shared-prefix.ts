/**
 * Rows that a cache and its forks read in place, in a pool of their own.
 * Passes over forks of one prefix read it once, but cannot include other sequences. That pays if at least two forks
 * read at least 32 rows of it. Other forks copy the rows when they get rows of their own or join others.
 */
import type { CachePool } from './cache-pool.js';

const minForks = 2;
const minRows = 32;

export class SharedPrefix {
  private readonly readers = new Set<object>();

  constructor(
    /** With one lane. */
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

  /** A single reader may change it. */
  isOnlyFor(reader: object): boolean {
    return this.readers.size === 1 && this.readers.has(reader);
  }

  isWorthKeeping(rows: number): boolean {
    const forks = this.readers.size - (this.readers.has(this.original) ? 1 : 0);
    return forks >= minForks && rows >= minRows;
  }
}
