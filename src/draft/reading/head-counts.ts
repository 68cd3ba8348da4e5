/** How many heads a file holds, and of how many blocks: never more than there are tensors, whatever the numbers say. */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';

export interface HeadPlace {
  readonly head: string;
  /** Undefined for what is no block. */
  readonly block: string | undefined;
}

export interface HeadCounts {
  /** Heads 0, 1, ... up to the first of which there is nothing. */
  readonly heads: number;
  /** Blocks 0, 1, ... that any of the heads has. */
  readonly blocks: number;
  /** Some tensor has a place, if only in head 7. */
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
  // One head of many blocks among many heads of one would ask for the product of both.
  const isEven = headCount * blockCount <= tensors.size;
  return { heads: headCount, blocks: isEven ? blockCount : 1, isSeen: heads.size > 0 };
}

function countFromZero(numbers: ReadonlySet<string>): number {
  let count = 0;
  while (numbers.has(String(count))) count += 1;
  return count;
}
