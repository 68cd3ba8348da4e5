/**
 * Null-space projection: what remains of the degradation gradient when the directions that move the target's own distribution
 * are taken out. `direction` removes lambda times the component along the mean preservation gradient, so lambda 1 is
 * exact orthogonality and lambda 2 (the paper's) turns that component around; `subspace` removes the span of the
 * preservation gradients of all answer positions, which is a true null space to first order.
 */
import { MistletoeError } from '../core/errors.js';
import { dot, least, removeSpan } from './span-removal.js';

export type Projection =
  | { readonly kind: 'none' }
  | { readonly kind: 'direction'; readonly weight: number }
  | { readonly kind: 'subspace' };

export const projectionKinds = ['none', 'direction', 'subspace'] as const;

export function parseProjection(kind: string, weight: number): Projection {
  if (kind === 'none' || kind === 'subspace') return { kind };
  if (kind === 'direction') return { kind, weight };
  throw new MistletoeError('usage', `The projection "${kind}" is not known.`, {
    hint: `Choose one of ${projectionKinds.join(', ')}.`,
  });
}

export function formatProjection(projection: Projection): string {
  return projection.kind === 'direction' ? `direction(${projection.weight})` : projection.kind;
}

/**
 * degradation and every preservation gradient are [suffix, vocabulary], flat. `direction` reads their sum's direction,
 * so it may be given the mean gradient alone.
 */
export function projectGradient(
  degradation: Float32Array,
  preservation: readonly Float32Array[],
  projection: Projection,
): Float32Array {
  if (projection.kind === 'none') return degradation;
  if (projection.kind === 'direction') {
    return preservation.reduce((rest, gradient) => {
      const along = dot(gradient, gradient);
      return along < least
        ? rest
        : subtractScaled(rest, gradient, (projection.weight * dot(rest, gradient)) / along);
    }, degradation);
  }
  return removeSpan(degradation, preservation);
}

export function cosine(left: Float32Array, right: Float32Array): number {
  const lengths = Math.sqrt(dot(left, left) * dot(right, right));
  return lengths < least ? 0 : dot(left, right) / lengths;
}

function subtractScaled(from: Float32Array, direction: Float32Array, scale: number): Float32Array {
  return from.map((value, index) => value - scale * direction[index]!);
}
