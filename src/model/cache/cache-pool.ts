/**
 * Where keys and values of several sequences lie: one buffer of rows [slot, position, lane], a slot being the keys or the
 * values of a layer (layer 0 keys, layer 0 values, layer 1 keys, ...) and a row all heads of one position. Positions come
 * before lanes, so the filled part of a slot is one piece that a program reads in place, and to attention a pool of n
 * lanes looks like one sequence with n times the heads. Behind the end of a shorter lane masks block what lies there,
 * which has to be numbers all the same: a weight of 0 times NaN is NaN. So whoever takes a lane over clears it.
 *
 * Row 0 of every lane is a dummy that every mask blocks: the past is never empty, which ONNX Runtime's FusedMatMul
 * cannot bear.
 */
import type { ResidentValue, Runtime } from '../../runtime/program.js';
import { resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

export interface CacheSizes {
  readonly layerCount: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
}

/** All rows of a cache, or those behind its shared prefix. A pool has lanes of one kind, and of one shared prefix. */
export type LaneContent = 'whole' | 'rest';

/** What reads a lane of a pool and can be moved to another. */
export interface PooledCache {
  readonly pool: CachePool;
  readonly lane: number;
  /** What lies in its lane; undefined while it has none. */
  readonly content: LaneContent | undefined;
  /** Verified positions of such a content. */
  count(content: LaneContent): number;
  moveTo(pool: CachePool, lane: number, content: LaneContent): void;
}

/** Rows of a lane, the dummy being row 0. */
export interface LanePiece {
  readonly pool: CachePool;
  readonly lane: number;
  readonly start: number;
  readonly count: number;
}

const initialPositions: Readonly<Record<LaneContent, number>> = { whole: 256, rest: 32 };

/** Positions that a pool begins with, so that lanes can grow for a while. */
export const roomFor = (content: LaneContent, positions: number): number =>
  Math.max(initialPositions[content], 2 * positions);

export class CachePool {
  /** Whose lane it is; undefined where nobody's. */
  readonly owners: (PooledCache | undefined)[];
  /** [lane] positions that somebody has written to. */
  private readonly written: number[];
  private readonly slotCount: number;
  private readonly rowSize: number;
  private capacity = 0;
  private storage: RowBuffer;

  constructor(
    readonly runtime: Runtime,
    readonly sizes: CacheSizes,
    lanes: number,
    positions = roomFor('whole', 0),
  ) {
    this.slotCount = 2 * sizes.layerCount;
    this.rowSize = sizes.keyValueHeadCount * sizes.headSize;
    this.owners = new Array<PooledCache | undefined>(lanes).fill(undefined);
    this.written = new Array<number>(lanes).fill(0);
    this.storage = runtime.allocate(0, this.rowSize);
    this.reserve(positions);
  }

  get lanes(): number {
    return this.owners.length;
  }

  get bytes(): number {
    return 4 * this.storage.rowCount * this.rowSize;
  }

  /** The first positions of a slot, all lanes side by side, read in place. [position, lane * head, size] */
  view(slot: number, positions: number): ResidentValue {
    const { keyValueHeadCount, headSize } = this.sizes;
    const rows = this.storage.rows(this.rowAt(slot, 0, 0), positions * this.lanes);
    return resident(rows, [positions, this.lanes * keyValueHeadCount, headSize]);
  }

  /** Writes picked rows into a lane from position `start` on, in the given order. */
  write(
    lane: number,
    start: number,
    rows: RowBuffer, // [slot, row, head, size]
    picks: ArrayLike<number>,
  ): void {
    const source = rows.withWidth(this.rowSize);
    const perSlot = source.rowCount / this.slotCount;
    this.copy(source, picks.length, {
      from: (slot, index) => slot * perSlot + picks[index]!,
      to: (slot, index) => this.rowAt(slot, start + index, lane),
    });
    this.written[lane] = Math.max(this.written[lane]!, start + picks.length);
  }

  /** Copies pieces of other pools' lanes to a lane of this one, one after the other, and clears what it held behind. */
  takeLane(lane: number, pieces: readonly LanePiece[]): void {
    let positions = 0;
    for (const { pool, lane: fromLane, start, count } of pieces) {
      const at = positions;
      this.copy(pool.storage, count, {
        from: (slot, index) => pool.rowAt(slot, start + index, fromLane),
        to: (slot, index) => this.rowAt(slot, at + index, lane),
      });
      positions += count;
    }
    const old = this.written[lane]! - positions;
    if (old > 0) {
      const zeros = this.runtime.allocate(1, this.rowSize);
      this.copy(zeros, old, {
        from: () => 0,
        to: (slot, index) => this.rowAt(slot, positions + index, lane),
      });
      zeros.free();
    }
    this.written[lane] = positions;
  }

  /** Room for this many positions, the dummy not counted. */
  reserve(positions: number): void {
    if (positions <= this.capacity) return;
    const [old, oldRows] = [this.storage, this.storage.rowCount / this.slotCount];
    this.capacity = Math.max(positions, 2 * this.capacity);
    this.storage = this.runtime.allocate(this.slotCount * (this.capacity + 1) * this.lanes, this.rowSize);
    if (oldRows === 0) return;
    for (let slot = 0; slot < this.slotCount; slot++)
      this.storage.write(old.rows(slot * oldRows, oldRows), this.rowAt(slot, 0, 0));
    old.free();
  }

  /** Called by the last cache that reads it. */
  free(): void {
    this.storage.free();
  }

  private rowAt(slot: number, position: number, lane: number): number {
    return (slot * (this.capacity + 1) + position) * this.lanes + lane;
  }

  /** Rows of all slots, `count` of each. */
  private copy(source: RowBuffer, count: number, { from, to }: RowPlaces): void {
    const picks = new Int32Array(this.slotCount * count);
    const places = new Int32Array(this.slotCount * count);
    for (let slot = 0; slot < this.slotCount; slot++) {
      for (let index = 0; index < count; index++) {
        picks[slot * count + index] = from(slot, index);
        places[slot * count + index] = to(slot, index);
      }
    }
    this.storage.copyRows(source, picks, places);
  }
}

interface RowPlaces {
  readonly from: (slot: number, index: number) => number;
  readonly to: (slot: number, index: number) => number;
}

/**
 * One pool in which all the given caches lie, whole or with what is behind the shared prefix that they share. Moving costs a copy of what a cache holds, so caches stay where they are
 * if they can: newcomers take lanes that nobody owns, and a pool is left only when half of it is nobody's, or when
 * there is no lane left.
 */
export function gatherCaches(caches: readonly PooledCache[], content: LaneContent = 'whole'): CachePool {
  const [{ pool: anyPool }] = caches as [PooledCache];
  const isAtHome = (cache: PooledCache): boolean => cache.content === content;
  const pool = commonest(caches.filter(isAtHome).map((cache) => cache.pool));
  const outside = caches.filter((cache) => cache.pool !== pool || !isAtHome(cache));
  const owners = pool?.owners ?? [];
  const free = owners.flatMap((owner, lane) => (owner === undefined ? [lane] : []));
  const isSparse = 2 * (free.length - outside.length) >= owners.length;
  if (pool !== undefined && outside.length <= free.length && !isSparse) {
    outside.forEach((cache, index) => {
      cache.moveTo(pool, free[index]!, content);
    });
    return pool;
  }
  const all = [...owners.filter((owner) => owner !== undefined), ...outside];
  const positions = Math.max(...all.map((cache) => cache.count(content)));
  const { runtime, sizes } = anyPool;
  const gathered = new CachePool(runtime, sizes, all.length, roomFor(content, positions));
  all.forEach((cache, lane) => {
    cache.moveTo(gathered, lane, content);
  });
  return gathered;
}

function commonest(pools: readonly CachePool[]): CachePool | undefined {
  const counts = new Map<CachePool, number>();
  for (const pool of pools) counts.set(pool, (counts.get(pool) ?? 0) + 1);
  let most: CachePool | undefined;
  for (const [pool, count] of counts) if (count > (counts.get(most!) ?? 0)) most = pool;
  return most;
}
