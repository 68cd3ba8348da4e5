/**
 * Keys and values of one sequence's verified positions: a lane of a pool. Programs read the pool in place and return
 * only new rows; after verification, the accepted rows are appended. A cache starts in its own pool and may move next
 * to others, so that one pass serves them all.
 * With the first fork its rows become a shared prefix, read in place by all forks. Each fork has a lane for its own
 * rows, or for all rows if sharing does not pay.
 */
import type { ResidentValue, Runtime } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { CacheSizes, LaneContent, LanePiece, PooledCache } from './cache-pool.js';
import { CachePool, roomFor, SharedPrefix } from './cache-pool.js';
import type { LayerState } from './layer-state.js';

interface Place {
  readonly pool: CachePool;
  readonly lane: number;
}

export class KvCache implements PooledCache, LayerState {
  private filled = 0;
  /** None while all its rows are in the shared prefix. */
  private place: Place | undefined;
  private common: SharedPrefix | undefined;
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

  /** With the dummy. */
  get pastLength(): number {
    return this.filled + 1;
  }

  get content(): LaneContent | undefined {
    if (this.place === undefined) return undefined;
    return this.common === undefined ? 'whole' : 'rest';
  }

  get prefix(): SharedPrefix | undefined {
    return this.common;
  }

  get prefixLength(): number {
    return this.commonLength;
  }

  /** Undefined if it should be copied. */
  get keptPrefix(): SharedPrefix | undefined {
    return this.common?.isWorthKeeping(this.commonLength) === true ? this.common : undefined;
  }

  count(content: LaneContent): number {
    return content === 'whole' ? this.filled : this.filled - this.commonLength;
  }

  /**
   * Slot 2 * layer for keys, 2 * layer + 1 for values, read in place; default all rows. Moves the cache into a pool
   * of its own if needed.
   */
  view(slot: number, rows = this.pastLength): ResidentValue {
    if (this.pool.lanes > 1 || this.content === 'rest') this.settle('whole');
    return this.pool.view(slot, rows);
  }

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

  truncate(length: number): void {
    this.filled = Math.min(this.filled, length);
    this.commonLength = Math.min(this.commonLength, length);
  }

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

  /** Frees its lane, and the pool with its last lane. The cache cannot be used afterwards. */
  release(): void {
    this.leaveLane();
    this.leavePrefix();
  }

  /** Moves to its own pool, with room to grow. */
  private settle(content: LaneContent): Place {
    const room = roomFor(content, this.count(content));
    this.moveTo(new CachePool(this.pool.runtime, this.sizes, 1, room), 0, content);
    return this.place!;
  }

  private settleIn(pool: CachePool, lane: number): Place {
    pool.owners[lane] = this;
    return (this.place = { pool, lane });
  }

  private takePlace(): Place {
    const { pool } = this;
    if (this.common?.isOnlyFor(this) !== true)
      return this.settle(this.keptPrefix === undefined ? 'whole' : 'rest');
    this.common = undefined;
    this.commonLength = 0;
    return this.settleIn(pool, 0);
  }

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
