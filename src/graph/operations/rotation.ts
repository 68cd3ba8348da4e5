/**
 * Rotary position embedding: pairs (x[i], x[i + half]) of each head are turned by an angle that grows with the
 * position (Su et al., 2104.09864, in the half-split order of the Llama checkpoints).
 */
import { equalDimensions, equalShapes, isMultiple } from '../dimension.js';
import { createTensor, refuse, requireDType, type GradientRules, type Tensor } from '../tensor.js';
import { negate } from './elementwise.js';

/** x [batch, position, head, width] or [batch, position, head * width], cosine and sine [position, width / 2]. */
export function rotate(x: Tensor, cosine: Tensor, sine: Tensor): Tensor {
  for (const tensor of [x, cosine, sine]) requireDType('rotate', tensor, 'float32');
  const [positions, pairs] = cosine.shape;
  const width = typeof pairs === 'number' ? 2 * pairs : 0;
  const last = x.shape.at(-1);
  const fits =
    cosine.shape.length === 2 &&
    equalShapes(cosine.shape, sine.shape) &&
    width > 0 &&
    ((x.shape.length === 4 && last === width) || (x.shape.length === 3 && isMultiple(last!, width))) &&
    equalDimensions(x.shape[1]!, positions!);
  if (!fits) refuse('rotate', 'needs one angle for each position and pair', [x, cosine, sine]);
  return createTensor('rotate', [x, cosine, sine], {}, { shape: x.shape, dtype: 'float32' });
}

export const rotationGradients: GradientRules<'rotate'> = {
  // A rotation's transpose turns back. Angles come from positions, which have no gradient.
  rotate: ({ inputs: [, cosine, sine] }, g) => [rotate(g, cosine!, negate(sine!)), undefined, undefined],
};
