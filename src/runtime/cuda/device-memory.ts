/**
 * Memory of a device for what outlives a run (rows, weights, tables), and the one piece in which runs keep what does
 * not. Freed pieces are kept by size and given out again: all work goes to one stream, so whoever takes a piece writes to
 * it after its last reader has read. What nobody holds any more comes back through the collector.
 */
import type { Allocation, RowCopy, RowMemory } from './device-rows.js';
import type { Address, Device, Kernel, KernelModule } from './device.js';
import { HeldRows } from './held-rows.js';
import { PiecePool } from './piece-pool.js';

const copyRowsSource = `
extern "C" __global__ void copyRows(const int* sizes, float* to, const float* from, const int* picks, const int* places) {
  const int count = sizes[0];
  const int width = sizes[1];
  const long long total = (long long)count * width;
  for (long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x; at < total; at += (long long)gridDim.x * blockDim.x) {
    const int row = (int)(at / width);
    const int column = (int)(at % width);
    to[(long long)places[row] * width + column] = from[(long long)picks[row] * width + column];
  }
}
`;

const smallest = 512;
const largePage = 2 * 1024 * 1024;

/** Sizes grow by an eighth of a power of two: little is wasted, and a freed piece fits many. */
function roundUp(bytes: number): number {
  if (bytes <= smallest) return smallest;
  if (bytes >= 8 * largePage) return Math.ceil(bytes / largePage) * largePage;
  const step = 2 ** Math.max(9, Math.floor(Math.log2(bytes)) - 3);
  return Math.ceil(bytes / step) * step;
}

interface Piece {
  readonly address: Address;
  readonly bytes: number;
}

export class DeviceMemory implements RowMemory {
  private readonly pieces: PiecePool;
  private readonly held: HeldRows;
  private readonly collected = new FinalizationRegistry<Piece & { readonly isRows: boolean }>((piece) => {
    this.giveBack(piece);
  });
  private arena: Piece = { address: 0n, bytes: 0 };
  private module: KernelModule | undefined;
  private copyKernel: Kernel | undefined;

  constructor(readonly device: Device) {
    this.pieces = new PiecePool(device);
    this.held = new HeldRows(device.totalBytes);
  }

  /** @param isRows of a pass, which nobody frees: weights and tables stay as long as their program */
  take(bytes: number, isRows = false): Allocation {
    const size = roundUp(bytes);
    const address = this.pieces.take(size);
    const piece = { address, bytes: size, isRows };
    if (isRows) this.held.take(size);
    let isHeld = true;
    const token = {};
    const allocation: Allocation = {
      ...{ address, bytes: size },
      free: () => {
        if (!isHeld) return;
        isHeld = false;
        this.collected.unregister(token);
        this.giveBack(piece);
      },
    };
    this.collected.register(allocation, piece, token);
    return allocation;
  }

  private giveBack({ address, bytes, isRows }: Piece & { readonly isRows: boolean }): void {
    this.pieces.giveBack(address);
    if (isRows) this.held.giveBack(bytes);
  }

  /** The memory of runs, which use it one after the other. */
  reserveArena(bytes: number): Address {
    if (bytes <= this.arena.bytes) return this.arena.address;
    if (this.arena.bytes > 0) this.device.free(this.arena.address);
    this.arena = { address: 0n, bytes: 0 };
    const size = roundUp(bytes);
    this.arena = { address: this.allocate(size), bytes: size };
    return this.arena.address;
  }

  upload(to: Address, values: ArrayBufferView): void {
    this.device.upload(to, values);
  }

  download(from: Address, into: ArrayBufferView): Promise<void> {
    return this.device.download(from, into);
  }

  copy(to: Address, from: Address, bytes: number): void {
    this.device.copy(to, from, bytes);
  }

  copyRows({ to, from, width, picks, places }: RowCopy): void {
    this.module ??= this.device.compile(copyRowsSource);
    this.copyKernel ??= this.module.kernel('copyRows');
    const count = picks.length;
    const sizes = new Int32Array(2 + 2 * count);
    sizes.set([count, width]);
    sizes.set(picks, 2);
    sizes.set(places, 2 + count);
    const list = this.take(sizes.byteLength);
    this.device.upload(list.address, sizes);
    const at = (index: number): Address => list.address + BigInt(4 * index);
    this.device.launch({
      kernel: this.copyKernel,
      grid: [Math.max(1, Math.min(65_535, Math.ceil((count * width) / 256))), 1, 1],
      block: 256,
      arguments: [list.address, to, from, at(2), at(2 + count)],
    });
    list.free();
  }

  dispose(): void {
    this.pieces.release();
    if (this.arena.bytes > 0) this.device.free(this.arena.address);
    this.arena = { address: 0n, bytes: 0 };
    this.module?.unload();
  }

  private allocate(size: number): Address {
    try {
      return this.device.allocate(size);
    } catch (cause) {
      if (!this.pieces.release()) throw cause;
      return this.device.allocate(size);
    }
  }
}
