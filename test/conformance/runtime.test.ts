import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { Attributes, OperationName } from '../../src/graph/tensor.js';
import { contractionLayouts } from '../support/graph/contraction-layouts.js';
import { createInterpreter } from '../oracle/interpreter.js';
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
  expertProduct: true,
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
  keepLikeliest: true,
  draw: true,
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
  it('give what the interpreter gives', async () => {
    await fc.assert(
      fc.asyncProperty(contractionLayouts, async ({ equation, tensor, sizes }) => {
        const outputs = { output: tensor };
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
