/**
 * Device memory for values that outlive a run (rows, weights, tables), and one arena for the others. Freed pieces are
 * kept by size and reused: all work is on one stream, so a new owner writes only after the last reader is done. Owners
 * free their rows.
 */
import type { Allocation, RowCopy, RowMemory } from './device-rows.js';
import type { Address, Device, Kernel, KernelModule } from './device.js';
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

/** Steps of an eighth of a power of two: little waste, and freed pieces fit many requests. */
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
  /** For rows whose owner forgot to free them. */
  private readonly collected = new FinalizationRegistry<Address>((address) => {
    this.pieces.giveBack(address);
  });
  private arena: Piece = { address: 0n, bytes: 0 };
  private module: KernelModule | undefined;
  private copyKernel: Kernel | undefined;

  constructor(readonly device: Device) {
    this.pieces = new PiecePool(device);
  }

  take(bytes: number): Allocation {
    const size = roundUp(bytes);
    const address = this.pieces.take(size);
    let isHeld = true;
    const token = {};
    const allocation: Allocation = {
      address,
      bytes: size,
      free: () => {
        if (!isHeld) return;
        isHeld = false;
        this.collected.unregister(token);
        this.pieces.giveBack(address);
      },
    };
    this.collected.register(allocation, address, token);
    return allocation;
  }

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
