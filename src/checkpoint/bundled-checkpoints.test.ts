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
      [-0.054443359375, -0.032257080078125, 0.00327301025390625],
      0.0205078125,
      96571.57712835073,
    ],
    [
      'medusa',
      12,
      '0.0.linear.weight',
      [320, 320],
      [-0.1634521484375, -0.011505126953125, -0.0235443115234375],
      -0.1630859375,
      5054.787391901016,
    ],
    [
      'hydra',
      24,
      'hydra_mlp.0.0.linear.bias',
      [320],
      [0.1138916015625, 0.080810546875, -0.0499267578125],
      0.08416748046875,
      22.158831119537354,
    ],
    [
      'eagle',
      11,
      'fc.weight',
      [320, 640],
      [0.6201171875, 0.399169921875, -0.35009765625],
      0.042205810546875,
      14764.658778011799,
    ],
    [
      'eagle3',
      15,
      'fc.weight',
      [320, 960],
      [0.0272674560546875, 0.057861328125, 0.0118560791015625],
      0.0029277801513671875,
      5724.164712846279,
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
      257,
      2040,
    ]);
    expect(sumMagnitudes(offsets)).toBe(1250776);
    const mask = await readIntegers(tensors.get('t2d')!);
    expect([tensors.get('t2d')!.dtype, mask.length, sumMagnitudes(mask)]).toEqual(['BOOL', 4096, 2048]);
  });

  it.each(['target', 'sps', 'medusa', 'hydra', 'eagle', 'eagle3'])('%s has no problems', async (name) => {
    expect(await findProblems(reference + name)).toEqual([]);
  });
});
