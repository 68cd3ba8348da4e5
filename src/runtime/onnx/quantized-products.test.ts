import { appendFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { writeWeights } from '../../../test/support/runtime/small-weights.js';
import { symbol } from '../../graph/dimension.js';
import { matmul } from '../../graph/operations/contraction.js';
import { input, type Tensor, weight } from '../../graph/tensor.js';
import { float32, floatsOf } from '../program.js';
import type { DerivedFiles } from '../weights.js';
import { lowerToOnnx } from './lowering.js';
import { createOnnxRuntime } from './onnx-runtime.js';
import { QuantizedWeights } from './quantized-weights.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1, quantization: 'int4' });
afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});

const inner = 70; // the last block of a column is shorter
const makeWeight = (columns: number) => ({
  shape: [inner, columns],
  values: Array.from({ length: inner * columns }, (_, at) => Math.sin(at * columns)),
});
const widths = { queries: 48, keys: 16, values: 20 };

/** Pages follow each other without checks. */
function keepBeside(path: string): DerivedFiles {
  return {
    async keep({ write }) {
      writeFileSync(path, '');
      const table = await write(async (bytes) => {
        appendFileSync(path, new Uint8Array((4096 - (statSync(path).size % 4096)) % 4096));
        const offset = statSync(path).size;
        for await (const chunk of bytes) appendFileSync(path, chunk);
        return offset;
      });
      return { path, table };
    },
  };
}

describe('quantized products of the same rows', async () => {
  const path = join(temporary.path, 'weights');
  const tensors = Object.fromEntries(
    Object.entries(widths).map(([name, columns]) => [name, makeWeight(columns)]),
  );
  const plain = await writeWeights(path, tensors);
  const store = { ...plain, derived: keepBeside(`${path}.quantized`) };
  const multiply = (x: Tensor, name: keyof typeof widths): Tensor =>
    matmul(x, weight(name, [inner, widths[name]]));
  const x = input('x', [symbol('row'), inner]);
  const outputs = {
    queries: multiply(x, 'queries'),
    keys: multiply(x, 'keys'),
    values: multiply(x, 'values'),
  };

  it.each([1, 3])('are one kernel with the values of separate ones, %d rows', async (rows) => {
    const data = Float32Array.from({ length: rows * inner }, (_, at) => Math.cos(at));
    const given = { x: float32(data, [rows, inner]) };
    const joined = await (await runtime.compile(outputs, [store], { packed: true })).run(given);
    for (const [name, output] of Object.entries(outputs)) {
      const other = { ...plain, derived: keepBeside(`${path}.${name}`) };
      const alone = await runtime.compile({ [name]: output }, [other], { packed: true });
      expect(floatsOf(joined, name)).toEqual(floatsOf(await alone.run(given), name));
    }
  });

  it('stay separate where their rows differ', async () => {
    const separate = { ...outputs, keys: multiply(input('other', [symbol('row'), inner]), 'keys') };
    const counted = { ...plain, derived: keepBeside(`${path}.counted`) };
    const countProducts = async (program: typeof outputs): Promise<number> => {
      const quantized = await new QuantizedWeights('int4').find(program, [counted]);
      const { bytes } = lowerToOnnx(program, [...quantized, counted]);
      return Buffer.from(bytes).toString('latin1').split('MatMulNBits:').length - 1;
    };
    expect(await countProducts(outputs)).toBe(1);
    expect(await countProducts(separate)).toBe(2);
  });
});
