/**
 * Keys and values of one sequence's verified positions: a lane of a pool. Programs read the pool in place and return
 * only new rows; appending some of those rows is all that remains of "compacting the cache" after a tree was verified.
 * A cache begins in a pool of its own and may be moved beside others, so that one pass serves them all.
 *
 * With its first fork the rows of a cache become a shared prefix, which it and its forks read in place. Each has a lane for what
 * comes behind, as soon as there is something, or, where keeping the shared prefix does not pay, for everything. Forking copies
 * nothing, except from a lane beside others or behind a shared prefix.
 */
import type { ResidentValue, Runtime } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { CacheSizes, LaneContent, LanePiece, PooledCache } from './cache-pool.js';
import { CachePool, roomFor } from './cache-pool.js';
import { SharedPrefix } from './shared-prefix.js';

interface Place {
  readonly pool: CachePool;
  readonly lane: number;
}

export class KvCache implements PooledCache {
  /** Verified positions. */
  private filled = 0;
  /** Its lane; none while all its rows are the shared prefix's. */
  private place: Place | undefined;
  private common: SharedPrefix | undefined;
  /** How many of its first positions are the shared prefix's. */
  private commonLength = 0;

  constructor(
    readonly sizes: CacheSizes,
    runtime: Runtime,
    original?: KvCache,
  ) {
    if (original === undefined) {
      this.settleIn(new CachePool(runtime, sizes, 1), 0);
      return;
    }
    this.common = original.becomePrefix();
    this.common.join(this);
    this.filled = this.commonLength = original.filled;
  }

  get pool(): CachePool {
    return this.place?.pool ?? this.common!.pool;
  }

  get lane(): number {
    return this.place?.lane ?? 0;
  }

  get length(): number {
    return this.filled;
  }

  /** Rows a program sees: the verified positions and the dummy. */
  get pastLength(): number {
    return this.filled + 1;
  }

  get content(): LaneContent | undefined {
    if (this.place === undefined) return undefined;
    return this.common === undefined ? 'whole' : 'rest';
  }

  /** What its first `prefixLength` positions are read from, if not from its lane. */
  get prefix(): SharedPrefix | undefined {
    return this.common;
  }

  get prefixLength(): number {
    return this.commonLength;
  }

  /** The shared prefix, where it shall be read in place together with other forks. */
  get keptPrefix(): SharedPrefix | undefined {
    return this.common?.isWorthKeeping(this.commonLength) === true ? this.common : undefined;
  }

  count(content: LaneContent): number {
    return content === 'whole' ? this.filled : this.filled - this.commonLength;
  }

  /**
   * The first rows of a slot (2 * layer for keys, 2 * layer + 1 for values), read in place; all unless told. A cache
   * that lies beside others or behind a shared prefix moves into a pool of its own for that.
   */
  view(slot: number, rows = this.pastLength): ResidentValue {
    if (this.pool.lanes > 1 || this.content === 'rest') this.settle('whole');
    return this.pool.view(slot, rows);
  }

  /** Appends the picked rows, in the given order. */
  append(
    rows: RowBuffer, // [slot, position, head, size]
    picks: ArrayLike<number>,
  ): void {
    const { pool, lane } = this.place ?? this.takePlace();
    const start = this.count(this.content!);
    pool.reserve(start + picks.length);
    pool.write(lane, start + 1, rows, picks);
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
    this.filled = Math.min(this.filled, length);
    this.commonLength = Math.min(this.commonLength, length);
  }

  /** A cache with the same rows, for a continuation that must not disturb this one. */
  fork(): KvCache {
    return new KvCache(this.sizes, this.pool.runtime, this);
  }

  moveTo(pool: CachePool, lane: number, content: LaneContent): void {
    pool.reserve(this.count(content));
    pool.takeLane(lane, this.piecesOf(content));
    this.leaveLane();
    if (content === 'whole') this.leavePrefix();
    this.settleIn(pool, lane);
  }

  /** Frees its lane for other caches, and the memory of a pool that it used last. The cache cannot be used afterwards. */
  release(): void {
    this.leaveLane();
    this.leavePrefix();
  }

  /** Into a pool of its own, with room to grow. */
  private settle(content: LaneContent): Place {
    const room = roomFor(content, this.count(content));
    this.moveTo(new CachePool(this.pool.runtime, this.sizes, 1, room), 0, content);
    return this.place!;
  }

  private settleIn(pool: CachePool, lane: number): Place {
    pool.owners[lane] = this;
    return (this.place = { pool, lane });
  }

  /** A lane for the first row of its own. */
  private takePlace(): Place {
    const { pool } = this;
    if (this.common?.isOnlyFor(this) !== true)
      return this.settle(this.keptPrefix === undefined ? 'whole' : 'rest');
    this.common = undefined;
    this.commonLength = 0;
    return this.settleIn(pool, 0);
  }

  /** What all its rows are read from then, by itself too. */
  private becomePrefix(): SharedPrefix {
    if (this.common === undefined || this.count('rest') > 0) {
      if (this.pool.lanes > 1 || this.common !== undefined) this.settle('whole');
      this.common = new SharedPrefix(this.pool, this);
      this.commonLength = this.filled;
    }
    if (this.place?.pool === this.common.pool) this.place.pool.owners[this.place.lane] = undefined;
    else this.leaveLane();
    this.place = undefined;
    return this.common;
  }

  private leaveLane(): void {
    const { place } = this;
    if (place?.pool.owners[place.lane] !== this) return;
    place.pool.owners[place.lane] = undefined;
    if (place.pool.owners.every((owner) => owner === undefined)) place.pool.free();
  }

  private leavePrefix(): void {
    if (this.common?.leave(this) === true) this.common.pool.free();
    this.common = undefined;
    this.commonLength = 0;
  }

  private piecesOf(content: LaneContent): readonly LanePiece[] {
    const { place, common, commonLength } = this;
    if (common === undefined) return [{ ...place!, start: 0, count: this.pastLength }];
    const rest = this.count('rest');
    if (content === 'rest') return place === undefined ? [] : [{ ...place, start: 0, count: rest + 1 }];
    const beginning = { pool: common.pool, lane: 0, start: 0, count: commonLength + 1 };
    return place === undefined ? [beginning] : [beginning, { ...place, start: 1, count: rest }];
  }
}
