/** Sizes of a transformer layer from its tensors. */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { LayerSizes } from '../../model/decoder-layer.js';

/** Counts heads and blocks by existing tensors. */
interface HeadPlace {
  readonly head: string;
  readonly block: string | undefined;
}

interface HeadCounts {
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

/** Without norms of queries and keys, the head size is unknown; any that fits gives the same shapes. */
export function measureLayer(
  { tensors }: Pick<Checkpoint, 'tensors'>,
  layer: string,
  hiddenSize: number,
): LayerSizes {
  const size = (part: string, axis: number): number | undefined =>
    tensors.get(`${layer}.${part}`)?.shape[axis];
  const queryWidth = size('self_attn.q_proj.weight', 0) ?? size('self_attn.o_proj.weight', 1) ?? 2;
  const keyWidth = size('self_attn.k_proj.weight', 0) ?? size('self_attn.v_proj.weight', 0) ?? queryWidth;
  const norm = size('self_attn.q_norm.weight', 0) ?? size('self_attn.k_norm.weight', 0);
  const headSize = Math.max(1, norm ?? commonDivisor(queryWidth, keyWidth));
  const has = (part: string): boolean => tensors.has(`${layer}.self_attn.${part}`);
  return {
    hiddenSize,
    intermediateSize:
      size('mlp.gate_proj.weight', 0) ??
      size('mlp.up_proj.weight', 0) ??
      size('mlp.down_proj.weight', 1) ??
      1,
    headCount: Math.max(1, Math.floor(queryWidth / headSize)),
    keyValueHeadCount: Math.max(1, Math.floor(keyWidth / headSize)),
    headSize,
    normEpsilon: 1e-6, // no shape depends on it
    queryKeyValueBias: has('q_proj.bias'),
    outputBias: has('o_proj.bias'),
    queryKeyNorm: has('q_norm.weight'),
  };
}

function commonDivisor(left: number, right: number): number {
  return right === 0 ? left : commonDivisor(right, left % right);
}
