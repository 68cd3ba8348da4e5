import { describe, expect, it } from 'vitest';
import { createInterpreter } from '../oracle/interpreter.js';
import { type NamedTensors, float32 } from '../../src/runtime/program.js';
import { cutEarly } from '../../src/graph/cut-early.js';
import {
  addDimensions,
  evaluateDimension,
  formatShape,
  subtractDimensions,
  symbol,
} from '../../src/graph/dimension.js';
import { attention, rotate } from '../../src/graph/operations/attention.js';
import { matmul } from '../../src/graph/operations/contraction.js';
import { add, multiply, silu } from '../../src/graph/operations/elementwise.js';
import { input, weight, type Tensor, sortTopologically } from '../../src/graph/tensor.js';
import { rmsNorm, softmax } from '../../src/graph/operations/reductions.js';
import { concatenate, reshape, slice } from '../../src/graph/operations/shaping.js';
import { drawValues, runtimeCases } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const [batch, row, past, window] = [symbol('batch'), symbol('row'), symbol('past'), symbol('window')];
const lengths = new Map([['batch', 2], ['row', 6], ['past', 3], ['window', 2]]); // prettier-ignore
const lead = subtractDimensions(row, window);

const x = input('x', [batch, row, 8]);
const square = (name: string): Tensor => input(name, [8, 8]);
const last = (tensor: Tensor): Tensor => slice(tensor, 1, lead);
// Only so is the window's length known.
const known = input('known', [window]);

async function valuesOf(outputs: NamedTensors): Promise<readonly number[]> {
  const program = await createInterpreter().compile({ ...outputs, known });
  const inputs = Object.fromEntries(
    program.inputs.map(({ name, shape }) => {
      const sizes = shape.map((each) => evaluateDimension(each, lengths)!);
      const count = sizes.reduce((product, size) => product * size, 1);
      const seed = name.charCodeAt(0) + 7 * name.length;
      return [
        name,
        float32(
          Float32Array.from({ length: count }, (_, at) => Math.sin(seed + at * at)),
          sizes,
        ),
      ];
    }),
  );
  const found = await program.run(inputs);
  return Object.keys(outputs).flatMap((name) => [...(found[name]!.data as Float32Array)]);
}

async function expectSame(outputs: NamedTensors): Promise<readonly Tensor[]> {
  const cut = cutEarly(outputs);
  expect(await valuesOf(cut)).toEqual(await valuesOf(outputs));
  return sortTopologically(Object.values(cut));
}

const shapesOf = (all: readonly Tensor[], operation: string): string[] =>
  all.filter((tensor) => tensor.operation === operation).map(({ shape }) => formatShape(shape));

describe('a slice', () => {
  it('is taken before what is done with each row', async () => {
    const normed = rmsNorm(matmul(x, square('w')), input('scale', [8]), 1e-5);
    const all = await expectSame({ y: last(softmax(silu(normed))) });
    expect(shapesOf(all, 'contract')).toEqual(['[batch, window, 8]']);
    expect(shapesOf(all, 'slice')).toEqual(['[batch, window, 8]']);
  });

  it('is taken before what is read twice, if both want the same of it', async () => {
    const stream = add(x, matmul(x, square('w')));
    const next = add(stream, matmul(rmsNorm(stream, input('scale', [8]), 1e-5), square('v')));
    const all = await expectSame({ y: last(next) });
    expect(shapesOf(all, 'contract')).toEqual(['[batch, window, 8]', '[batch, window, 8]']);
  });

  it('stays behind what somebody wants more of', async () => {
    const product = matmul(x, square('w'));
    const all = await expectSame({ y: last(multiply(product, 2)), product });
    expect(shapesOf(all, 'contract')).toEqual(['[batch, row, 8]']);
    expect(shapesOf(all, 'multiply')).toEqual(['[batch, window, 8]']);
    const other = await expectSame({ y: last(product), z: slice(product, 1, 1) });
    expect(shapesOf(other, 'contract')).toEqual(['[batch, row, 8]']);
  });

  it('of columns stays behind a product with weights, of which a part would have to be copied', () => {
    const product = matmul(x, weight('w', [8, 8]));
    const all = sortTopologically(Object.values(cutEarly({ y: slice(product, 2, 1, 5) })));
    expect(shapesOf(all, 'contract')).toEqual(['[batch, row, 8]']);
    const rows = sortTopologically(Object.values(cutEarly({ y: last(product) })));
    expect(shapesOf(rows, 'contract')).toEqual(['[batch, window, 8]']);
  });

  it('of an output leaves the output whole', async () => {
    const product = matmul(x, square('w'));
    await expectSame({ y: last(product), product });
  });

  it('goes through reshapes that keep its axis, and stays behind others', async () => {
    const heads = reshape(matmul(x, square('w')), [batch, row, 2, 4]);
    expect(shapesOf(await expectSame({ y: last(heads) }), 'contract')).toEqual(['[batch, window, 8]']);
    const turned = await expectSame({ y: slice(heads, 2, 1) });
    expect(shapesOf(turned, 'contract')).toEqual(['[batch, row, 8]']);
  });

  it('goes through what is joined along another axis', async () => {
    const joined = concatenate([matmul(x, square('w')), x], -1);
    expect(shapesOf(await expectSame({ y: last(joined) }), 'contract')).toEqual(['[batch, window, 8]']);
    const along = concatenate([matmul(x, square('w')), x], 1);
    const all = await expectSame({ y: slice(along, 1, row) });
    expect(shapesOf(all, 'contract')).toEqual(['[batch, row, 8]']);
  });

  it('is taken of what is not repeated', async () => {
    const bias = input('bias', [row, 1]);
    const all = await expectSame({ y: last(add(x, bias)), z: last(add(x, input('one', [1, 8]))) });
    expect(shapesOf(all, 'add')).toEqual(['[batch, window, 8]', '[batch, window, 8]']);
  });

  it('of attention is one of its queries, not of what they see', async () => {
    const part = (name: string): Tensor => reshape(matmul(x, square(name)), [batch, row, 2, 4]);
    const turned = (name: string): Tensor =>
      rotate(part(name), input('cosine', [row, 2]), input('sine', [row, 2]));
    const mixed = attention(
      turned('q'),
      [
        { kind: 'shared', keys: input('pastKeys', [past, 2, 4]), values: input('pastValues', [past, 2, 4]) },
        { kind: 'own', keys: turned('k'), values: part('v') },
        { kind: 'diagonal', keys: turned('d'), values: part('e') },
      ],
      input('mask', [row, addDimensions(past, row)]),
      { heads: 2, keyValueHeads: 2, scale: 0.5 },
    );
    const all = await expectSame({ y: last(matmul(reshape(mixed, [batch, row, 8]), square('o'))) });
    expect(shapesOf(all, 'attention')).toEqual(['[batch, window, 2, 4]']);
    // Queries, the diagonal's keys and values, and the output; keys and values of all rows.
    expect(shapesOf(all, 'contract').sort()).toEqual([
      ...new Array<string>(2).fill('[batch, row, 8]'),
      ...new Array<string>(4).fill('[batch, window, 8]'),
    ]);
  });
});

describe('slices of every operation', () => {
  it.each(runtimeCases.filter(({ output }) => output.shape.length > 0))(
    'are what they were: $name',
    async ({ name, output, sizes, draws, weights }) => {
      const parts = Object.fromEntries(
        output.shape.map((_, axis) => [`part${axis}`, slice(output, axis, 0, 1)]),
      );
      for (const only of Object.entries(parts)) {
        const outputs = Object.fromEntries([only]);
        const oracle = createInterpreter();
        const [expected, cut] = [
          await oracle.compile({ ...outputs, output }, weights),
          // The whole stands beside it, so that no length is lost with a node that read it.
          await oracle.compile({ ...cutEarly(outputs), output }, weights),
        ];
        for (const size of sizes) {
          const inputs = drawValues({ output }, size, draws, name);
          const found = await expected.run(inputs).catch(() => undefined);
          // A length may be 0, of which there is no first.
          if (found !== undefined)
            expectClose(await cut.run(inputs), found, { relative: 1e-6, absolute: 1e-6 });
        }
      }
    },
  );
});
