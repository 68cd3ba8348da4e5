/**
 * The rows of a pool with one lane once more, head by head: [slot, head, position, size]. Attention of one sequence
 * reads them in this order, and writes the keys and values of new rows behind the past. Rows that are appended as they
 * were written are not copied again.
 */
import { resident, type ResidentValue, type Runtime, type TensorValue } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

interface HeadSizes {
  readonly layerCount: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
}

interface PoolRows {
  readonly source: RowBuffer; // [slot, position, head * size]
  /** Positions of a slot. */
  readonly capacity: number;
  /** To be read. */
  readonly positions: number;
  /** To be written after them. */
  readonly rows: number;
}

export class HeadRows {
  private readonly slotCount: number;
  private storage: RowBuffer;
  private inputs: Readonly<Record<string, ResidentValue>> = {};
  private room = 0;
  /** Positions that are equal to the pool's. */
  private valid = 0;
  private noted: { readonly rows: RowBuffer; readonly start: number } | undefined;

  constructor(
    private readonly runtime: Runtime,
    private readonly sizes: HeadSizes,
  ) {
    this.slotCount = 2 * sizes.layerCount;
    this.storage = runtime.allocate(0, sizes.headSize);
  }

  addInputs(
    inputs: Record<string, TensorValue | ResidentValue>,
    { source, capacity, positions, rows }: PoolRows,
  ): void {
    if (positions + rows > this.room) this.allocate(Math.max(capacity, 2 * (positions + rows)));
    if (this.valid < positions) this.copy(source, capacity, positions);
    // The program may write behind what it reads.
    this.valid = positions;
    this.noted = undefined;
    Object.assign(inputs, this.inputs);
  }

  note(rows: RowBuffer, start: number): void {
    this.noted = { rows, start };
  }

  /** The pool appends rows. */
  write(start: number, rows: RowBuffer, picks: ArrayLike<number>): void {
    const { noted } = this;
    const isThere = noted?.rows === rows && noted.start === start && isCounting(picks);
    this.valid = isThere ? start + picks.length : Math.min(this.valid, start);
  }

  forget(): void {
    this.valid = 0;
    this.noted = undefined;
  }

  free(): void {
    this.storage.free();
  }

  private allocate(room: number): void {
    const { keyValueHeadCount: heads, headSize } = this.sizes;
    this.storage.free();
    this.forget();
    this.room = room;
    this.storage = this.runtime.allocate(this.slotCount * heads * room, headSize);
    const shape = [1, heads, room, headSize];
    this.inputs = Object.fromEntries(
      Array.from({ length: this.slotCount }, (_, slot) => [
        `cache${slot}`,
        resident(this.storage.rows(slot * heads * room, heads * room), shape),
      ]),
    );
  }

  private copy(source: RowBuffer, capacity: number, positions: number): void {
    const { keyValueHeadCount: heads, headSize } = this.sizes;
    const { valid, room, slotCount } = this;
    const rows = source.withWidth(headSize);
    for (let head = 0; head < heads; head++)
      this.storage.copyBlocks(rows, {
        ...{ count: slotCount, rows: positions - valid },
        ...{ from: valid * heads + head, fromStep: capacity * heads, fromRowStep: heads },
        ...{ to: head * room + valid, toStep: heads * room, toRowStep: 1 },
      });
  }
}

function isCounting(picks: ArrayLike<number>): boolean {
  for (let index = 0; index < picks.length; index++) if (picks[index] !== index) return false;
  return true;
}
