import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addDimensions, symbol } from '../../src/graph/dimension.js';
import { attention, rotate } from '../../src/graph/operations/attention.js';
import { contract, matmul, expertProduct } from '../../src/graph/operations/contraction.js';
import * as elementwise from '../../src/graph/operations/elementwise.js';
import * as drawing from '../../src/graph/operations/indexing.js';
import * as indexing from '../../src/graph/operations/indexing.js';
import { constant, input, weight, type Tensor } from '../../src/graph/tensor.js';
import * as reductions from '../../src/graph/operations/reductions.js';
import * as shaping from '../../src/graph/operations/shaping.js';
import { float32 } from '../../src/runtime/program.js';
import { createInterpreter, interpret } from './interpreter.js';

// Worked out by hand: the oracle answers to arithmetic, everything else answers to the oracle.
const vector = (...values: number[]): Tensor => constant(values, [values.length]);
const integers = (...values: number[]): Tensor => constant(values, [values.length], 'int32');
const flags = (...values: number[]): Tensor => constant(values, [values.length], 'bool');
const matrix = constant([1, 2, 3, 4, 5, 6], [2, 3]);

const sums: readonly (readonly [string, Tensor, readonly number[], readonly number[]])[] = [
  ['negate', elementwise.negate(vector(1, -2)), [2], [-1, 2]],
  ['exponential', elementwise.exponential(vector(0, Math.log(3))), [2], [1, 3]],
  ['logarithm', elementwise.logarithm(vector(1, Math.E)), [2], [0, 1]],
  ['reciprocalSquareRoot', elementwise.reciprocalSquareRoot(vector(4, 0.25)), [2], [0.5, 2]],
  ['sigmoid', elementwise.sigmoid(vector(0, Math.log(3))), [2], [0.5, 0.75]],
  ['silu', elementwise.silu(vector(0, Math.log(3))), [2], [0, 0.75 * Math.log(3)]],
  ['cast to int32', elementwise.cast(vector(1.9, -1.9), 'int32'), [2], [1, -1]],
  [
    'cast to bfloat16',
    elementwise.cast(vector(1 + 2 ** -8, 1 + 3 * 2 ** -8, 1e39), 'bfloat16'),
    [3],
    [1, 1 + 2 ** -6, Infinity],
  ],
  ['cast to float16', elementwise.cast(vector(2049, 2051, 65520), 'float16'), [3], [2048, 2052, Infinity]],
  ['constant in bfloat16', constant([1 / 3], [1], 'bfloat16'), [1], [0.333984375]],
  ['cast to bool', elementwise.cast(vector(0, -0.5), 'bool'), [2], [0, 1]],
  [
    'add with broadcasting',
    elementwise.add(matrix, constant([10, 20], [2, 1])),
    [2, 3],
    [11, 12, 13, 24, 25, 26],
  ],
  ['subtract', elementwise.subtract(vector(5, 1), 3), [2], [2, -2]],
  ['multiply int32', elementwise.multiply(integers(2 ** 20, -3), integers(2 ** 12, 5)), [2], [0, -15]],
  ['divide int32', elementwise.divide(integers(7, -7), integers(2, 2)), [2], [3, -3]],
  ['maximum', elementwise.maximum(vector(1, 5), vector(3, 4)), [2], [3, 5]],
  ['minimum', elementwise.minimum(vector(1, 5), vector(3, 4)), [2], [1, 4]],
  ['greater', elementwise.greater(vector(1, 5, 2), 2), [3], [0, 1, 0]],
  ['equal', elementwise.equal(integers(1, 2), integers(1, 3)), [2], [1, 0]],
  ['select', elementwise.select(flags(1, 0), vector(1, 2), vector(3, 4)), [2], [1, 4]],
  ['matmul', matmul(matrix, constant([1, 0, 0, 1, 1, 1], [3, 2])), [2, 2], [4, 5, 10, 11]],
  ['contract with scale', contract(matrix, matrix, 'a b, a b -> a', 2), [2], [28, 154]],
  [
    'contract to the outer product',
    contract(vector(1, 2), vector(3, 4), 'a, b -> b a'),
    [2, 2],
    [3, 6, 4, 8],
  ],
  ['reshape', shaping.reshape(matrix, [3, 2]), [3, 2], [1, 2, 3, 4, 5, 6]],
  ['transpose', shaping.transpose(matrix, [1, 0]), [3, 2], [1, 4, 2, 5, 3, 6]],
  [
    'transpose of three axes',
    shaping.transpose(shaping.reshape(matrix, [1, 2, 3]), [2, 0, 1]),
    [3, 1, 2],
    [1, 4, 2, 5, 3, 6],
  ],
  ['broadcast', shaping.broadcast(vector(1, 2), [2, 2]), [2, 2], [1, 2, 1, 2]],
  ['slice', shaping.slice(matrix, 1, 1), [2, 2], [2, 3, 5, 6]],
  ['pad', shaping.pad(vector(1, 2), 0, 1, 2), [5], [0, 1, 2, 0, 0]],
  [
    'concatenate',
    shaping.concatenate([matrix, constant([7, 8], [2, 1])], 1),
    [2, 4],
    [1, 2, 3, 7, 4, 5, 6, 8],
  ],
  ['sum', reductions.sum(matrix, [0]), [1, 3], [5, 7, 9]],
  ['reduceMaximum', reductions.reduceMaximum(matrix), [2, 1], [3, 6]],
  ['softmax', reductions.softmax(vector(0, Math.log(3))), [2], [0.25, 0.75]],
  ['softmax of large values', reductions.softmax(vector(1e4, 1e4)), [2], [0.5, 0.5]],
  ['logSoftmax', reductions.logSoftmax(vector(0, Math.log(3))), [2], [Math.log(0.25), Math.log(0.75)]],
  ['rmsNorm', reductions.rmsNorm(vector(1, 7), vector(1, 2), 0), [2], [0.2, 2.8]],
  [
    'rotate',
    rotate(constant([1, 2, 3, 4], [1, 1, 1, 4]), constant([0, 1], [1, 2]), constant([1, 0], [1, 2])),
    [1, 1, 1, 4],
    [-3, 2, 1, 4],
  ],
  [
    'attention: weights of 1/4 and 3/4, and a column that the mask hides',
    attention(
      constant([1], [1, 1, 1, 1]),
      [
        { kind: 'shared', keys: constant([0, 9], [2, 1, 1]), values: constant([8, 100], [2, 1, 1]) },
        { kind: 'own', keys: constant([2], [1, 1, 1, 1]), values: constant([16], [1, 1, 1, 1]) },
      ],
      constant([0, -Infinity, 0], [1, 3]),
      { heads: 1, keyValueHeads: 1, scale: Math.log(3) / 2 },
    ),
    [1, 1, 1, 1],
    [14],
  ],
  [
    'attention: heads of a group share keys, row t sees row t of a diagonal',
    attention(
      constant([0, 1, 0, 1], [1, 2, 2, 1]),
      [
        { kind: 'own', keys: constant([0], [1, 1, 1, 1]), values: constant([4], [1, 1, 1, 1]) },
        { kind: 'diagonal', keys: constant([1, 2], [1, 2, 1, 1]), values: constant([8, 12], [1, 2, 1, 1]) },
      ],
      constant([0, 0], [2, 1]),
      { heads: 2, keyValueHeads: 1, scale: Math.log(3) },
    ),
    [1, 2, 2, 1],
    [6, 7, 8, 11.2],
  ],
  [
    'attention: each lane has its own mask and its own heads',
    attention(
      constant([1, 1], [1, 1, 2, 1]),
      [
        {
          kind: 'shared',
          keys: constant([1, 1, 1, 1], [2, 2, 1]),
          values: constant([1, 2, 3, 4], [2, 2, 1]),
        },
      ],
      constant([0, -Infinity, -Infinity, 0], [2, 1, 1, 2]),
      { heads: 1, keyValueHeads: 1, scale: 1 },
    ),
    [1, 1, 2, 1],
    [1, 4],
  ],
  [
    'expertProduct',
    expertProduct(constant([1, 2, 1, 2], [2, 2]), constant([1, 2, 3, 4], [2, 2]), integers(1, 0), 2),
    [2, 1],
    [10, 7],
  ],
  [
    'expertProduct with transposed matrices',
    expertProduct(constant([1, 2], [2, 1]), constant([1, 2, 3, 4], [2, 2]), integers(1, 0), 2, true),
    [2, 2],
    [2, 4, 2, 6],
  ],
  ['gatherRows', indexing.gatherRows(matrix, integers(1, 0, 1)), [3, 3], [4, 5, 6, 1, 2, 3, 4, 5, 6]],
  [
    'scatterAddRows',
    indexing.scatterAddRows(constant([0, 0, 0], [3, 1]), integers(2, 0, 2), constant([1, 2, 3], [3, 1])),
    [3, 1],
    [2, 0, 4],
  ],
  ['pick', indexing.pick(matrix, integers(2, 0)), [2], [3, 4]],
  ['oneHot', indexing.oneHot(integers(1, 0), 3), [2, 3], [0, 1, 0, 1, 0, 0]],
  ['argmax', indexing.argmax(constant([1, 3, 3, 2, 0, 1], [2, 3])), [2], [1, 0]],
  ['topValues', indexing.topValues(vector(1, 3, 2), 2), [2], [3, 2]],
  ['topIndices', indexing.topIndices(vector(3, 1, 3), 3), [3], [0, 2, 1]],
  [
    'keepLikeliest by count, ties to the lower index',
    drawing.keepLikeliest(vector(2, 3, 2, 1), constant(2, [], 'int32'), constant(1)),
    [4],
    [2, 3, -Infinity, -Infinity],
  ],
  [
    // Shares of 0.5, 0.25 and 0.25: the second reaches 0.7.
    'keepLikeliest by mass',
    drawing.keepLikeliest(vector(0, Math.LN2, 0), constant(3, [], 'int32'), constant(0.7)),
    [3],
    [0, Math.LN2, -Infinity],
  ],
  [
    // Of the two that are left by count, the first has a share of 2 / 3.
    'keepLikeliest by the mass that the count leaves',
    drawing.keepLikeliest(vector(0, Math.LN2, 0), constant(2, [], 'int32'), constant(0.6)),
    [3],
    [-Infinity, Math.LN2, -Infinity],
  ],
  [
    'draw',
    drawing.draw(constant([0, 2, 0, 6, 0, 2, 0, 6], [2, 4]), constant([0.24, 0.25], [2])),
    [2],
    [1, 3],
  ],
];

describe('interpret', () => {
  it.each(sums)('%s', (_, output, shape, expected) => {
    const { result } = interpret({ result: output }, {});
    expect(result!.shape).toEqual(shape);
    expect(result!.data.length).toBe(expected.length);
    expected.forEach((value, at) => {
      expect(result!.data[at]).toBeCloseTo(value, 12);
    });
  });

  it('keeps double precision from end to end', () => {
    const { y } = interpret(
      { y: elementwise.add(input('x', []), 1) },
      { x: { shape: [], data: Float64Array.of(2 ** -40) } },
    );
    expect(y!.data[0]).toBe(1 + 2 ** -40);
  });

  it.each([
    ['gatherRows', indexing.gatherRows(matrix, integers(2))],
    ['pick', indexing.pick(matrix, integers(0, -1))],
    ['oneHot', indexing.oneHot(integers(3), 3)],
  ] as const)('refuses an index outside in %s', (operation, output) => {
    expect(() => interpret({ output }, {})).toThrow(`${operation}: index`);
  });

  it('refuses a slice that the sizes of this run do not hold', () => {
    const [n, m] = [symbol('n'), symbol('m')];
    const outputs = { y: shaping.slice(input('x', [n]), 0, 0, m), other: input('z', [m]) };
    const ones = (size: number) => ({ shape: [size], data: new Float64Array(size) });
    expect(interpret(outputs, { x: ones(3), z: ones(2) }).y!.shape).toEqual([2]);
    expect(() => interpret(outputs, { x: ones(3), z: ones(4) })).toThrow(
      'slice: positions 0 to 4 lie outside',
    );
  });

  it('takes empty inputs: nothing sums to nothing, and a past of no rows is no past', () => {
    const [n, none] = [symbol('n'), { shape: [0, 1, 2], data: new Float64Array() }];
    const rows = input('rows', [1, 2, 1, 2]);
    const segment = { kind: 'own' as const, keys: rows, values: rows };
    const past = input('past', [n, 1, 2]);
    const sizes = { heads: 1, keyValueHeads: 1, scale: 1 };
    const found = interpret(
      {
        sum: reductions.sum(past, [0]),
        largest: reductions.reduceMaximum(shaping.transpose(past, [1, 2, 0])),
        softmax: reductions.softmax(shaping.transpose(past, [1, 2, 0])),
        product: contract(past, past, 'a b i, a b j -> i j'),
        joined: shaping.concatenate([past, shaping.reshape(rows, [2, 1, 2])], 0),
        withPast: attention(
          rows,
          [{ kind: 'shared', keys: past, values: past }, segment],
          input('mask', [2, addDimensions(n, 2)]),
          sizes,
        ),
        without: attention(rows, [segment], constant([0, -1, 0, 0], [2, 2]), sizes),
      },
      {
        rows: { shape: [1, 2, 1, 2], data: Float64Array.of(1, 2, 3, 4) },
        mask: { shape: [2, 2], data: Float64Array.of(0, -1, 0, 0) },
        past: none,
      },
    );
    expect(found.sum).toEqual({ shape: [1, 1, 2], data: new Float64Array(2) });
    expect([...found.largest!.data]).toEqual([-Infinity, -Infinity]);
    expect(found.softmax).toEqual({ shape: [1, 2, 0], data: new Float64Array() });
    expect(found.product).toEqual({ shape: [2, 2], data: new Float64Array(4) });
    expect([...found.joined!.data]).toEqual([1, 2, 3, 4]);
    expect(found.withPast).toEqual(found.without);
  });

  it('refuses to choose from nothing', () => {
    const outputs = { top: indexing.argmax(input('x', [symbol('n')])) };
    expect(() => interpret(outputs, { x: { shape: [0], data: new Float64Array() } })).toThrow(
      'argmax: cannot take 1 of 0 values.',
    );
  });

  it('refuses a length that no input carries', () => {
    const zeros = shaping.broadcast(constant(0), [symbol('n')]);
    expect(() => interpret({ zeros }, {})).toThrow('The graph needs the length "n"');
  });
});

describe('createInterpreter', () => {
  it('reads weights from files and from memory', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mistletoe-interpreter-'));
    try {
      const path = join(folder, 'weights.bin');
      await writeFile(path, new Uint8Array(Float32Array.of(9, 9, 1, 2, 3).buffer));
      const runtime = createInterpreter();
      const program = await runtime.compile({ y: elementwise.add(weight('a', [2]), weight('b', [2])) }, [
        { kind: 'file', path, tensors: new Map([['a', { shape: [2], offsetBytes: 8, sizeBytes: 8 }]]) },
        { kind: 'memory', tensors: new Map([['b', { shape: [2], data: Float32Array.of(10, 20) }]]) },
      ]);
      expect((await program.run({})).y).toEqual(float32(Float32Array.of(11, 22), [2]));
      await expect(
        runtime.compile({ y: weight('a', [4]) }, [
          { kind: 'file', path, tensors: new Map([['a', { shape: [4], offsetBytes: 8, sizeBytes: 16 }]]) },
        ]),
      ).rejects.toThrow('ends within "a": 12 bytes of 16 are there');
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('refuses inputs as a rejected run', async () => {
    const program = await createInterpreter().compile({ y: input('x', [2]) });
    await expect(program.run({})).rejects.toThrow('needs an input "x"');
  });
});
