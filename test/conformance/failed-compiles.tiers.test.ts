/** A runtime that could not compile once, for want of memory or disk, can the next time: no failure stays anywhere. */
import { afterAll, describe, expect, it } from 'vitest';
import { MistletoeError } from '../../src/core/errors.js';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { casesOfTier, isFullTier } from '../support/tier.js';
import { drafterVariants, oneOfEachSystem } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const inner = createOnnxRuntime({ threads: 1 });
let isFull = false;
const runtime: Runtime = {
  name: 'onnx, at times without room',
  allocate: (...size) => inner.allocate(...size),
  compile: (...given) =>
    isFull ? Promise.reject(new MistletoeError('runtime', 'No room.')) : inner.compile(...given),
  dispose: () => inner.dispose(),
};
const models = new TinyModels(tiny, runtime);
afterAll(() => models.dispose());

const request = {
  promptIds: randomTokens('failed compiles', 12, tiny.vocabularySize),
  maxNewTokens: 12,
  stopIds: [],
  sampling: { temperature: 0 },
  seed: 0,
};

async function withoutRoom(act: () => Promise<unknown>): Promise<void> {
  isFull = true;
  try {
    await expect(act()).rejects.toThrow('No room.');
  } finally {
    isFull = false;
  }
}

describe.each(casesOfTier(drafterVariants, (variant) => oneOfEachSystem.includes(variant)))(
  '$name',
  (variant) => {
    it('drafts after a compile that failed as if it had not', async () => {
      const { target, drafter } = await models.load(variant.write(models.freshFolder(), tiny));
      await withoutRoom(() => drafter.prepare({ chains: [3] }));
      await withoutRoom(() => target.prepare(drafter.taps));
      const plain = await decodePlain(target, request);
      for (const policy of ['chain:3', 'dynamic:12,2,3']) {
        const chooser = always(resolveText(policy, drafter));
        const speculative = await decodeSpeculative(target, drafter, { ...request, policy: chooser });
        expect(speculative.tokenIds).toEqual(plain.tokenIds);
        expect(speculative.drafterFailed).toBe(false);
      }
    });
  },
);

describe.skipIf(isFullTier)('a target', () => {
  it('keeps no failure of taps that were asked for one after the other', async () => {
    const { target } = await models.loadTarget();
    await withoutRoom(async () => {
      // The second is asked for while the first, of which it would be an extension, has not failed yet.
      const attempts = [target.prepare([1]), target.prepare([2])];
      await Promise.allSettled(attempts);
      await Promise.all(attempts);
    });
    await target.prepare([1]);
    await target.prepare([2]);
    const cache = target.createCache();
    const tokens = Int32Array.from(request.promptIds);
    const { taps } = await target.forward({ tokens, cache, want: ['taps'], taps: [1, 2] });
    expect([taps!.rowCount, taps!.width]).toEqual([tokens.length, 2 * tiny.hiddenSize]);
  });
});
