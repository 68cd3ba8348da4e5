/**
 * Where the values of one run lie, besides what comes from outside: each takes memory from the step that makes it to the
 * last one that reads it, and values that do not live at the same time share it. Larger pieces are placed first, each at
 * the lowest offset where nothing that lives with it lies.
 */
const alignment = 256;

/** A value that needs memory from step `from` to step `until`, both included. */
export interface Lifetime {
  readonly bytes: number;
  readonly from: number;
  readonly until: number;
}

export interface MemoryPlan {
  /** [lifetime] */
  readonly offsets: readonly number[];
  readonly totalBytes: number;
}

export const alignBytes = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

export function planMemory(lifetimes: readonly Lifetime[]): MemoryPlan {
  const offsets = new Array<number>(lifetimes.length).fill(0);
  const order = lifetimes
    .map((_, index) => index)
    .sort((a, b) => lifetimes[b]!.bytes - lifetimes[a]!.bytes || a - b);
  const placed: number[] = [];
  let totalBytes = 0;
  for (const index of order) {
    const { bytes, from, until } = lifetimes[index]!;
    const size = alignBytes(Math.max(bytes, 1));
    const neighbours = placed
      .filter((other) => lifetimes[other]!.from <= until && lifetimes[other]!.until >= from)
      .sort((a, b) => offsets[a]! - offsets[b]!);
    let offset = 0;
    for (const other of neighbours) {
      if (offset + size <= offsets[other]!) break;
      offset = Math.max(offset, offsets[other]! + alignBytes(Math.max(lifetimes[other]!.bytes, 1)));
    }
    offsets[index] = offset;
    placed.push(index);
    totalBytes = Math.max(totalBytes, offset + size);
  }
  return { offsets, totalBytes };
}
