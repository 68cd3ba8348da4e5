import { afterAll, describe, expect, it } from 'vitest';
import { matmul } from '../../graph/operations/contraction.js';
import { add, greater } from '../../graph/operations/elementwise.js';
import { argmax, gatherRows } from '../../graph/operations/indexing.js';
import { symbol } from '../../graph/dimension.js';
import { constant, input } from '../../graph/tensor.js';
import { float32, int32, resident } from '../program.js';
import { findNativeApi } from './native-api.js';
import { createOnnxRuntime } from './onnx-runtime.js';

const row = symbol('row');
const graph = () => {
  const x = input('x', [row, 8]);
  const sum = add(x, input('y', [row, 8]));
  return {
    sum,
    best: argmax(sum),
    isAbove: greater(sum, constant(0)),
    product: matmul(sum, input('m', [8, 64])),
  };
};
const numbers = (count: number, seed: number): Float32Array =>
  Float32Array.from({ length: count }, (_, index) => Math.sin(index * seed));

describe.skipIf(findNativeApi() === undefined)("programs through ONNX Runtime's C interface", () => {
  const native = createOnnxRuntime({ threads: 1, binding: 'native' });
  const script = createOnnxRuntime({ threads: 1, binding: 'script' });
  afterAll(() => Promise.all([native.dispose(), script.dispose()]));

  it('give what they give through onnxruntime-node, whatever the sizes', async () => {
    const programs = await Promise.all([native, script].map((runtime) => runtime.compile(graph())));
    const m = float32(numbers(8 * 64, 0.7), [8, 64]);
    for (const rows of [1, 3, 700, 3, 1]) {
      const x = float32(numbers(8 * rows, 0.3 + rows), [rows, 8]);
      const y = float32(numbers(8 * rows, 0.9 + rows), [rows, 8]);
      const [first, second] = await Promise.all(programs.map((program) => program.run({ x, y, m })));
      expect(first).toEqual(second);
      expect(await programs[0]!.run({ x, y, m }, ['best'])).toEqual({ best: second!.best });
    }
  });

  it('give results that later runs do not change', async () => {
    const program = await native.compile(graph());
    const m = float32(numbers(8 * 64, 0.7), [8, 64]);
    const run = (seed: number) =>
      program.run({ x: float32(numbers(8, seed), [1, 8]), y: float32(numbers(8, seed), [1, 8]), m });
    const first = await run(0.3);
    const kept = structuredClone(first);
    await run(0.8);
    expect(first).toEqual(kept);
  });

  it('read buffers where they are', async () => {
    const program = await native.compile(graph());
    const m = native.allocate(8, 64);
    m.write(numbers(8 * 64, 0.7));
    const rows = native.allocate(9, 8);
    const y = float32(new Float32Array(16), [2, 8]);
    for (const at of [0, 3, 7]) {
      rows.write(numbers(72, 0.1 + at));
      const { sum } = await program.run({ x: resident(rows.rows(at, 2)), y, m: resident(m) }, ['sum']);
      expect(sum!.data).toEqual(numbers(72, 0.1 + at).subarray(8 * at, 8 * at + 16));
    }
  });

  it('say what ONNX Runtime says when it fails', async () => {
    const program = await native.compile({
      picked: gatherRows(input('x', [row, 8]), input('at', [1], 'int32')),
    });
    const x = float32(numbers(16, 1), [2, 8]);
    await expect(program.run({ x, at: int32([9]) })).rejects.toThrow(
      /ONNX Runtime failed in a run: .*idx=9/s,
    );
    const { picked } = await program.run({ x, at: int32([1]) });
    expect(picked!.data).toEqual(x.data.subarray(8));
  });
});
