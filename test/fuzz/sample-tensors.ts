import type { WritableTensors } from '../support/checkpoint/encode-values.js';

/** Every type of number that is read, in few bytes: damage to a small file hits what matters. */
export const sampleTensors: WritableTensors = {
  'layer.0.weight': { dtype: 'F16', shape: [4, 3], values: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] },
  'layer.0.bias': { dtype: 'F32', shape: [4], values: [0.5, 1, 2, 3] },
  'layer.0.scale': { dtype: 'BF16', shape: [1, 2], values: [1, 2] },
  double: { dtype: 'F64', shape: [1], values: [3] },
  d2t: { dtype: 'I64', shape: [3], values: [0, 5, 9] },
  ids: { dtype: 'I32', shape: [2], values: [7, 8] },
  bytes: { dtype: 'U8', shape: [3], values: [1, 2, 3] },
  t2d: { dtype: 'BOOL', shape: [5], values: [1, 0, 1, 0, 1] },
};
