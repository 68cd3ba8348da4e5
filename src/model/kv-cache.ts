/**
 * Keys and values of the verified positions, token-major [position, head, size] for each layer, in arrays that grow by
 * doubling. Programs read a view of the filled part in place and return only new rows; appending some of those rows
 * is all that remains of "compacting the cache" after a tree was verified.
 *
 * Row 0 is a dummy that every mask blocks: the past is never empty, which ONNX Runtime's FusedMatMul cannot bear.
 */
import type { TensorValue } from '../runtime/program.js';

export interface CacheSizes {
  readonly layerCount: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
}

const initialPositions = 256;

export class KvCache {
  /** Verified positions. */
  private filled = 0;
  private capacity = 0;
  private readonly rowSize: number;
  /** Keys and values of each layer: layer 0 keys, layer 0 values, layer 1 keys, ... */
  private readonly slots: Float32Array[];

  constructor(readonly sizes: CacheSizes) {
    this.rowSize = sizes.keyValueHeadCount * sizes.headSize;
    this.slots = Array.from({ length: 2 * sizes.layerCount }, () => new Float32Array());
    this.reserve(initialPositions);
  }

  get length(): number {
    return this.filled;
  }

  /** Rows a program sees: the verified positions and the dummy. */
  get pastLength(): number {
    return this.filled + 1;
  }

  /** The first rows of a slot (2 * layer for keys, 2 * layer + 1 for values), read in place; all unless told. */
  view(slot: number, rows = this.pastLength): TensorValue {
    const { keyValueHeadCount, headSize } = this.sizes;
    return {
      data: this.slots[slot]!.subarray(0, rows * this.rowSize),
      shape: [rows, keyValueHeadCount, headSize],
    };
  }

  /** Appends the picked rows, in the given order. */
  append(
    rows: Float32Array, // [slot, position, head, size]
    rowCount: number,
    picks: ArrayLike<number>,
  ): void {
    const { rowSize } = this;
    this.reserve(this.filled + picks.length);
    this.slots.forEach((slot, index) => {
      for (let pick = 0; pick < picks.length; pick++) {
        const from = (index * rowCount + picks[pick]!) * rowSize;
        slot.set(rows.subarray(from, from + rowSize), (this.pastLength + pick) * rowSize);
      }
    });
    this.filled += picks.length;
  }

  appendAll(rows: Float32Array /* [slot, position, head, size] */, rowCount: number): void {
    this.reserve(this.filled + rowCount);
    const size = rowCount * this.rowSize;
    this.slots.forEach((slot, index) => {
      slot.set(rows.subarray(index * size, (index + 1) * size), this.pastLength * this.rowSize);
    });
    this.filled += rowCount;
  }

  /** Forgets every position from `length` on. */
  truncate(length: number): void {
    this.filled = Math.min(this.filled, length);
  }

  /** A cache with the same rows, for a continuation that must not disturb this one. */
  clone(): KvCache {
    const copy = new KvCache(this.sizes);
    copy.reserve(this.filled);
    this.slots.forEach((slot, index) => {
      copy.slots[index]!.set(slot.subarray(0, this.pastLength * this.rowSize));
    });
    copy.filled = this.filled;
    return copy;
  }

  private reserve(positions: number): void {
    if (positions <= this.capacity) return;
    this.capacity = Math.max(positions, 2 * this.capacity);
    const size = (this.capacity + 1) * this.rowSize;
    this.slots.forEach((slot, index) => {
      const grown = new Float32Array(size);
      grown.set(slot);
      this.slots[index] = grown;
    });
  }
}
