import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { cosine, createProjection, formatProjection, projectGradient } from './projection.js';

const size = 4000;
function randomVector(name: string, scale = 1): Float32Array {
  const random = createRandom(11, name);
  return Float32Array.from({ length: size }, () => scale * (random.next() - 0.5));
}
const degradation = randomVector('degradation', 1e-3);
const preservation = degradation.map((value, index) => 0.5 * value + randomVector('other', 1e-3)[index]!);

describe('projection', () => {
  it('is the gradient itself where there is none', () => {
    expect(projectGradient(degradation, [preservation], { kind: 'none' })).toEqual(degradation);
  });

  it('is orthogonal to the preservation gradient at lambda 1', () => {
    expect(Math.abs(cosine(degradation, preservation))).toBeGreaterThan(0.2);
    const projected = projectGradient(degradation, [preservation], { kind: 'direction', weight: 1 });
    expect(Math.abs(cosine(projected, preservation))).toBeLessThan(1e-6);
  });

  it('turns the component around at lambda 2, as the paper does', () => {
    const projected = projectGradient(degradation, [preservation], { kind: 'direction', weight: 2 });
    expect(cosine(projected, preservation)).toBeCloseTo(-cosine(degradation, preservation), 5);
  });

  it('does not change at lambda 0, nor without a preservation gradient', () => {
    const zero = new Float32Array(size);
    expect(projectGradient(degradation, [preservation], { kind: 'direction', weight: 0 })).toEqual(
      degradation,
    );
    expect(projectGradient(degradation, [zero], { kind: 'direction', weight: 2 })).toEqual(degradation);
    expect(projectGradient(degradation, [zero], { kind: 'subspace' })).toEqual(degradation);
  });

  it('onto the complement of a subspace is orthogonal to the gradient of every position', () => {
    const positions = Array.from({ length: 12 }, (_, index) =>
      randomVector(`position ${index}`, 10 ** -index),
    );
    // Nearly dependent and dependent gradients are the usual case for neighbouring positions.
    const nearly = positions[0]!.map((value, index) => value + 1e-3 * positions[1]![index]!);
    const all = [...positions, nearly, positions[3]!];
    const projected = projectGradient(degradation, all, { kind: 'subspace' });
    for (const gradient of all) expect(Math.abs(cosine(projected, gradient))).toBeLessThan(1e-6);
    expect(cosine(projected, degradation)).toBeGreaterThan(0.9);
  });

  it('is read and written by name', () => {
    expect(formatProjection(createProjection('direction', 2))).toBe('direction(2)');
    expect(formatProjection(createProjection('subspace', 2))).toBe('subspace');
  });
});
