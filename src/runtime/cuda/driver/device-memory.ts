/**
 * Device memory for values that outlive a run (rows, weights, tables), and one arena for the others. Freed pieces are
 * kept by size and reused: all work is on one stream, so a new owner writes only after the last reader is done. Owners
 * free their rows.
 */
import type { RowBlocks } from '../../row-buffer.js';
import type { Address, Device, Kernel, KernelModule, Launch } from './device.js';
import { PreparationClock } from '../../preparation-clock.js';

export interface Allocation {
  readonly address: Address;
  readonly bytes: number;
  free(): void;
}

export interface BlockCopy extends Omit<RowBlocks, 'to' | 'from'> {
  readonly to: Address;
  readonly from: Address;
  readonly width: number;
}

export interface RowCopy {
  readonly to: Address;
  readonly from: Address;
  readonly width: number;
  readonly picks: Int32Array;
  readonly places: Int32Array;
}

/**
 * Reuses device memory by size. An allocation takes 0.1 ms or more, which is a lot for a pass of 4 ms, so the more
 * pieces of a size exist, the more are allocated at once. The lowest idle address goes first, so that requests that
 * allocate alike get the same addresses, which recordings of passes need.
 */
interface Slab {
  readonly address: Address;
  readonly size: number;
  readonly count: number;
  idle: number;
}

/** Limits of one allocation: pieces, bytes, share of the device. */
const [maxPieces, maxBytes, shareOfDevice] = [16, 32 << 20, 1 / 256];

export class PiecePool {
  private readonly idle = new Map<number, Address[]>(); // by size, the lowest last
  private readonly slabs = new Map<Address, Slab>(); // by each of its pieces
  private readonly counts = new Map<number, number>(); // of pieces, by size

  constructor(private readonly device: Pick<Device, 'allocate' | 'free' | 'totalBytes'>) {}

  take(size: number): Address {
    const known = this.idle.get(size)?.pop();
    const address = known ?? this.allocateSlab(size);
    this.slabs.get(address)!.idle -= 1;
    return address;
  }

  giveBack(address: Address): void {
    const slab = this.slabs.get(address)!;
    slab.idle += 1;
    const idle = this.idle.get(slab.size)!;
    const above = idle.findLastIndex((other) => other > address);
    idle.splice(above + 1, 0, address);
  }

  /** Frees slabs without a piece in use; returns whether there was any. */
  release(): boolean {
    const free = [...new Set(this.slabs.values())].filter(({ idle, count }) => idle === count);
    for (const slab of free) {
      const { address, size, count } = slab;
      const own = new Set(piecesOf(slab));
      for (const piece of own) this.slabs.delete(piece);
      this.idle.set(size, this.idle.get(size)!.filter((piece) => !own.has(piece))); // prettier-ignore
      this.counts.set(size, this.counts.get(size)! - count);
      this.device.free(address);
    }
    return free.length > 0;
  }

  /** Frees all, in use or not: other threads may keep the context open. Pieces can still be given back. */
  dispose(): void {
    for (const { address } of new Set(this.slabs.values())) this.device.free(address);
  }

  /** Frees idle slabs if there is no room. */
  allocate(bytes: number): Address {
    try {
      return this.device.allocate(bytes);
    } catch (cause) {
      if (!this.release()) throw cause;
      return this.device.allocate(bytes);
    }
  }

  /** One piece for the caller; the others are idle. */
  private allocateSlab(size: number): Address {
    const known = this.counts.get(size) ?? 0;
    const room = Math.min(maxBytes, this.device.totalBytes * shareOfDevice);
    const count = Math.max(1, Math.min(known, maxPieces, Math.floor(room / size)));
    const slab = this.tryAllocate(size, count) ?? { address: this.allocate(size), size, count: 1, idle: 1 };
    this.counts.set(size, (this.counts.get(size) ?? 0) + slab.count);
    const [first, ...others] = piecesOf(slab);
    for (const piece of [first!, ...others]) this.slabs.set(piece, slab);
    const idle = [...others, ...(this.idle.get(size) ?? [])];
    this.idle.set(size, idle.sort((left, right) => (left < right ? 1 : -1))); // prettier-ignore
    return first!;
  }

  private tryAllocate(size: number, count: number): Slab | undefined {
    if (count === 1) return undefined;
    try {
      return { address: this.device.allocate(size * count), size, count, idle: count };
    } catch {
      return undefined; // there may be room for one
    }
  }
}

const piecesOf = ({ address, size, count }: Slab): readonly Address[] =>
  Array.from({ length: count }, (_, index) => address + BigInt(index * size));

const copySource = `
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

extern "C" __global__ void copyBlocks(float* to, const float* from, int width, int count, int rows, int fromStep, int fromRowStep, int toStep, int toRowStep) {
  const long long total = (long long)count * rows * width;
  for (long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x; at < total; at += (long long)gridDim.x * blockDim.x) {
    const int column = (int)(at % width);
    const long long line = at / width;
    const long long row = line % rows;
    const long long block = line / rows;
    to[(block * toStep + row * toRowStep) * width + column] = from[(block * fromStep + row * fromRowStep) * width + column];
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

const copyThreads = (values: number): Pick<Launch, 'grid' | 'block'> => ({
  grid: [Math.max(1, Math.min(65_535, Math.ceil(values / 256))), 1, 1],
  block: 256,
});

export class DeviceMemory {
  private readonly pieces: PiecePool;
  /** For rows whose owner forgot to free them. */
  private readonly collected = new FinalizationRegistry<Address>((address) => {
    this.pieces.giveBack(address);
  });
  private arena: Pick<Allocation, 'address' | 'bytes'> = { address: 0n, bytes: 0 };
  private copying: KernelModule | undefined;

  constructor(
    readonly device: Device,
    private readonly preparation = new PreparationClock(),
  ) {
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
    this.arena = { address: this.pieces.allocate(size), bytes: size };
    return this.arena.address;
  }

  /** Without lists, which would have to be uploaded. */
  copyBlocks({ to, from, width, count, rows, fromStep, fromRowStep, toStep, toRowStep }: BlockCopy): void {
    this.device.launch({
      kernel: this.copyKernel('copyBlocks'),
      ...copyThreads(count * rows * width),
      arguments: [to, from, width, count, rows, fromStep, fromRowStep, toStep, toRowStep],
    });
  }

  private copyKernel(name: 'copyRows' | 'copyBlocks'): Kernel {
    this.copying ??= this.preparation.blocking(() => this.device.compile(copySource));
    return this.copying.kernel(name);
  }

  copyRows({ to, from, width, picks, places }: RowCopy): void {
    const count = picks.length;
    const sizes = new Int32Array(2 + 2 * count);
    sizes.set([count, width]);
    sizes.set(picks, 2);
    sizes.set(places, 2 + count);
    const list = this.take(sizes.byteLength);
    this.device.upload(list.address, sizes);
    const at = (index: number): Address => list.address + BigInt(4 * index);
    this.device.launch({
      kernel: this.copyKernel('copyRows'),
      ...copyThreads(count * width),
      arguments: [list.address, to, from, at(2), at(2 + count)],
    });
    list.free();
  }

  dispose(): void {
    this.pieces.dispose();
    if (this.arena.bytes > 0) this.device.free(this.arena.address);
    this.arena = { address: 0n, bytes: 0 };
    this.copying?.unload();
  }
}
