import type { Tensor } from '../../graph/tensor.js';

/** What lies where a reshape lies. */
export function rootOf(tensor: Tensor): Tensor {
  let root = tensor;
  while (root.operation === 'reshape') root = root.inputs[0]!;
  return root;
}
