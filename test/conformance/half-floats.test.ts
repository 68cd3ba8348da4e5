/**
 * Every value of bfloat16 and float16, three ways: as checkpoints are decoded, as the oracle reads and rounds, and as
 * ONNX Runtime does.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { floatDecoders } from '../../src/checkpoint/element-decoding.js';
import { decodeHalves } from '../../src/core/half-floats.js';
import { cast } from '../../src/graph/operations/elementwise.js';
import { input, weight } from '../../src/graph/tensor.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { type TensorValue, float32, floatsOf } from '../../src/runtime/program.js';
import type { WeightStore } from '../../src/runtime/weights.js';

const onnx = createOnnxRuntime({ threads: 1 });
afterAll(() => onnx.dispose());
const runtimes = [createInterpreter(), onnx];
const count = 65536;
const all = Uint16Array.from({ length: count }, (_, bits) => bits);

/** Equal to the bit, except that what is not a number may be any such. */
function expectSame(found: TensorValue['data'], expected: TensorValue['data']): void {
  expect(found.constructor).toBe(expected.constructor);
  expect(found.length).toBe(expected.length);
  expected.forEach((value, at) => {
    if (!Object.is(found[at], value)) expect.fail(`at ${at}: ${found[at]}, expected ${value}`);
  });
}

describe.each([
  { type: 'bfloat16', stored: 'BF16' },
  { type: 'float16', stored: 'F16' },
] as const)('$type', ({ type, stored }) => {
  const decoded = new Float32Array(count);
  floatDecoders[stored](new Uint8Array(all.buffer), decoded, 0, count);
  const bitsOfNumbers = all.filter((_, bits) => !Number.isNaN(decoded[bits]!));

  it('reads every value as checkpoints do', () => {
    expectSame(decodeHalves(all, type), decoded);
  });

  it.each(runtimes)('is read by $name as checkpoints are', async (runtime) => {
    const program = await runtime.compile({ y: cast(input('x', [count], type), 'float32') });
    expectSame((await program.run({ x: { data: all, shape: [count] } })).y!.data, decoded);
    await program.dispose();
  });

  it.each(runtimes)('comes back from $name as it was', async (runtime) => {
    const n = bitsOfNumbers.length;
    const x = input('x', [n], type);
    const program = await runtime.compile({ y: cast(cast(x, 'float32'), type), x });
    const found = await program.run({ x: { data: bitsOfNumbers, shape: [n] } });
    expectSame(found.y!.data, bitsOfNumbers);
    expectSame(found.x!.data, bitsOfNumbers);
    await program.dispose();
  });

  it('is rounded by ONNX Runtime as by the oracle: at, just below and just above every tie', async () => {
    const numbers = decoded.filter((value) => Number.isFinite(value)).sort();
    const between = Array.from(numbers.subarray(1), (value, at) => (value + numbers[at]!) / 2).flatMap(
      (middle) => [middle * (1 - 2 ** -20), middle, middle * (1 + 2 ** -20)],
    );
    const values = Float32Array.from([...between, 1e38, -1e38, 65520, -65520, 7e4, Infinity, -Infinity]);
    const x = input('x', [values.length]);
    const outputs = { bits: cast(x, type), back: cast(cast(x, type), 'float32') };
    const [expected, found] = await Promise.all(
      runtimes.map(async (runtime) =>
        (await runtime.compile(outputs)).run({ x: float32(values, [values.length]) }),
      ),
    );
    expectSame(found!.bits!.data, expected!.bits!.data);
    expectSame(found!.back!.data, expected!.back!.data);
  });

  it.each(runtimes)('is mapped from a file by $name', async (runtime) => {
    const folder = await mkdtemp(join(tmpdir(), 'mistletoe-halves-'));
    try {
      const path = join(folder, 'weights.bin');
      await writeFile(path, new Uint8Array(all.buffer));
      const shape = [count / 2];
      const location = { shape, offsetBytes: 64, sizeBytes: count, dtype: type };
      const store: WeightStore = { kind: 'file', path, tensors: new Map([['w', location]]) };
      const program = await runtime.compile({ y: cast(weight('w', shape, type), 'float32') }, [store]);
      expectSame(floatsOf(await program.run({}), 'y'), decoded.subarray(32, 32 + count / 2));
      await program.dispose();
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
