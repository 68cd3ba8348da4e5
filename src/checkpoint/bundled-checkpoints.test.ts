/**
 * The bundled models, held to values that PyTorch reads from the same files:
 * `t = torch.load(file)[name]; t.flatten()[:3], t.flatten()[-1], t.double().abs().sum()`.
 */
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { findProblems, openCheckpoint } from './open-checkpoint.js';
import { readFloat32, readIntegers } from './read-tensor.js';

const reference = fileURLToPath(new URL('../../models/reference/', import.meta.url));

function sumMagnitudes(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += Math.abs(value);
  return sum;
}

describe('the bundled checkpoints', () => {
  it.each([
    [
      'target',
      75,
      'lm_head.weight',
      [4096, 320],
      [-0.10626220703125, -0.0016727447509765625, 0.10479736328125],
      -0.2122802734375,
      101407.0439773798,
    ],
    [
      'medusa',
      12,
      '0.0.linear.weight',
      [320, 320],
      [-0.21875, -0.05242919921875, -0.0014476776123046875],
      -0.14111328125,
      4158.819218933582,
    ],
    [
      'hydra',
      24,
      'hydra_mlp.0.0.linear.bias',
      [320],
      [0.076171875, 0.042388916015625, -0.0386962890625],
      -0.048614501953125,
      23.923157215118408,
    ],
    [
      'eagle',
      11,
      'fc.weight',
      [320, 640],
      [0.213623046875, 0.12060546875, 0.238525390625],
      0.042633056640625,
      14105.45144790411,
    ],
    [
      'eagle3',
      15,
      'fc.weight',
      [320, 960],
      [0.018951416015625, 0.01947021484375, 0.0272369384765625],
      0.0041351318359375,
      4999.657233774662,
    ],
  ] as const)('%s', async (name, count, tensorName, shape, first, last, magnitude) => {
    const checkpoint = await openCheckpoint(reference + name);
    expect(checkpoint.tensors.size).toBe(count);
    expect(Object.keys(checkpoint.config).length).toBeGreaterThan(0);
    const tensor = checkpoint.tensors.get(tensorName)!;
    expect(tensor.dtype).toBe('F16');
    expect(tensor.shape).toEqual(shape);
    const values = await readFloat32(tensor);
    expect(Array.from(values.subarray(0, 3))).toEqual(first);
    expect(values.at(-1)).toBe(last);
    expect(sumMagnitudes(values)).toBeCloseTo(magnitude, 5);
  });

  it('eagle3 has its vocabulary map', async () => {
    const { tensors } = await openCheckpoint(`${reference}eagle3`);
    const offsets = await readIntegers(tensors.get('d2t')!);
    expect([tensors.get('d2t')!.dtype, offsets.length, ...offsets.subarray(0, 3), offsets.at(-1)]).toEqual([
      'I64',
      2048,
      1,
      1,
      259,
      1963,
    ]);
    expect(sumMagnitudes(offsets)).toBe(1034133);
    const mask = await readIntegers(tensors.get('t2d')!);
    expect([tensors.get('t2d')!.dtype, mask.length, sumMagnitudes(mask)]).toEqual(['BOOL', 4096, 2048]);
  });

  it.each(['target', 'sps', 'medusa', 'hydra', 'eagle', 'eagle3'])('%s has no problems', async (name) => {
    expect(await findProblems(reference + name)).toEqual([]);
  });
});
