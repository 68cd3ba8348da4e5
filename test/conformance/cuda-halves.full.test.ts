/** In 16 bits, drafting changes no answer: rows, keys and values do not depend on how many rows were computed at once. */
import { expect, it } from 'vitest';
import { Engine } from '../../src/decode/engine.js';
import { decodePlain } from '../../src/decode/generate.js';
import { readPrefix } from '../../src/decode/prompt-reading.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createEmulatedDevice } from '../support/emulated-device.js';
import { describeEmulated } from '../support/emulated-suite.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

/** Without attention of its own, with it, and with a prefix or a block of it. */
const names = ['draft model', 'Medusa, torch file', 'Hydra++', 'EAGLE-3 with d2t', 'DFlash'];

describeEmulated('answers in bfloat16', () => {
  it.each(drafterVariants.filter(({ name }) => names.includes(name)))(
    'are those of plain decoding with $name',
    async (variant) => {
      const runtime = createCudaRuntime(createEmulatedDevice(), { productType: 'bfloat16' });
      const models = new TinyModels(tiny, runtime);
      const { target, drafter, tokenizer } = await models.load(variant.write(models.freshFolder(), tiny));
      const promptIds = randomTokens('halves', 20, tiny.vocabularySize);
      const request = {
        ...{ promptIds, tokenizer, maxNewTokens: 12, stopIds: [] },
        ...{ sampling: { temperature: 0 }, seed: 0 },
      };
      const plain = await decodePlain(target, request);
      const policy = drafter.isChainOnly === true ? 'chain:3' : 'tree:mc_sim_7b_63';
      const chooser = always(resolveText(policy, drafter));
      const { tokenIds } = await decodeSpeculative(target, drafter, { ...request, policy: chooser });
      expect(tokenIds).toEqual(plain.tokenIds);
      await models.dispose();
    },
  );

  it('are the same alone, beside others, and behind what was read before', async () => {
    const models = new TinyModels(
      tiny,
      createCudaRuntime(createEmulatedDevice(), { productType: 'bfloat16' }),
    );
    const { target, tokenizer } = await models.loadTarget();
    const common = randomTokens('common', 40, tiny.vocabularySize);
    const requests = [3, 9, 5].map((length, index) => ({
      promptIds: [...common, ...randomTokens(`own ${index}`, length, tiny.vocabularySize)],
      ...{ tokenizer, maxNewTokens: 8 + 4 * index, stopIds: [], sampling: { temperature: 0 }, seed: 0 },
    }));
    const alone = [];
    for (const request of requests) alone.push((await decodePlain(target, request)).tokenIds);
    const prefix = await readPrefix(target, { reads: 'tokens', taps: [] }, common);
    for (const changes of [{}, { prefix }]) {
      const engine = new Engine();
      const together = await Promise.all(
        requests.map((request) => engine.run(() => decodePlain(target, { ...request, ...changes, engine }))),
      );
      expect(together.map(({ tokenIds }) => tokenIds)).toEqual(alone);
    }
    prefix.cache.release();
    await models.dispose();
  });
});
