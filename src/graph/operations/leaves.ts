import { formatShape, type Shape } from '../dimension.js';
import { createTensor, refuse, type DType, type GradientRules, type Tensor } from '../tensor.js';

/** A value given at every run. */
export function input(name: string, shape: Shape, dtype: DType = 'float32'): Tensor {
  return createTensor('input', [], { name }, { shape, dtype });
}

/** A parameter, found by name in the weights that a program is compiled with. */
export function weight(name: string, shape: readonly number[], dtype: DType = 'float32'): Tensor {
  return createTensor('weight', [], { name }, { shape, dtype });
}

export function constant(
  values: number | readonly number[],
  shape: readonly number[] = [],
  dtype: DType = 'float32',
): Tensor {
  const list = typeof values === 'number' ? [values] : values;
  const expected = shape.reduce((product, size) => product * size, 1);
  if (list.length !== expected) {
    refuse('constant', `${list.length} values do not fill the shape ${formatShape(shape)}`, []);
  }
  return createTensor('constant', [], { values: list }, { shape, dtype });
}

export const leafGradients: GradientRules<'input' | 'weight' | 'constant'> = {
  input: () => [],
  weight: () => [],
  constant: () => [],
};
