import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planContraction, readMatrixProduct } from './contraction-plan.js';
import { symbol } from './dimension.js';
import { contract, matmul } from './operations/contraction.js';
import { input, type Tensor, sortTopologically } from './tensor.js';
import { simplify } from './simplify.js';
import { contractionLayouts } from '../../test/support/graph/contraction-layouts.js';

/** Axes in capitals are symbols, others have a length of 4. */
function build(equation: string): Tensor {
  const shapeOf = (names: string) =>
    names
      .trim()
      .split(/\s+/)
      .filter(Boolean)
      .map((name) => (name === name.toUpperCase() ? symbol(name) : name === 'one' ? 1 : 4));
  const [left, right] = equation.split('->')[0]!.split(',');
  return contract(input('x', shapeOf(left!)), input('y', shapeOf(right!)), equation, 0.5);
}

const plan = (output: Tensor): string[] =>
  sortTopologically([simplify({ output }, [planContraction]).output!])
    .map(({ operation }) => operation)
    .filter((operation) => operation !== 'input');

describe('planContraction', () => {
  it.each([
    ['a layer', 'B T i, i o -> B T o', ['contract']],
    ['a layer kept [out, in]', 'B T i, o i -> B T o', ['contract']],
    ['scores of one sequence', 'T k d, U k d -> k T U', ['contract']],
    ['its mixed values', 'k T U, U k d -> k T d', ['contract']],
    ['the gradient of its values', 'k T U, k T d -> U k d', ['contract', 'transpose']],
    ['a gradient by a layer', 'B T i, B T o -> i o', ['reshape', 'reshape', 'contract']],
    ['sides the other way round', 'i o, T i -> T o', ['contract']],
    ['a batch of length 1', 'one T k d, U k d -> one k T U', ['reshape', 'contract', 'reshape']],
  ] as const)('multiplies matrices: %s', (_, equation, expected) => {
    expect(plan(build(equation)).sort()).toEqual([...expected].sort());
  });

  it.each([
    ['an outer product', 'T, U -> T U', ['reshape', 'reshape', 'multiply', 'constant', 'multiply']],
    ['equal axes', 'B T, B T -> B T', ['multiply', 'constant', 'multiply']],
    ['rows by rows', 'B T i, B T i -> B T', ['multiply', 'constant', 'multiply', 'sum', 'reshape']],
  ] as const)('multiplies elements: %s', (_, equation, expected) => {
    expect(plan(build(equation)).sort()).toEqual([...expected].sort());
  });

  it('leaves a stack of matrices as it is', () => {
    const product = matmul(input('x', [symbol('B'), 2, symbol('T'), 3]), input('y', [3, 5]));
    expect(planContraction(product)).toBeUndefined();
    expect(
      readMatrixProduct({ left: ['b', 'r', 'i'], right: ['b', 'c', 'i'], output: ['b', 'r', 'c'], scale: 1 }),
    ).toEqual({
      left: { innerFirst: false, batchInside: false },
      right: { innerFirst: false, batchInside: false },
    });
  });

  it('leaves no contraction that is not a product of matrices', () => {
    fc.assert(
      fc.property(contractionLayouts, ({ tensor }) => {
        const planned = simplify({ tensor }, [planContraction]).tensor!;
        expect(planned.shape).toEqual(tensor.shape);
        for (const node of sortTopologically([planned])) {
          if (node.operation === 'contract') expect(readMatrixProduct(node.attributes)).toBeDefined();
        }
        const transposed = sortTopologically([planned]).filter(({ operation }) => operation === 'transpose');
        expect(transposed.length).toBeLessThanOrEqual(3);
      }),
      { numRuns: 500, seed: 3 },
    );
  });
});
