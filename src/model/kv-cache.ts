/**
 * Keys and values of one sequence's verified positions: a lane of a pool. Programs read the pool in place and return
 * only new rows; appending some of those rows is all that remains of "compacting the cache" after a tree was verified.
 * A cache begins in a pool of its own and may be moved beside others, so that one pass serves them all.
 *
 * A fork reads the lane of the cache that it comes from, and copies nothing before it has rows of its own or joins
 * others. What it reads is never changed under it: a cache that is about to change or leave rows which its forks read
 * sends them away first.
 */
import type { ResidentValue, Runtime } from '../runtime/program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { CacheSizes, PooledCache } from './cache-pool.js';
import { CachePool } from './cache-pool.js';

interface Place {
  readonly pool: CachePool;
  readonly lane: number;
}

export class KvCache implements PooledCache {
  /** Verified positions. */
  private filled: number;
  private place: Place;
  /** Forks that read this one's lane. */
  private readonly forks = new Set<KvCache>();
  /** Whose lane it reads, if not its own. */
  private origin: KvCache | undefined;

  constructor(
    readonly sizes: CacheSizes,
    runtime: Runtime,
    original?: KvCache,
  ) {
    this.place = original?.place ?? { pool: new CachePool(runtime, sizes, 1), lane: 0 };
    this.filled = original?.filled ?? 0;
    this.origin = original?.origin ?? original;
    if (this.origin === undefined) this.pool.owners[0] = this;
    else this.origin.forks.add(this);
  }

  get pool(): CachePool {
    return this.place.pool;
  }

  get lane(): number {
    return this.place.lane;
  }

  get length(): number {
    return this.filled;
  }

  /** Rows a program sees: the verified positions and the dummy. */
  get pastLength(): number {
    return this.filled + 1;
  }

  /**
   * The first rows of a slot (2 * layer for keys, 2 * layer + 1 for values), read in place; all unless told. A cache
   * that lies beside others moves into a pool of its own for that.
   */
  view(slot: number, rows = this.pastLength): ResidentValue {
    if (this.pool.lanes > 1) this.settle();
    return this.pool.view(slot, rows);
  }

  /** Appends the picked rows, in the given order. */
  append(
    rows: RowBuffer, // [slot, position, head, size]
    picks: ArrayLike<number>,
  ): void {
    if (this.origin !== undefined) this.settle();
    this.pool.reserve(this.filled + picks.length);
    this.pool.write(this.lane, this.pastLength, rows, picks);
    this.filled += picks.length;
  }

  appendAll(rows: RowBuffer /* [slot, position, head, size] */, rowCount: number): void {
    this.append(
      rows,
      Array.from({ length: rowCount }, (_, row) => row),
    );
  }

  /** Forgets every position from `length` on. */
  truncate(length: number): void {
    this.sendAway((fork) => fork.filled > length);
    this.filled = Math.min(this.filled, length);
  }

  /** A cache with the same rows, for a continuation that must not disturb this one. */
  fork(): KvCache {
    return new KvCache(this.sizes, this.pool.runtime, this);
  }

  moveTo(pool: CachePool, lane: number): void {
    pool.reserve(this.filled);
    pool.takeLane(lane, this.pool, this.lane, this.pastLength);
    this.release();
    pool.owners[lane] = this;
    this.place = { pool, lane };
  }

  /** Gives its lane to whoever comes next. Nothing may be done with the cache any more. */
  release(): void {
    this.origin?.forks.delete(this);
    this.origin = undefined;
    this.sendAway(() => true);
    if (this.pool.owners[this.lane] === this) this.pool.owners[this.lane] = undefined;
  }

  /** Into a pool of its own, with room to grow. */
  private settle(): void {
    this.moveTo(new CachePool(this.pool.runtime, this.sizes, 1, 2 * this.filled), 0);
  }

  private sendAway(isConcerned: (fork: KvCache) => boolean): void {
    for (const fork of [...this.forks]) if (isConcerned(fork)) fork.settle();
  }
}
