/** Shifts along the position axis [batch, position, ...], by which drafted tokens are paired with what they see. */
import type { Dimension } from '../graph/dimension.js';
import { subtractDimensions } from '../graph/dimension.js';
import type { Tensor } from '../graph/tensor.js';
import { slice } from '../graph/operations/shaping.js';

export function dropFirst(x: Tensor, count: Dimension): Tensor {
  return count === 0 ? x : slice(x, 1, count);
}

export function dropLast(x: Tensor, count: number): Tensor {
  return count === 0 ? x : slice(x, 1, 0, subtractDimensions(x.shape[1]!, count));
}
