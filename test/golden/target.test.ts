import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CausalModel } from '../../src/model/causal-model.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { GoldenPrompt } from '../support/golden.js';
import { readGoldenPrompts, relativeError } from '../support/golden.js';
import { referenceTarget } from '../support/model-folders.js';

const runtime = createOnnxRuntime();
afterAll(() => runtime.dispose());

describe('the bundled target against PyTorch', () => {
  let model: CausalModel;
  beforeAll(async () => {
    model = await loadModel(referenceTarget, { runtime });
  });

  it.each(readGoldenPrompts())(
    'has the logits, features and taps of "$prompt"',
    async (golden: GoldenPrompt) => {
      const { hiddenSize, vocabularySize } = model.configuration;
      const count = golden.ids.length;
      const result = await model.forward({
        tokens: Int32Array.from(golden.ids),
        cache: model.createCache(),
        select: Int32Array.of(count - 1),
        want: ['logits', 'features', 'taps'],
        taps: [2, 4, 5],
      });
      expect(result.logits).toHaveLength(vocabularySize);
      const logits = golden.last_logits.ids.map((id) => result.logits![id]!);
      expect(relativeError(logits, golden.last_logits.logits)).toBeLessThan(1e-4);
      const features = (await result.features!.read()).subarray((count - 1) * hiddenSize);
      expect(relativeError(features, golden.last_hidden_first8)).toBeLessThan(1e-4);
      const taps = await result.taps!.read();
      golden.tap_first4.forEach((expected, tap) => {
        const found = taps.subarray(((count - 1) * 3 + tap) * hiddenSize);
        expect(relativeError(found, expected)).toBeLessThan(1e-4);
      });
    },
  );
});
