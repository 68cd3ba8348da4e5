import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { symbol } from '../../src/graph/dimension.js';
import { contract } from '../../src/graph/operations/contraction.js';
import { input } from '../../src/graph/operations/leaves.js';
import type { Attributes, OperationName } from '../../src/graph/tensor.js';
import { createInterpreter } from '../../src/runtime/interpreter/interpreter.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { RuntimeCase } from './runtime-cases.js';
import { drawValues, runtimeCases } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

// A record, so that the compiler asks for every operation that the graph has.
const operations: Readonly<Record<keyof Attributes, true>> = {
  input: true,
  weight: true,
  constant: true,
  negate: true,
  exponential: true,
  logarithm: true,
  reciprocalSquareRoot: true,
  sigmoid: true,
  silu: true,
  stopGradient: true,
  cast: true,
  add: true,
  subtract: true,
  multiply: true,
  divide: true,
  maximum: true,
  minimum: true,
  greater: true,
  equal: true,
  select: true,
  contract: true,
  attention: true,
  reshape: true,
  transpose: true,
  broadcast: true,
  slice: true,
  pad: true,
  concatenate: true,
  sum: true,
  reduceMaximum: true,
  softmax: true,
  logSoftmax: true,
  rmsNorm: true,
  rotate: true,
  gatherRows: true,
  scatterAddRows: true,
  pick: true,
  oneHot: true,
  argmax: true,
  topValues: true,
  topIndices: true,
};

const oracle = createInterpreter();
const onnx = createOnnxRuntime({ threads: 1 });
afterAll(() => onnx.dispose());

async function compare({ name, output, sizes, draws, weights }: RuntimeCase): Promise<void> {
  const outputs = { output };
  const expected = await oracle.compile(outputs, weights);
  const program = await onnx.compile(outputs, weights);
  for (const size of sizes) {
    const inputs = drawValues(outputs, size, draws, name);
    expectClose(await program.run(inputs), await expected.run(inputs), { relative: 1e-5, absolute: 1e-6 });
  }
  await program.dispose();
}

describe('ONNX Runtime against the interpreter', () => {
  it('has a case for every operation', () => {
    const covered = new Set<OperationName>(runtimeCases.map(({ operation }) => operation));
    expect(Object.keys(operations).filter((name) => !covered.has(name as OperationName))).toEqual([]);
  });

  it('names every case once', () => {
    const names = runtimeCases.map(({ name }) => name);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it.each(runtimeCases)('$name', compare);
});

describe('contractions of any layout', () => {
  // Each axis stands in two or three of left, right and output.
  const places = [
    ['left', 'right'],
    ['left', 'output'],
    ['right', 'output'],
    ['left', 'right', 'output'],
  ] as const;
  const axis = fc.record({
    place: fc.constantFrom(...places),
    size: fc.constantFrom(1, 2, 3),
    isSymbolic: fc.boolean(),
  });
  const equations = fc.array(axis, { minLength: 1, maxLength: 6 }).chain((axes) => {
    const named = axes.map((entry, index) => ({ ...entry, name: `n${index}` }));
    const side = (which: 'left' | 'right' | 'output') => {
      const own = named.filter(({ place }) => (place as readonly string[]).includes(which));
      return fc.shuffledSubarray(own, { minLength: own.length });
    };
    return fc.record({
      named: fc.constant(named),
      left: side('left'),
      right: side('right'),
      output: side('output'),
      scale: fc.constantFrom(1, 0.5, -2),
    });
  });

  it('give what the interpreter gives', async () => {
    await fc.assert(
      fc.asyncProperty(equations, async ({ named, left, right, output, scale }) => {
        const shape = (side: typeof named) =>
          side.map(({ name, size, isSymbolic }) => (isSymbolic ? symbol(name) : size));
        const names = (side: typeof named) => side.map(({ name }) => name).join(' ');
        const equation = `${names(left)}, ${names(right)} -> ${names(output)}`;
        const outputs = {
          output: contract(input('x', shape(left)), input('y', shape(right)), equation, scale),
        };
        const sizes = Object.fromEntries(named.map(({ name, size }) => [name, size]));
        const inputs = drawValues(outputs, sizes, {}, equation);
        const program = await onnx.compile(outputs);
        const expected = await oracle.compile(outputs);
        expectClose(await program.run(inputs), await expected.run(inputs), {
          relative: 1e-5,
          absolute: 1e-5,
        });
        await program.dispose();
      }),
      { numRuns: 300, seed: 20 },
    );
  });
});
