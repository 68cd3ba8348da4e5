/**
 * Device memory for values that outlive a run (rows, weights, tables), and one arena for the others. Freed pieces are
 * kept by size and reused: all work is on one stream, so a new owner writes only after the last reader is done. Rows
 * that are not freed explicitly are freed on garbage collection.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Allocation, RowCopy, RowMemory } from './device-rows.js';
import type { Address, Device, Kernel, KernelModule } from './device.js';
import { PiecePool } from './piece-pool.js';

/**
 * The garbage collector sees small objects, not the device memory behind them. This requests a collection each time
 * the rows in use have grown by 512 MiB or 1/64 of the device since memory was last returned.
 */
const [maxBytes, shareOfDevice] = [512 << 20, 1 / 64];

export class GcPressure {
  private bytes = 0;
  private lowest = 0;
  private readonly step: number;

  constructor(
    totalBytes: number,
    private readonly collect: () => void = collectGarbage,
  ) {
    this.step = Math.min(maxBytes, totalBytes * shareOfDevice);
  }

  take(bytes: number): void {
    this.bytes += bytes;
    if (this.bytes - this.lowest < this.step) return;
    this.collect();
    // Finalizers run later; rows that survive are still in use.
    this.lowest = this.bytes;
  }

  giveBack(bytes: number): void {
    this.bytes -= bytes;
    this.lowest = Math.min(this.lowest, this.bytes);
  }
}

let collector: (() => void) | undefined;

function collectGarbage(): void {
  collector ??= findCollector();
  collector();
}

function findCollector(): () => void {
  try {
    setFlagsFromString('--expose-gc');
    return runInNewContext('gc') as () => void;
  } catch {
    // Without --expose-gc, memory returns whenever the collector runs.
    return () => undefined;
  }
}

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
  private readonly held: GcPressure;
  private readonly collected = new FinalizationRegistry<Piece & { readonly isRows: boolean }>((piece) => {
    this.giveBack(piece);
  });
  private arena: Piece = { address: 0n, bytes: 0 };
  private module: KernelModule | undefined;
  private copyKernel: Kernel | undefined;

  constructor(readonly device: Device) {
    this.pieces = new PiecePool(device);
    this.held = new GcPressure(device.totalBytes);
  }

  /** @param isRows rows may be left to the collector; programs free their weights and tables */
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
