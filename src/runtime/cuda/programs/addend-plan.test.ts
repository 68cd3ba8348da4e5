import { describe, expect, it } from 'vitest';
import { planContraction } from '../../../graph/contraction-plan.js';
import { symbol } from '../../../graph/dimension.js';
import { matmul } from '../../../graph/operations/contraction.js';
import { add, multiply } from '../../../graph/operations/elementwise.js';
import { input, weight } from '../../../graph/tensor.js';
import { simplify } from '../../../graph/simplify.js';
import type { NamedTensors } from '../../program.js';
import { scheduleGraph } from './schedule.js';

const x = input('x', [symbol('row'), 16]);
const stream = input('stream', [symbol('row'), 8]);
const product = matmul(x, weight('w', [16, 8]));

/** What each step is, and whether a product adds something. */
function stepsOf(outputs: NamedTensors): readonly string[] {
  const graph = simplify(outputs, [planContraction]);
  const { steps } = scheduleGraph(graph, { productType: 'float32', smallBatches: false, tensorCores: false });
  return steps.map((step) => {
    if (step.kind === 'product') return step.addend === undefined ? 'product' : 'product and addend';
    return step.kind === 'kernel' ? step.result.tensor.operation : step.kind;
  });
}

describe('a product that something is added to', () => {
  it('adds it by itself', () => {
    expect(stepsOf({ y: add(stream, product) })).toEqual(['product and addend']);
    expect(stepsOf({ y: add(product, stream) })).toEqual(['product and addend']);
  });

  it('adds one thing, and the next product the sum', () => {
    const first = add(stream, product);
    const second = add(first, matmul(x, weight('v', [16, 8])));
    expect(stepsOf({ first, second })).toEqual(['product and addend', 'product and addend']);
  });

  it('adds what is there, of two products the later one', () => {
    const sum = add(product, matmul(x, weight('v', [16, 8])));
    expect(stepsOf({ sum })).toEqual(['product', 'product and addend']);
  });

  it('does not where others read the product', () => {
    expect(stepsOf({ y: add(stream, product), product })).toEqual(['product', 'add']);
    expect(stepsOf({ y: add(stream, product), z: multiply(product, 2) })).toEqual([
      'product',
      'add',
      'multiply',
    ]);
  });

  it('does not where something else is computed too, or repeated', () => {
    expect(stepsOf({ y: multiply(add(stream, product), 2) })).toEqual(['product', 'multiply']);
    expect(stepsOf({ y: add(product, weight('bias', [8])) })).toEqual(['product', 'add']);
    expect(stepsOf({ y: add(product, product) })).toEqual(['product', 'add']);
  });
});
