/**
 * Attention over a cache in one kernel, which writes the new keys and values into the cache: its outputs are the buffers
 * that it reads. Only callers of the C interface can give an output such a place.
 */
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import { elementTypes, type OnnxBuilder } from './builder.js';

/** An input that a run writes, and the output that is it. */
export interface UpdatedInput {
  readonly input: string;
  readonly output: string;
}

export function readsCache(tensor: Tensor): tensor is TensorOf<'attention'> {
  return tensor.operation === 'attention' && tensor.attributes.segments[0] === 'cache';
}

export function lowerInPlace(
  builder: OnnxBuilder,
  { attributes: { heads, keyValueHeads, scale }, inputs }: TensorOf<'attention'>,
  [queries, mask, cachedKeys, cachedValues, keys, values]: readonly string[],
): { readonly result: string; readonly updates: readonly UpdatedInput[] } {
  const columns = builder.node('Shape', [mask!], { attributes: { start: 3, end: 4 } });
  const seen = builder.node('Cast', [columns], { attributes: { to: elementTypes.int32 } });
  const last = builder.node('Sub', [seen, builder.constant('int32', [1], [1])]);
  const [result, ...updated] = builder.nodeOutputs(
    'GroupQueryAttention',
    [queries!, keys!, values!, cachedKeys!, cachedValues!, last, seen, '', '', '', mask!],
    {
      domain: 'com.microsoft',
      attributes: { num_heads: heads, kv_num_heads: keyValueHeads, scale: { float: scale } },
      outputs: 3,
    },
  );
  const updates = updated.map((output, index) => {
    const { shape, dtype } = inputs[2 + index]!;
    builder.plainOutput(output, shape, dtype);
    return { input: [cachedKeys!, cachedValues!][index]!, output };
  });
  return { result: result!, updates };
}
