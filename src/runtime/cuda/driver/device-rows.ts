/** Rows in device memory. Views share an allocation, which is returned when freed or when no view is left. */
import { MistletoeError } from '../../../core/errors.js';
import {
  type RowBlocks,
  type RowBuffer,
  countRows,
  requireBlocks,
  requireRows,
  requireWidth,
} from '../../row-buffer.js';
import type { Allocation, DeviceMemory } from './device-memory.js';
import type { Address } from './device.js';

const floatBytes = 4;

export class DeviceRows implements RowBuffer {
  constructor(
    readonly memory: DeviceMemory,
    /** Keeps the memory alive while a view exists. */
    private readonly allocation: Allocation,
    readonly address: Address,
    readonly rowCount: number,
    readonly width: number,
  ) {}

  rows(from: number, count: number): DeviceRows {
    requireRows(this, from, count);
    return new DeviceRows(this.memory, this.allocation, this.addressOf(from), count, this.width);
  }

  withWidth(width: number): DeviceRows {
    const rows = countRows(this.rowCount * this.width, width);
    return new DeviceRows(this.memory, this.allocation, this.address, rows, width);
  }

  write(values: Float32Array | RowBuffer, at = 0): void {
    if (values instanceof Float32Array) {
      requireRows(this, at, values.length / this.width);
      if (values.length > 0) this.memory.device.upload(this.addressOf(at), values);
      return;
    }
    const source = deviceRowsOf(values, this.memory);
    const count = source.rowCount * source.width;
    requireRows(this, at, count / this.width);
    if (count > 0) this.memory.device.copy(this.addressOf(at), source.address, floatBytes * count);
  }

  copyRows(source: RowBuffer, picks: ArrayLike<number>, places: ArrayLike<number>): void {
    const { address, width } = deviceRowsOf(source, this.memory);
    requireWidth(this, source);
    for (let index = 0; index < picks.length; index++) {
      requireRows(this, places[index]!, 1);
      requireRow(picks[index]!, source.rowCount);
    }
    if (picks.length === 0) return;
    const rows = { picks: Int32Array.from(picks), places: Int32Array.from(places) };
    this.memory.copyRows({ to: this.address, from: address, width, ...rows });
  }

  copyBlocks(source: RowBuffer, blocks: RowBlocks): void {
    const given = deviceRowsOf(source, this.memory);
    if (blocks.count === 0 || blocks.rows === 0) return;
    requireBlocks(this, given, blocks);
    const [to, from] = [this.addressOf(blocks.to), given.addressOf(blocks.from)];
    this.memory.copyBlocks({ ...blocks, to, from, width: this.width });
  }

  async read(): Promise<Float32Array> {
    const values = new Float32Array(this.rowCount * this.width);
    if (values.length > 0) await this.memory.device.download(this.address, values);
    return values;
  }

  free(): void {
    this.allocation.free();
  }

  overlaps(other: RowBuffer): boolean {
    const { address, end } = deviceRowsOf(other, this.memory);
    return this.address < end && address < this.end;
  }

  private get end(): Address {
    return this.addressOf(this.rowCount);
  }

  requireSize(values: number): void {
    requireRows(this, 0, values / this.width);
  }

  private addressOf(row: number): Address {
    return row === 0 ? this.address : this.address + BigInt(floatBytes * row * this.width);
  }
}

function requireRow(row: number, count: number): void {
  if (row >= 0 && row < count) return;
  throw new MistletoeError('shape', `Row ${row} was asked for in a buffer of ${count}.`);
}

export function allocateRows(memory: DeviceMemory, rowCount: number, width: number): DeviceRows {
  const allocation = memory.take(floatBytes * rowCount * width);
  return new DeviceRows(memory, allocation, allocation.address, rowCount, width);
}

export function deviceRowsOf(buffer: RowBuffer, memory: DeviceMemory): DeviceRows {
  if (buffer instanceof DeviceRows && buffer.memory === memory) return buffer;
  throw new MistletoeError('runtime', 'A buffer was used with another runtime than the one that made it.', {
    hint: 'Load target and drafter with one and the same runtime.',
  });
}
