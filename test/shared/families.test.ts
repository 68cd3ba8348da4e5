import { resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { CausalModel, loadModel } from '../../src/model/causal-model.js';
import { RotaryTable, scaleFrequencies } from '../../src/model/rotary/rotary.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { relativeError } from '../support/golden.js';
import { hasShared, readShared, sharedFolder } from '../support/shared.js';

const runtime = createOnnxRuntime();
afterAll(() => runtime.dispose());

interface FamilyGolden {
  readonly ids: readonly (readonly number[])[];
  readonly last_logits: readonly (readonly number[])[];
  readonly mid_logits_first16: readonly (readonly number[])[];
}

/** As a float32 that was stored as bfloat16, rounded to nearest. */
function roundToBfloat16(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer);
  bits[0] = (bits[0]! + 0x7fff + ((bits[0]! >>> 16) & 1)) & 0xffff0000;
  return new Float32Array(bits.buffer)[0]!;
}

// These values come from models that were cast to bfloat16 as a whole, inverse frequencies of the rotary embedding
// included. A checkpoint does not store those, and we compute them in full precision, so the test rounds them too:
// without the rounding the logits differ by up to 8e-3, with it by less than 1e-5.
describe.skipIf(!hasShared)('the four families against transformers', () => {
  it.each(['llama3', 'mistral', 'qwen2', 'qwen3'])('has the logits of %s', async (family) => {
    const folder = resolve(sharedFolder, 'golden/families', family);
    const loaded = await loadModel(folder, { runtime });
    const { name, configuration, scope, weights } = loaded;
    const { headSize, rotaryBase, rotaryScaling } = configuration;
    const frequencies = Float32Array.from(scaleFrequencies(headSize, rotaryBase, rotaryScaling));
    const model = Object.assign(new CausalModel({ name, configuration, scope, weights, runtime }), {
      rotary: new RotaryTable(frequencies.map(roundToBfloat16)),
    });
    const golden = readShared(`golden/families/${family}/golden.json`) as FamilyGolden;
    for (const [index, ids] of golden.ids.entries()) {
      const select = Int32Array.of(20, ids.length - 1);
      const tokens = Int32Array.from(ids);
      const { logits } = await model.forward({
        tokens,
        cache: model.createCache(),
        select,
        want: ['logits'],
      });
      const { vocabularySize } = model.configuration;
      expect(relativeError(logits!, golden.mid_logits_first16[index]!)).toBeLessThan(1e-4);
      expect(relativeError(logits!.subarray(vocabularySize), golden.last_logits[index]!)).toBeLessThan(1e-4);
    }
  });
});
