/** Counts heads and blocks by existing tensors. */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';

export interface HeadPlace {
  readonly head: string;
  readonly block: string | undefined;
}

export interface HeadCounts {
  /** Consecutive from 0. */
  readonly heads: number;
  readonly blocks: number;
  readonly isSeen: boolean;
}

export function countHeads(
  tensors: Checkpoint['tensors'],
  placeOf: (name: string) => HeadPlace | undefined,
): HeadCounts {
  const [heads, blocks] = [new Set<string>(), new Set<string>()];
  for (const name of tensors.keys()) {
    const place = placeOf(name);
    if (place === undefined) continue;
    heads.add(place.head);
    if (place.block !== undefined) blocks.add(place.block);
  }
  const [headCount, blockCount] = [countFromZero(heads), countFromZero(blocks)];
  // Bounds the product of heads and blocks.
  const isEven = headCount * blockCount <= tensors.size;
  return { heads: headCount, blocks: isEven ? blockCount : 1, isSeen: heads.size > 0 };
}

function countFromZero(numbers: ReadonlySet<string>): number {
  let count = 0;
  while (numbers.has(String(count))) count += 1;
  return count;
}
