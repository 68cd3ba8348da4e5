/**
 * Where keys and values of several sequences lie: for each slot (layer 0 keys, layer 0 values, layer 1 keys, ...) one
 * array [position, lane, head, size]. Positions come first, so the filled part of all lanes is one piece that a program
 * reads in place, and to attention a pool of n lanes looks like one sequence with n times the heads. Shorter lanes have
 * old values behind their end, which masks block.
 *
 * Row 0 of every lane is a dummy that every mask blocks: the past is never empty, which ONNX Runtime's FusedMatMul
 * cannot bear.
 */
import type { TensorValue } from '../runtime/program.js';

export interface CacheSizes {
  readonly layerCount: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
}

/** What lies in a lane of a pool and can be moved to another. */
export interface PooledCache {
  readonly pool: CachePool;
  /** Verified positions. */
  readonly length: number;
  moveTo(pool: CachePool, lane: number): void;
}

const initialPositions = 256;

export class CachePool {
  /** Whose lane it is; undefined where nobody's. */
  readonly owners: (PooledCache | undefined)[];
  private readonly slots: Float32Array[];
  private capacity = 0;
  private readonly rowSize: number;

  constructor(
    readonly sizes: CacheSizes,
    lanes: number,
    positions = initialPositions,
  ) {
    this.rowSize = sizes.keyValueHeadCount * sizes.headSize;
    this.owners = new Array<PooledCache | undefined>(lanes).fill(undefined);
    this.slots = Array.from({ length: 2 * sizes.layerCount }, () => new Float32Array());
    this.reserve(positions);
  }

  get lanes(): number {
    return this.owners.length;
  }

  get bytes(): number {
    return this.slots.reduce((total, { byteLength }) => total + byteLength, 0);
  }

  /** The first rows of a slot, all lanes side by side, read in place. [row, lane * head, size] */
  view(slot: number, rows: number): TensorValue {
    const { keyValueHeadCount, headSize } = this.sizes;
    return {
      data: this.slots[slot]!.subarray(0, rows * this.lanes * this.rowSize),
      shape: [rows, this.lanes * keyValueHeadCount, headSize],
    };
  }

  /** Writes picked rows into a lane from row `start` on, in the given order. */
  write(
    lane: number,
    start: number,
    rows: Float32Array, // [slot, row, head, size]
    rowCount: number,
    picks: ArrayLike<number>,
  ): void {
    const { rowSize, lanes } = this;
    this.slots.forEach((slot, index) => {
      for (let pick = 0; pick < picks.length;) {
        // In a lane of its own, rows that follow each other are copied as one piece.
        let run = 1;
        while (lanes === 1 && picks[pick + run] === picks[pick]! + run) run += 1;
        const from = (index * rowCount + picks[pick]!) * rowSize;
        slot.set(rows.subarray(from, from + run * rowSize), ((start + pick) * lanes + lane) * rowSize);
        pick += run;
      }
    });
  }

  /** Copies the first rows of a lane to a lane of another pool. */
  copyLane(lane: number, rows: number, to: CachePool, toLane: number): void {
    const { rowSize, lanes } = this;
    this.slots.forEach((slot, index) => {
      const target = to.slots[index]!;
      for (let row = 0; row < rows; row++) {
        const from = (row * lanes + lane) * rowSize;
        target.set(slot.subarray(from, from + rowSize), (row * to.lanes + toLane) * rowSize);
      }
    });
  }

  /** Room for this many positions, the dummy not counted. */
  reserve(positions: number): void {
    if (positions <= this.capacity) return;
    this.capacity = Math.max(positions, 2 * this.capacity);
    const size = (this.capacity + 1) * this.lanes * this.rowSize;
    this.slots.forEach((slot, index) => {
      const grown = new Float32Array(size);
      grown.set(slot);
      this.slots[index] = grown;
    });
  }
}

/**
 * One pool in which all the given caches lie. Moving costs a copy of what a cache holds, so caches stay where they are
 * if they can: newcomers take lanes that nobody owns, and a pool is left only when half of it is nobody's, or when
 * there is no lane left.
 */
export function gatherCaches(caches: readonly PooledCache[]): CachePool {
  const pool = commonest(caches.map((cache) => cache.pool));
  const outside = caches.filter((cache) => cache.pool !== pool);
  const free = pool.owners.flatMap((owner, lane) => (owner === undefined ? [lane] : []));
  const isSparse = 2 * (free.length - outside.length) >= pool.lanes;
  if (outside.length <= free.length && !isSparse) {
    outside.forEach((cache, index) => {
      cache.moveTo(pool, free[index]!);
    });
    return pool;
  }
  const living = pool.owners.filter((owner) => owner !== undefined);
  const all = [...living, ...outside];
  const positions = Math.max(...all.map(({ length }) => length));
  const gathered = new CachePool(pool.sizes, all.length, Math.max(initialPositions, 2 * positions));
  all.forEach((cache, lane) => {
    cache.moveTo(gathered, lane);
  });
  return gathered;
}

function commonest(pools: readonly CachePool[]): CachePool {
  const counts = new Map<CachePool, number>();
  for (const pool of pools) counts.set(pool, (counts.get(pool) ?? 0) + 1);
  return [...counts].reduce((most, entry) => (entry[1] > most[1] ? entry : most))[0];
}
