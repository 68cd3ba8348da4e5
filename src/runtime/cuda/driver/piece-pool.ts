/**
 * Reuses device memory by size. An allocation takes 0.1 ms or more, which is a lot for a pass of 4 ms, so the more
 * pieces of a size exist, the more are allocated at once.
 */
import type { Address, Device } from './device.js';

interface Slab {
  readonly address: Address;
  readonly size: number;
  readonly count: number;
  idle: number;
}

/** Limits of one allocation: pieces, bytes, share of the device. */
const [maxPieces, maxBytes, shareOfDevice] = [16, 32 << 20, 1 / 256];

export class PiecePool {
  private readonly idle = new Map<number, Address[]>(); // by size
  private readonly slabs = new Map<Address, Slab>(); // by each of its pieces
  private readonly counts = new Map<number, number>(); // of pieces, by size

  constructor(private readonly device: Pick<Device, 'allocate' | 'free' | 'totalBytes'>) {}

  take(size: number): Address {
    const known = this.idle.get(size)?.pop();
    const address = known ?? this.allocate(size);
    this.slabs.get(address)!.idle -= 1;
    return address;
  }

  giveBack(address: Address): void {
    const slab = this.slabs.get(address)!;
    slab.idle += 1;
    const list = this.idle.get(slab.size);
    if (list === undefined) this.idle.set(slab.size, [address]);
    else list.push(address);
  }

  /** Frees slabs without a piece in use; returns whether there was any. */
  release(): boolean {
    const free = [...new Set(this.slabs.values())].filter(({ idle, count }) => idle === count);
    for (const { address, size, count } of free) {
      const own = new Set(piecesOf(address, size, count));
      for (const piece of own) this.slabs.delete(piece);
      this.idle.set(size, this.idle.get(size)!.filter((piece) => !own.has(piece))); // prettier-ignore
      this.counts.set(size, this.counts.get(size)! - count);
      this.device.free(address);
    }
    return free.length > 0;
  }

  /** One piece for the caller; the others are idle. */
  private allocate(size: number): Address {
    const known = this.counts.get(size) ?? 0;
    const room = Math.min(maxBytes, this.device.totalBytes * shareOfDevice);
    const count = Math.max(1, Math.min(known, maxPieces, Math.floor(room / size)));
    const { address, made } = this.allocateOr(size, count);
    const slab: Slab = { address, size, count: made, idle: made };
    this.counts.set(size, known + made);
    const [first, ...others] = piecesOf(address, size, made);
    for (const piece of [first!, ...others]) this.slabs.set(piece, slab);
    this.idle.set(size, [...(this.idle.get(size) ?? []), ...others]);
    return first!;
  }

  /** Falls back to one piece, then to freeing idle slabs. */
  private allocateOr(size: number, count: number): { readonly address: Address; readonly made: number } {
    try {
      return { address: this.device.allocate(size * count), made: count };
    } catch (cause) {
      if (count > 1) return this.allocateOr(size, 1);
      if (!this.release()) throw cause;
      return { address: this.device.allocate(size), made: 1 };
    }
  }
}

const piecesOf = (address: Address, size: number, count: number): readonly Address[] =>
  Array.from({ length: count }, (_, index) => address + BigInt(index * size));
