/**
 * Common declarations of attention kernels, for `head` of `sequence` with `rows` and `columns`. Heads belong to
 * lanes, and within a lane to groups that share a key-value head.
 */
import { multiplyDimensions } from '../../../graph/dimension.js';
import { lanesOf, ownersOfMask } from '../../../graph/operations/attention-view.js';
import type { Tensor, TensorOf } from '../../../graph/tensor.js';
import type { KernelText } from './kernel-text.js';

export function declareAttentionSizes(
  text: KernelText,
  { shape, inputs, attributes }: TensorOf<'attention'>,
): void {
  const [, position, heads] = shape;
  const mask = inputs[1]!;
  const keyHeads = multiplyDimensions(lanesOf(mask), attributes.keyValueHeads);
  text.line(`const int rows = ${text.dimension(position!)};`);
  text.line(`const int heads = ${text.dimension(heads!)};`);
  text.line(`const int keyHeads = ${text.dimension(keyHeads)};`);
  text.line(`const int columns = ${text.dimension(mask.shape.at(-1)!)};`);
}

export function declareKeyHead(text: KernelText, { attributes }: TensorOf<'attention'>): void {
  const { heads, keyValueHeads } = attributes;
  text.line(`const int laneOf = head / ${heads};`);
  text.line(`const int commonHead = (head % ${heads}) / ${heads / keyValueHeads};`);
  text.line(`const int keyHead = laneOf * ${keyValueHeads} + commonHead;`);
}

export function findMaskRow(mask: Tensor, row: string): string {
  const before = { all: undefined, batch: 'sequence', lanes: 'laneOf' }[ownersOfMask(mask)];
  return before === undefined ? row : `(${before} * rows + ${row})`;
}
