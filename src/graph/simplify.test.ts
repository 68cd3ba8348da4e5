import { describe, expect, it } from 'vitest';
import { symbol } from './dimension.js';
import { gradient } from './gradient.js';
import { add, cast, exponential, multiply, sigmoid, stopGradient } from './operations/elementwise.js';
import { scatterAddRows } from './operations/indexing.js';
import { constant, input, weight, type Tensor, sortTopologically } from './tensor.js';
import { softmax, sum } from './operations/reductions.js';
import { broadcast, pad, reshape, slice, transpose } from './operations/shaping.js';
import { simplify } from './simplify.js';

const [n, m] = [symbol('n'), symbol('m')];
const x = input('x', [n, 6]);

const simplified = (output: Tensor): Tensor => simplify({ output }).output!;
const operations = (...outputs: Tensor[]): string[] =>
  sortTopologically(Object.values(simplify(Object.fromEntries(outputs.entries())))).map(
    ({ operation }) => operation,
  );

describe('what moves nothing', () => {
  it.each([
    ['a reshape there and back', reshape(reshape(x, [n, 2, 3]), [n, 6])],
    ['two orders that cancel', transpose(transpose(x, [1, 0]), [1, 0])],
    ['the order that there was', transpose(x, [0, 1])],
    ['a broadcast to its own shape', broadcast(x, [n, 6])],
    ['a cast to its own type', cast(x, 'float32')],
    ['the end of a gradient', stopGradient(x)],
    ['a slice of everything', slice(x, 0, 0)],
    ['a pad by nothing', pad(x, 1, 0, 0)],
    ['a sum over one', sum(reshape(x, [n, 6, 1]), [2])],
    ['all of them', stopGradient(reshape(transpose(slice(reshape(x, [n, 1, 6]), 0, 0), [1, 0, 2]), [n, 6]))],
  ] as const)('goes: %s', (_, output) => {
    expect(simplified(reshape(output, [n, 6]))).toBe(x);
  });

  it.each([
    ['a slice of a part', slice(x, 1, 1), ['input', 'slice']],
    ['a slice that symbols bound', slice(input('y', [n]), 0, 0, m), ['input', 'slice']],
    ['a pad', pad(x, 0, n, 0), ['input', 'pad']],
    ['a cast', cast(x, 'int32'), ['input', 'cast']],
  ] as const)('stays: %s', (_, output, expected) => {
    expect(operations(output)).toEqual(expected);
  });

  it('reshapes once what is reshaped twice', () => {
    const output = reshape(reshape(x, [n, 2, 3]), [3, n, 2]);
    expect(operations(output)).toEqual(['input', 'reshape']);
    expect(simplified(output).shape).toEqual([3, n, 2]);
  });

  it('joins two orders into one', () => {
    const y = input('y', [2, n, m, 5]);
    const output = transpose(transpose(y, [3, 0, 2, 1]), [2, 3, 0, 1]);
    expect(simplified(output)).toMatchObject({ operation: 'transpose', attributes: { order: [2, 1, 3, 0] } });
    expect(simplified(output).shape).toEqual(output.shape);
  });

  it('reshapes where only axes of length 1 change places', () => {
    const output = transpose(input('y', [1, n, 1, 5]), [1, 0, 3, 2]);
    expect(operations(output)).toEqual(['input', 'reshape']);
  });
});

describe('casts', () => {
  it.each(['bfloat16', 'float16'] as const)(
    'go where they widen %s and come back, and stay where they round',
    (type) => {
      const half = input('half', [n], type);
      expect(simplified(cast(cast(half, 'float32'), type))).toBe(half);
      const other = type === 'bfloat16' ? 'float16' : 'bfloat16';
      expect(operations(cast(cast(half, 'float32'), other))).toEqual(['input', 'cast', 'cast']);
      expect(operations(cast(cast(x, type), 'float32'))).toEqual(['input', 'cast', 'cast']);
      expect(operations(cast(cast(x, 'int32'), 'float32'))).toEqual(['input', 'cast', 'cast']);
    },
  );
});

describe('what is computed once', () => {
  it('are expressions that were built twice, by weights and inputs of one name too', () => {
    const build = (): Tensor => softmax(add(input('x', [n, 6]), weight('w', [6])));
    expect(operations(add(build(), build()))).toEqual(['input', 'weight', 'add', 'softmax', 'add']);
    expect(operations(build(), build())).toEqual(['input', 'weight', 'add', 'softmax']);
  });

  it('is the forward pass that a gradient repeats', () => {
    const y = sigmoid(exponential(x));
    const [g] = gradient(sum(multiply(y, y), [0, 1]), [x]);
    const repeated = operations(y, g!).filter((name) => name === 'exponential' || name === 'sigmoid');
    expect(repeated).toEqual(['exponential', 'sigmoid']);
  });

  it.each([
    ['infinities', Infinity, -Infinity],
    ['NaN and infinity', NaN, Infinity],
    ['zeros', 0, -0],
    ['numbers', 1, 1.5],
  ])('are never different constants: %s', (_, left, right) => {
    expect(operations(constant(left), constant(right))).toHaveLength(2);
    expect(operations(constant(left), constant(left))).toHaveLength(1);
  });

  it('is not what differs in shape, type or attributes', () => {
    expect(operations(constant([1], [1]), constant([1], []))).toHaveLength(2);
    expect(operations(constant(1), constant(1, [], 'int32'))).toHaveLength(2);
    expect(operations(slice(x, 1, 0, 2), slice(x, 1, 1, 3))).toHaveLength(3);
  });
});

describe('what is dead', () => {
  it('is not reached any more: a table of which only the shape is needed', () => {
    const table = exponential(weight('table', [5, 2]));
    const output = scatterAddRows(table, input('at', [n], 'int32'), input('rows', [n, 2]));
    expect(operations(output)).not.toContain('exponential');
    expect(operations(output)).not.toContain('weight');
  });

  it('is no table of other numbers than zeros', () => {
    const fives = broadcast(constant(5), [5, 2]);
    const output = simplified(scatterAddRows(fives, input('at', [n], 'int32'), input('rows', [n, 2])));
    expect(output.inputs[0]).toMatchObject({
      operation: 'broadcast',
      inputs: [{ attributes: { values: [0] } }],
    });
  });
});

describe('simplify', () => {
  it('keeps names, shapes and types of the outputs, and changes nothing the second time', () => {
    const outputs = { a: reshape(reshape(x, [6, n]), [n, 6]), b: cast(x, 'bool'), c: stopGradient(x) };
    const once = simplify(outputs);
    expect(Object.keys(once)).toEqual(['a', 'b', 'c']);
    expect(once.b!.dtype).toBe('bool');
    const twice = simplify(once);
    for (const name of Object.keys(once)) expect(twice[name]).toBe(once[name]);
  });

  it('applies the forms that a lowering asks for, and simplifies what they make', () => {
    const negated = simplify({ output: exponential(x) }, [
      (tensor) =>
        tensor.operation === 'exponential'
          ? sigmoid(reshape(reshape(tensor.inputs[0]!, [6, n]), [n, 6]))
          : undefined,
    ]);
    expect(negated.output).toMatchObject({ operation: 'sigmoid', inputs: [{ operation: 'input' }] });
  });

  it('goes through graphs deeper than the call stack', () => {
    let deep: Tensor = x;
    for (let level = 0; level < 20_000; level++) deep = stopGradient(sigmoid(deep));
    expect(operations(deep)).toHaveLength(20_001);
  });
});
