import { MistletoeError } from '../core/errors.js';
import { isHalf } from '../core/half-floats.js';
import { formatShape } from '../graph/dimension.js';
import type { TensorOf } from '../graph/tensor.js';
import type { DirectWeight, WeightLocation, WeightStore, WeightValues } from './weights.js';

/**
 * The store that has the weight in the expected shape and type.
 * @param isFactor read by a matrix product; some stores serve only those
 */
export function findWeight(
  weights: readonly WeightStore[],
  tensor: TensorOf<'weight'>,
  isFactor = false,
): WeightStore {
  const { name } = tensor.attributes;
  for (const store of weights) {
    const entry = store.tensors.get(name);
    if (entry === undefined || ('isForProducts' in store && !isFactor)) continue;
    const expected = formatShape(tensor.shape);
    const found = formatShape(entry.shape);
    if (found !== expected) {
      throw new MistletoeError(
        'shape',
        `Weight "${name}" has shape ${found}, the graph expects ${expected}.`,
      );
    }
    const { dtype = 'float32' } = 'parts' in entry ? {} : entry;
    if (dtype !== tensor.dtype && !(isHalf(dtype) && tensor.dtype === 'float32')) {
      throw new MistletoeError(
        'checkpoint',
        `Weight "${name}" is stored as ${dtype}, the graph expects ${tensor.dtype}.`,
      );
    }
    const held = countBytes(entry);
    const needed = countElements(entry.shape) * (isHalf(dtype) ? 2 : 4);
    if (held !== needed) {
      throw new MistletoeError(
        'checkpoint',
        `Weight "${name}" has ${held} bytes, its shape ${found} needs ${needed}.`,
      );
    }
    return store;
  }
  throw new MistletoeError(
    'checkpoint',
    `The graph reads a weight "${name}" that none of the given weights hold.`,
  );
}

/** Checkpoint weights count as float32. */
function countBytes(entry: WeightLocation | WeightValues | DirectWeight): number {
  if ('parts' in entry) return entry.parts.reduce((sum, { shape }) => sum + 4 * countElements(shape), 0);
  return 'data' in entry ? entry.data.byteLength : entry.sizeBytes;
}

const countElements = (shape: readonly number[]): number =>
  shape.reduce((product, size) => product * size, 1);
