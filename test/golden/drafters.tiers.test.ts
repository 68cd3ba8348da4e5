import { resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { resolvePolicy } from '../../src/draft/tree/policy.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { parseDraftPolicy } from '../../src/draft/tree/policy.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { DrafterName } from '../support/golden.js';
import { readGoldenPrompts } from '../support/golden.js';
import { referenceModels } from '../support/model-folders.js';
import { byTier, casesOfTier } from '../support/tier.js';

const runtime = createOnnxRuntime();
afterAll(() => runtime.dispose());

const goldens = readGoldenPrompts();
/** Prompts are about alike: each tier takes half of them. */
const prompts = casesOfTier(goldens, (golden) => goldens.indexOf(golden) % 2 === 0);

async function decodeAll(name: DrafterName, policyText: string) {
  const target = await loadModel(resolve(referenceModels, 'target'), { runtime });
  const drafter = await loadDrafter(resolve(referenceModels, name), { target });
  const policy = parseDraftPolicy(policyText);
  if (policy.kind === 'auto') throw new Error('The golden values are of fixed policies.');
  const chooser = always(resolvePolicy(policy, drafter));
  const results = [];
  for (const golden of prompts) {
    const result = await decodeSpeculative(target, drafter, {
      promptIds: golden.ids,
      maxNewTokens: 96,
      sampling: { temperature: 0 },
      seed: 0,
      stopIds: [2],
      policy: chooser,
    });
    results.push({ golden, result });
  }
  return results;
}

describe("accepted lengths against the authors' code", () => {
  it.each(['sps', 'medusa', 'hydra', 'eagle', 'eagle3'] as const)('%s with chain:4', async (name) => {
    for (const { golden, result } of await decodeAll(name, 'chain:4')) {
      expect(result.tokenIds, golden.prompt).toEqual(golden.greedy_ids);
      const expected = golden.chain4_accepted_lengths[name];
      expect(result.acceptance.acceptedLengths.slice(0, expected.length), golden.prompt).toEqual(expected);
    }
  });

  it.each(byTier({ quick: ['eagle3'] as const, full: ['eagle', 'eagle3'] as const }))(
    '%s with dynamic:60,5,10',
    async (name) => {
      for (const { golden, result } of await decodeAll(name, 'dynamic:60,5,10')) {
        expect(result.tokenIds, golden.prompt).toEqual(golden.greedy_ids);
        const expected = golden.dynamic_tree_60_5_10[name].accepted_lengths;
        expect(result.acceptance.acceptedLengths.slice(0, expected.length), golden.prompt).toEqual(expected);
      }
    },
  );
});
