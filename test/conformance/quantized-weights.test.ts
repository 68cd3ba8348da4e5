import { afterAll, describe, expect, it } from 'vitest';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';
import { createRandom } from '../../src/core/random.js';
import { quantizedBlock } from '../../src/runtime/weights.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { quantize } from '../../src/runtime/onnx/quantized-weights.js';

describe('quantized matrices', () => {
  const [inner, columns] = [70, 5]; // the last block of a column is shorter
  const random = createRandom(1, 'quantized');
  const values = Float32Array.from({ length: inner * columns }, () => random.next() - 0.5);
  const blocks = Math.ceil(inner / quantizedBlock);

  it.each([8, 4] as const)('in %d bits are at most half a step from their values', (bits) => {
    const { quantized, scales } = quantize(values, { inner, columns, innerFirst: true, bits });
    const codeAt = (place: number): number =>
      bits === 8 ? quantized[place]! : (quantized[place >> 1]! >> (4 * (place & 1))) & 15;
    const zero = 2 ** (bits - 1);
    for (let column = 0; column < columns; column++)
      for (let index = 0; index < blocks * quantizedBlock; index++) {
        const scale = scales[column * blocks + Math.floor(index / quantizedBlock)]!;
        const code = codeAt(column * blocks * quantizedBlock + index);
        const value = index < inner ? values[index * columns + column]! : 0;
        // The other end of the range has one step less.
        const room = Math.abs(scale) * (code === 2 * zero - 1 ? 1 : 0.5);
        expect(Math.abs((code - zero) * scale - value)).toBeLessThanOrEqual(room * 1.001);
      }
  });

  it('are the same from either layout, and zero where everything is zero', () => {
    const turned = Float32Array.from(
      values,
      (_, at) => values[(at % inner) * columns + Math.floor(at / inner)]!,
    );
    const expected = quantize(values, { inner, columns, innerFirst: true, bits: 4 });
    expect(quantize(turned, { inner, columns, innerFirst: false, bits: 4 })).toEqual(expected);
    const zeros = quantize(new Float32Array(32), { inner: 32, columns: 1, innerFirst: true, bits: 8 });
    expect(Math.abs(zeros.scales[0]!)).toBe(0);
    expect(new Set(zeros.quantized)).toEqual(new Set([128]));
  });
});

describe.each(['int8', 'int4'] as const)('models decode in %s', (quantization) => {
  const exact = new TinyModels(tiny);
  const models = new TinyModels(tiny, createOnnxRuntime({ threads: 1, quantization }));
  afterAll(async () => {
    await exact.dispose();
    await models.dispose();
  });
  const request = {
    ...{ promptIds: randomTokens('quantized', 9, tiny.vocabularySize), maxNewTokens: 24, stopIds: [] },
    ...{ sampling: { temperature: 0 }, seed: 0 },
  };

  async function readLogits(from: TinyModels): Promise<Float32Array> {
    const { target } = await from.loadTarget();
    const tokens = Int32Array.from(request.promptIds);
    const { logits } = await target.forward({ tokens, cache: target.createCache(), want: ['logits'] });
    return logits!;
  }

  it('with logits close to those of float32, and not equal to them', async () => {
    const [expected, found] = [await readLogits(exact), await readLogits(models)];
    const norm = (row: Float32Array): number => Math.hypot(...row);
    const error = norm(found.map((value, at) => value - expected[at]!)) / norm(expected);
    expect(error).toBeGreaterThan(1e-6);
    expect(error).toBeLessThan(quantization === 'int8' ? 0.05 : 0.4);
  });

  it.each(['draft model', 'EAGLE-3 with d2t'])('with drafts, which are marked lossy: %s', async (name) => {
    const variant = drafterVariants.find((each) => each.name === name)!;
    const folder = variant.write(models.freshFolder(), tiny);
    for (const [from, lossReason] of [
      [models, `${quantization} weights`],
      [exact, undefined],
    ] as const) {
      const { target, drafter } = await from.load(folder);
      for (const text of ['chain:3', 'dynamic:12,2,3']) {
        const policy = always(resolveText(text, drafter));
        const drafted = await decodeSpeculative(target, drafter, { ...request, policy });
        expect(drafted.tokenIds).toHaveLength(request.maxNewTokens);
        expect(drafted.acceptance.proposed).toBeGreaterThan(0);
        expect(drafted.lossReason).toBe(lossReason);
      }
    }
  });
});
