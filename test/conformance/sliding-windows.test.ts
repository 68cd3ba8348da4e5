/** A target that looks back through a window, with drafters beside it: the answer stays its own, far beyond the window. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { passInputs, readPromptState } from '../../src/audit/search/prompt-state.js';
import { decodePlain } from '../../src/decode/plain.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/speculative.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import {
  decoderTensors,
  llamaConfig,
  tiny,
  writeCheckpoint,
  writeDecoder,
} from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

const window = 6;
const windowed = { ...llamaConfig(tiny), architectures: ['MistralForCausalLM'], sliding_window: window };
const drafterNames = [
  'draft model',
  'Medusa, torch file',
  'EAGLE, torch file, with bias',
  'EAGLE-3 with d2t',
];
const greedy = { maxNewTokens: 30, stopIds: [], sampling: { temperature: 0 }, seed: 0 };

let target: CausalModel;
beforeAll(async () => {
  const folder = writeCheckpoint(models.freshFolder(), 'model.safetensors', decoderTensors(tiny), windowed);
  target = await models.loadModel(folder);
});

describe.each(drafterNames)('with %s', (name) => {
  it.each(['chain:3', 'dynamic:30,3,12'])('%s answers as plain decoding does', async (text) => {
    const variant = drafterVariants.find((other) => other.name === name)!;
    const drafter = await models.loadDrafter(variant.write(models.freshFolder(), tiny), target);
    const policy = always(resolveText(text, drafter));
    let accepted = 0;
    for (const length of [2, 11, 25]) {
      const request = { ...greedy, promptIds: randomTokens(`window ${length}`, length, tiny.vocabularySize) };
      const plain = await decodePlain(target, request);
      const speculative = await decodeSpeculative(target, drafter, { ...request, policy });
      expect(speculative.tokenIds).toEqual(plain.tokenIds);
      accepted += speculative.acceptance.accepted;
    }
    expect(accepted).toBeGreaterThan(0);
  });
});

it('reads on where a context cut to the window would have ended, and answers otherwise than without it', async () => {
  const wide = await models.loadModel(writeDecoder(models.freshFolder()));
  const request = { ...greedy, promptIds: randomTokens('beyond', 20, tiny.vocabularySize) };
  const { tokenIds } = await decodePlain(target, request);
  expect(tokenIds).toHaveLength(30);
  expect((await decodePlain(wide, request)).tokenIds).not.toEqual(tokenIds);
});

describe('a draft model with a window', () => {
  it('drafts inside it and is silent beyond', async () => {
    const wide = await models.loadModel(writeDecoder(models.freshFolder()));
    const config = { ...windowed, sliding_window: 16 };
    const folder = writeCheckpoint(models.freshFolder(), 'model.safetensors', decoderTensors(tiny), config);
    const drafter = await models.loadDrafter(folder, wide);
    const policy = always(resolveText('chain:3', drafter));
    const request = { ...greedy, promptIds: randomTokens('silent', 8, tiny.vocabularySize) };
    const plain = await decodePlain(wide, request);
    const { tokenIds, steps } = await decodeSpeculative(wide, drafter, { ...request, policy });
    expect(tokenIds).toEqual(plain.tokenIds);
    expect(steps[0]!.accepted).toBe(3); // the same weights, inside the window
    expect(steps.at(-1)!.proposed).toBe(0);
  });
});

it('ends an audit where target and drafter would need different masks', async () => {
  const variant = drafterVariants.find((other) => other.name === 'EAGLE-3 with d2t')!;
  const drafter = await models.loadDrafter(variant.write(models.freshFolder(), tiny), target);
  const state = await readPromptState({ target, drafter }, [1, 2, 3]);
  expect(() => passInputs(state, { target, drafter }, window - 2)).not.toThrow();
  expect(() => passInputs(state, { target, drafter }, window - 1)).toThrow(
    /needs 7 positions; target and drafter see 6 at a time, through a sliding window/,
  );
});
