/** Every buffer of a request is freed when the request ends, and none before its last use. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Engine } from '../../src/decode/engine.js';
import { decodePlain } from '../../src/decode/generate.js';
import { readPrefix } from '../../src/decode/prompt-reading.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { Drafter } from '../../src/draft/drafter.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { countMemory } from '../support/counting-runtime.js';
import { byTier } from '../support/tier.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const policies = ['chain:1', 'chain:3', 'dynamic:8,2,2'];
const requestOf = (prompt: number) => ({
  promptIds: randomTokens(`memory-${prompt}`, 3 + prompt, tiny.vocabularySize),
  maxNewTokens: 3,
  stopIds: [],
  seed: prompt,
  sampling: { temperature: 0 },
});

describe.each([
  ['the host draws tokens', false],
  ['programs draw tokens', true],
])('the memory of requests, where %s,', (_, drawsInPrograms) => {
  const { runtime, memory } = countMemory(createOnnxRuntime({ threads: 1 }), drawsInPrograms);
  const models = new TinyModels(tiny, runtime);
  afterAll(() => models.dispose());

  let target: CausalModel;
  let drafters: readonly Drafter[];
  beforeAll(async () => {
    ({ target } = await models.loadTarget());
    drafters = await models.loadOneOfEachSystem(target);
  });

  it('returns to the starting value after many requests', async () => {
    const count = byTier({ quick: 80, full: 500 });
    const startBytes = memory.liveBytes;
    const expected = await Promise.all(
      Array.from({ length: 5 }, async (_, prompt) => (await decodePlain(target, requestOf(prompt))).tokenIds),
    );
    expect(memory.liveBytes).toBe(startBytes);
    const engine = new Engine({ concurrency: 8 });
    await Promise.all(
      Array.from({ length: count }, (_, index) =>
        engine.run(async () => {
          const temperature = index % 7 === 0 ? 0.8 : 0;
          const request = { ...requestOf(index % 5), sampling: { temperature }, engine };
          const drafter = drafters[index % (drafters.length + 1)];
          const policy = policies[index % (drafter?.isChainOnly === true ? 2 : 3)]!;
          const chosen = temperature > 0 ? 'chain:2' : policy;
          const { tokenIds } =
            drafter === undefined
              ? await decodePlain(target, request)
              : await decodeSpeculative(target, drafter, {
                  ...request,
                  policy: always(resolveText(chosen, drafter)),
                  mustDraft: true,
                });
          if (temperature === 0) expect(tokenIds).toEqual(expected[index % 5]);
        }),
      ),
    );
    expect(memory.liveBytes).toBe(startBytes);
  });

  it('is freed with the last of several answers to one prompt', async () => {
    const startBytes = memory.liveBytes;
    const promptIds = randomTokens('shared', 60, tiny.vocabularySize);
    const request = { ...requestOf(0), promptIds };
    const { tokenIds } = await decodePlain(target, request);
    for (const drafter of drafters) {
      const engine = new Engine();
      const prefix = await readPrefix(target, drafter, promptIds.slice(0, -1));
      await Promise.all(
        Array.from({ length: 4 }, (_, index) =>
          engine.run(async () => {
            const policy = always({ kind: 'chain', length: 1 + (index % 2) });
            const own = { ...request, prefix, engine, policy, mustDraft: true };
            expect((await decodeSpeculative(target, drafter, own)).tokenIds).toEqual(tokenIds);
          }),
        ),
      );
      prefix.cache.release();
      prefix.states?.free();
      expect(memory.liveBytes, drafter.system).toBe(startBytes);
    }
  });
});
