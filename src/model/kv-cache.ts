/**
 * Keys and values of one sequence's verified positions: a lane of a pool. Programs read the pool in place and return
 * only new rows; appending some of those rows is all that remains of "compacting the cache" after a tree was verified.
 * A cache begins in a pool of its own and may be moved beside others, so that one pass serves them all.
 */
import type { TensorValue } from '../runtime/program.js';
import type { CacheSizes, PooledCache } from './cache-pool.js';
import { CachePool } from './cache-pool.js';

export class KvCache implements PooledCache {
  /** Verified positions. */
  private filled = 0;
  private place: { readonly pool: CachePool; readonly lane: number };

  constructor(readonly sizes: CacheSizes) {
    this.place = { pool: new CachePool(sizes, 1), lane: 0 };
    this.pool.owners[0] = this;
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
  view(slot: number, rows = this.pastLength): TensorValue {
    if (this.pool.lanes > 1) this.moveTo(new CachePool(this.sizes, 1, this.filled), 0);
    return this.pool.view(slot, rows);
  }

  /** Appends the picked rows, in the given order. */
  append(
    rows: Float32Array, // [slot, position, head, size]
    rowCount: number,
    picks: ArrayLike<number>,
  ): void {
    this.pool.reserve(this.filled + picks.length);
    this.pool.write(this.lane, this.pastLength, rows, rowCount, picks);
    this.filled += picks.length;
  }

  appendAll(rows: Float32Array /* [slot, position, head, size] */, rowCount: number): void {
    this.append(
      rows,
      rowCount,
      Array.from({ length: rowCount }, (_, row) => row),
    );
  }

  /** Forgets every position from `length` on. */
  truncate(length: number): void {
    this.filled = Math.min(this.filled, length);
  }

  /** A cache with the same rows, for a continuation that must not disturb this one. */
  clone(): KvCache {
    const copy = new KvCache(this.sizes);
    copy.pool.reserve(this.filled);
    this.pool.copyLane(this.lane, this.pastLength, copy.pool, copy.lane);
    copy.filled = this.filled;
    return copy;
  }

  moveTo(pool: CachePool, lane: number): void {
    pool.reserve(this.filled);
    this.pool.copyLane(this.lane, this.pastLength, pool, lane);
    this.release();
    pool.owners[lane] = this;
    this.place = { pool, lane };
  }

  /** Gives its lane to whoever comes next. Nothing may be done with the cache any more. */
  release(): void {
    if (this.pool.owners[this.lane] === this) this.pool.owners[this.lane] = undefined;
  }
}
