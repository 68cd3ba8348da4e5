import { afterAll, describe, expect, it } from 'vitest';
import { symbol } from '../../graph/dimension.js';
import { add } from '../../graph/operations/elementwise.js';
import { concatenate, reshape } from '../../graph/operations/shaping.js';
import { input } from '../../graph/tensor.js';
import { float32, floatsOf } from '../program.js';
import { lowerToOnnx } from './lowering.js';
import { createOnnxRuntime } from './onnx-runtime.js';

const runtime = createOnnxRuntime({ threads: 1 });
afterAll(() => runtime.dispose());

describe('parts that are reshaped and joined', () => {
  const x = input('x', [1, symbol('row'), 6]);
  const parts = [1, 2, 3].map((number) => add(x, number));
  const given = {
    x: float32(
      Float32Array.from({ length: 12 }, (_, at) => at),
      [1, 2, 6],
    ),
  };
  const countReshapes = (axis: number): number => {
    const { bytes } = lowerToOnnx({ joined: join(axis) }, []);
    return Buffer.from(bytes).toString('latin1').split('Reshape:').length - 1;
  };
  const join = (axis: number) =>
    concatenate(
      parts.map((part) => reshape(part, [1, symbol('row'), 2, 3])),
      axis,
    );

  it('are joined first along the axis that the reshapes keep', async () => {
    expect([0, 3].map(countReshapes)).toEqual([1, 3]);
    const found = await (await runtime.compile({ joined: join(0) })).run(given);
    const expected = [1, 2, 3].flatMap((number) => Array.from({ length: 12 }, (_, at) => at + number));
    expect([...floatsOf(found, 'joined')]).toEqual(expected);
    expect(found.joined!.shape).toEqual([3, 2, 2, 3]);
  });
});
