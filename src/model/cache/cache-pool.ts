/**
 * Keys and values of several sequences in one buffer of rows [slot, position, lane]; a slot is the keys or values of
 * a layer, a row all heads of a position. Positions come before lanes, so programs read the filled part of a slot in
 * place, and attention sees n lanes as n times the heads. Masks block rows after the end of shorter lanes, which must
 * still be finite (0 times NaN is NaN), so a lane is cleared when it is taken over.
 * Row 0 of each lane is a masked dummy: ONNX Runtime's FusedMatMul crashes on an empty past.
 */
import type { HalfType } from '../../core/half-floats.js';
import { resident, type ResidentValue, type Runtime, type TensorValue } from '../../runtime/program.js';
import type { RowBlocks, RowBuffer } from '../../runtime/row-buffer.js';
import { HeadRows } from './head-rows.js';

/**
 * Rows that a cache and its forks read in place, in a pool of their own.
 * Passes over forks of one prefix read it once, but cannot include other sequences. That pays if at least two forks
 * read at least 32 rows of it. Other forks copy the rows when they get rows of their own or join others.
 */
const minForks = 2;
const minRows = 32;

export class SharedPrefix {
  private readonly readers = new Set<object>();

  constructor(
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

export interface CacheSizes {
  readonly layerCount: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
  /** Default float32. */
  readonly cacheType?: HalfType | undefined;
}

const bytesOfValue = (cacheType: CacheSizes['cacheType']): number => (cacheType === undefined ? 4 : 2);

/** Of the keys and values of a position. */
export const countPositionBytes = (sizes: CacheSizes): number =>
  2 * sizes.layerCount * sizes.keyValueHeadCount * sizes.headSize * bytesOfValue(sizes.cacheType);

/** All rows of a cache, or those after its shared prefix. A pool has one kind. */
export type LaneContent = 'whole' | 'rest';

export interface PooledCache {
  readonly pool: CachePool;
  readonly lane: number;
  /** Undefined while it has no lane. */
  readonly content: LaneContent | undefined;
  count(content: LaneContent): number;
  moveTo(pool: CachePool, lane: number, content: LaneContent): void;
}

/** Row 0 is the dummy. */
export interface LanePiece {
  readonly pool: CachePool;
  readonly lane: number;
  readonly start: number;
  readonly count: number;
}

const initialPositions: Readonly<Record<LaneContent, number>> = { whole: 256, rest: 32 };

/** Initial room, so that lanes can grow. */
export const roomFor = (content: LaneContent, positions: number): number =>
  Math.max(initialPositions[content], 2 * positions);

/** Made once: every pass has dozens of them. */
const slotNames: Readonly<Record<'past' | 'prefix', string[]>> = { past: [], prefix: [] };

export class CachePool {
  readonly owners: (PooledCache | undefined)[];
  /** [lane] Positions written so far. */
  private readonly written: number[];
  private readonly slotCount: number;
  /** In values of a buffer, which have four bytes. */
  private readonly rowSize: number;
  private capacity = 0;
  private storage: RowBuffer;
  /** [slot] Parts of the storage. */
  private slots: readonly RowBuffer[] = [];
  private heads: HeadRows | undefined;

  constructor(
    readonly runtime: Runtime,
    readonly sizes: CacheSizes,
    lanes: number,
    positions = roomFor('whole', 0),
  ) {
    this.slotCount = 2 * sizes.layerCount;
    this.rowSize = (sizes.keyValueHeadCount * sizes.headSize * bytesOfValue(sizes.cacheType)) / 4;
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

  /** Read in place. [position, lane * head, size] */
  view(slot: number, positions: number): ResidentValue {
    return resident(this.slots[slot]!.rows(0, positions * this.lanes), this.shapeOf(positions));
  }

  /** Of a pool with one lane, as inputs `cache0`, `cache1`, ...; a program may write `rows` after the positions. */
  addHeads(inputs: Record<string, TensorValue | ResidentValue>, positions: number, rows: number): void {
    this.heads ??= new HeadRows(this.runtime, this.sizes);
    this.heads.addInputs(inputs, { source: this.storage, capacity: this.capacity + 1, positions, rows });
  }

  /** A program wrote these rows after the positions, in the form of `addHeads`. [slot, row, head, size] */
  noteHeads(rows: RowBuffer, positions: number): void {
    this.heads?.note(rows, positions);
  }

  /** Of all slots, as inputs `past0`, `past1`, ... */
  addViews(
    inputs: Record<string, TensorValue | ResidentValue>,
    name: keyof typeof slotNames,
    positions: number,
  ): void {
    const names = slotNames[name];
    const [shape, rows] = [this.shapeOf(positions), positions * this.lanes];
    this.slots.forEach((slot, index) => {
      inputs[(names[index] ??= `${name}${index}`)] = resident(slot.rows(0, rows), shape);
    });
  }

  private shapeOf(positions: number): readonly number[] {
    const { keyValueHeadCount, headSize } = this.sizes;
    return [positions, this.lanes * keyValueHeadCount, headSize];
  }

  write(
    lane: number,
    start: number,
    rows: RowBuffer, // [slot, row, head, size]
    picks: ArrayLike<number>,
  ): void {
    const source = rows.withWidth(this.rowSize);
    const fromStep = source.rowCount / this.slotCount;
    for (let index = 0; index < picks.length;) {
      const from = picks[index]!;
      let run = 1;
      while (index + run < picks.length && picks[index + run] === from + run) run += 1;
      this.copy(source, {
        rows: run,
        from,
        fromStep,
        fromRowStep: 1,
        to: this.rowAt(0, start + index, lane),
      });
      index += run;
    }
    this.written[lane] = Math.max(this.written[lane]!, start + picks.length);
    this.heads?.write(start, rows, picks);
  }

  /** Copies pieces of other pools' lanes, and clears the rest. */
  takeLane(lane: number, pieces: readonly LanePiece[]): void {
    let positions = 0;
    for (const { pool, lane: fromLane, start, count } of pieces) {
      const from = pool.rowAt(0, start, fromLane);
      const steps = { fromStep: pool.slotRows, fromRowStep: pool.lanes };
      this.copy(pool.storage, { rows: count, from, ...steps, to: this.rowAt(0, positions, lane) });
      positions += count;
    }
    const old = this.written[lane]! - positions;
    if (old > 0) {
      const zeros = this.runtime.allocate(1, this.rowSize);
      const steps = { fromStep: 0, fromRowStep: 0 };
      this.copy(zeros, { rows: old, from: 0, ...steps, to: this.rowAt(0, positions, lane) });
      zeros.free();
    }
    this.written[lane] = positions;
    this.heads?.forget();
  }

  /** Without the dummy. */
  reserve(positions: number): void {
    if (positions <= this.capacity) return;
    const [old, oldRows] = [this.storage, this.storage.rowCount / this.slotCount];
    this.capacity = Math.max(positions, 2 * this.capacity);
    const perSlot = this.slotRows;
    this.storage = this.runtime.allocate(this.slotCount * perSlot, this.rowSize);
    this.slots = Array.from({ length: this.slotCount }, (_, slot) =>
      this.storage.rows(slot * perSlot, perSlot),
    );
    for (let slot = 0; oldRows > 0 && slot < this.slotCount; slot++)
      this.storage.write(old.rows(slot * oldRows, oldRows), this.rowAt(slot, 0, 0));
    old.free();
  }

  free(): void {
    this.storage.free();
    this.heads?.free();
  }

  private get slotRows(): number {
    return (this.capacity + 1) * this.lanes;
  }

  private rowAt(slot: number, position: number, lane: number): number {
    return slot * this.slotRows + position * this.lanes + lane;
  }

  /** Positions of a lane, in all slots. */
  private copy(source: RowBuffer, blocks: Omit<RowBlocks, 'count' | 'toStep' | 'toRowStep'>): void {
    const steps = { toStep: this.slotRows, toRowStep: this.lanes };
    this.storage.copyBlocks(source, { ...blocks, count: this.slotCount, ...steps });
  }
}

/**
 * Puts the caches into one pool, whole or after their shared prefix. Moving copies a cache's rows, so caches stay if
 * possible: newcomers take free lanes, and a pool is left only if half of it is free or no lane is left.
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
