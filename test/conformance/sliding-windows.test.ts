/** A target that looks back through a window, with drafters beside it: the answer stays its own, far beyond the window. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { passInputs, readPromptState } from '../../src/audit/search/prompt-state.js';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { gatherRows } from '../../src/graph/operations/indexing.js';
import { input } from '../../src/graph/tensor.js';
import { attentionInputs } from '../../src/model/attention-inputs.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { float32, floatsOf, int32, resident } from '../../src/runtime/program.js';
import {
  decoderTensors,
  llamaConfig,
  tiny,
  writeCheckpoint,
  writeDecoder,
} from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';
import { levelsIn } from '../support/level-sessions.js';

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
  it.each(['chain:3', 'dynamic:30,3,12'])('drafts %s as its target beyond it', async (text) => {
    const folder = writeCheckpoint(models.freshFolder(), 'model.safetensors', decoderTensors(tiny), windowed);
    const drafter = await models.loadDrafter(folder, target);
    const policy = always(resolveText(text, drafter));
    const request = { ...greedy, promptIds: randomTokens('beyond it', 18, tiny.vocabularySize) };
    const { steps } = await decodeSpeculative(target, drafter, { ...request, policy });
    for (const { accepted } of steps.slice(0, -1)) expect(accepted).toBeGreaterThanOrEqual(3); // equal weights
  });
});

const writeHead = (name: string, settings: Readonly<Record<string, unknown>>): string => {
  const folder = drafterVariants.find((variant) => variant.name === name)!.write(models.freshFolder(), tiny);
  const path = join(folder, 'config.json');
  const config = JSON.parse(readFileSync(path, 'utf8')) as object;
  writeFileSync(path, JSON.stringify({ ...config, ...settings }));
  return folder;
};

it('drafts inside a window of some layers and is silent beyond', async () => {
  const wide = await models.loadModel(writeDecoder(models.freshFolder()));
  const settings = { sliding_window: 16, layer_types: ['sliding_attention', 'full_attention'] };
  const drafter = await models.loadDrafter(writeHead('EAGLE-3 of two layers', settings), wide);
  const policy = always(resolveText('chain:3', drafter));
  const request = { ...greedy, promptIds: randomTokens('silent', 8, tiny.vocabularySize) };
  const { steps } = await decodeSpeculative(wide, drafter, { ...request, policy });
  expect(steps[0]!.proposed).toBe(3);
  expect(steps.at(-1)!.proposed).toBe(0);
});

/** What training reads: the graph along known tokens against the session that decodes. */
it.each(['EAGLE-3 with d2t', 'P-EAGLE', 'EAGLE, torch file, with bias'])(
  '%s trains with the window that it drafts with',
  async (name) => {
    const wide = await models.loadModel(writeDecoder(models.freshFolder()));
    const folder = writeHead(name, { sliding_window: 3, use_sliding_window: true });
    const drafter = await models.loadDrafter(folder, wide);
    const [length, depth] = [12, 5];
    const ids = randomTokens('along', length, tiny.vocabularySize);
    const reads = drafter.reads as 'features' | 'taps';
    const pass = await wide.forward({
      tokens: Int32Array.from(ids),
      cache: wide.createCache(),
      want: [reads],
      taps: drafter.taps,
    });
    const states = pass[reads]!;
    const graph = drafter.graph!;
    const given = input('states', [1, length, states.width]);
    const tokens = input('tokens', [1, length], 'int32');
    const { headSize } = graph.attention!.sizes;
    const { logits } = graph.draftLogits(
      {
        features: given,
        taps: given,
        firstRow: 0,
        past: undefined,
        embedWith: (table) => gatherRows(table, tokens),
        context: {
          cosine: input('cosine', [length, headSize / 2]),
          sine: input('sine', [length, headSize / 2]),
          mask: input('mask', [length, length]),
        },
      },
      depth,
    );
    const outputs = Object.fromEntries(logits.map((level, index) => [`level${index}`, level]));
    const stores = [...new Set([wide.weights, ...graph.weights])];
    const program = await wide.runtime.compile(outputs, stores);
    const attention = attentionInputs(
      { count: length, pastLength: 1, window: graph.attention!.window },
      graph.attention!.rotary,
    );
    // Without the cache's dummy.
    const mask = floatsOf(attention, 'mask').filter((_, at) => at % (length + 1) !== 0);
    const result = await program.run({
      states: resident(states, [1, length, states.width]),
      tokens: int32(ids, [1, length]),
      cosine: attention.cosine!,
      sine: attention.sine!,
      mask: float32(mask, [length, length]),
    });
    const end = length - 1 - depth;
    const session = drafter.startSession();
    session.observe({
      tokens: Int32Array.from(ids.slice(0, end)),
      states: states.rows(0, end),
      next: ids[end]!,
    });
    const draft = { tokens: [ids[end]!], parents: [-1], depths: [0] };
    for (let level = 0; level < depth; level++) {
      const expected = (await levelsIn(session)!.expand(draft, [level], 'logits')).logits(0);
      const size = result[`level${level}`]!.shape.at(-1)!;
      const row = floatsOf(result, `level${level}`).subarray((end - 1) * size, end * size);
      row.forEach((logit, token) => {
        expect(logit, `level ${level}`).toBeCloseTo(expected[graph.targetTokens?.[token] ?? token]!, 4);
      });
      draft.tokens.push(ids[end + level + 1]!);
      draft.parents.push(level);
      draft.depths.push(level + 1);
    }
  },
);

it.each([
  ['EAGLE-3 of two layers', { layer_types: ['sliding_attention', 'full_attention'] }, 8],
  // A block of 5 slots behind the last root.
  ['DFlash', { layer_types: ['sliding_attention', 'sliding_attention'] }, 4],
])('ends an audit of %s at a window that its masks do not have', async (name, layers, end) => {
  const wide = await models.loadModel(writeDecoder(models.freshFolder()));
  const drafter = await models.loadDrafter(writeHead(name, { sliding_window: 8, ...layers }), wide);
  const state = await readPromptState({ target: wide, drafter }, [1, 2, 3]);
  const rowsLeft = end - 2; // behind the prompt, which is read up to its last token
  expect(() => passInputs(state, { target: wide, drafter }, rowsLeft)).not.toThrow();
  expect(() => passInputs(state, { target: wide, drafter }, rowsLeft + 1)).toThrow(
    new RegExp(`needs ${end + 1} positions; target and drafter see ${end} at a time`),
  );
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
