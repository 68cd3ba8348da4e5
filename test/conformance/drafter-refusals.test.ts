/** Drafters and policies that do not fit their target are refused in a sentence; one that fails on the way is left out. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import { createRandom } from '../../src/core/random.js';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { loadDrafter } from '../../src/draft/systems.js';
import type { TapConvention } from '../../src/draft/draft-system.js';
import type { TinySizes } from '../support/tiny-checkpoints.js';
import {
  decoderTensors,
  llamaConfig,
  noise,
  tiny,
  writeCheckpoint,
  writeDecoder,
  writeLetterTokenizer,
} from '../support/tiny-checkpoints.js';
import {
  drafterVariants,
  eagle3Tensors,
  eagleTensors,
  hydraTensors,
  medusaTensors,
  numbered,
  someTokens,
} from '../support/tiny-drafters.js';
import { resolveText, TinyModels } from '../support/tiny-pair.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

const wider: TinySizes = { ...tiny, hiddenSize: 24 };
const wordier: TinySizes = { ...tiny, vocabularySize: 30 };
const headConfig = llamaConfig({ ...tiny, layerCount: 1 });

function writeVariant(name: string, sizes: TinySizes): string {
  return drafterVariants.find((variant) => variant.name === name)!.write(models.freshFolder(), sizes);
}

function write(file: string, tensors: WritableTensors, config: Record<string, unknown> = headConfig): string {
  return writeCheckpoint(models.freshFolder(), file, tensors, config);
}

function without(tensors: WritableTensors, name: string): WritableTensors {
  expect(Object.keys(tensors)).toContain(name);
  return Object.fromEntries(Object.entries(tensors).filter(([key]) => key !== name));
}

function refusal(code: string, message: RegExp): unknown {
  return expect.objectContaining({
    name: 'MistletoeError',
    code,
    message: expect.stringMatching(message) as string,
    hint: expect.stringMatching(/./) as string,
  });
}

describe('a drafter that reads masks', () => {
  it.each([
    [{ pard_token: 24 }, /pard_token 24 in its config\.json; a token id below 24 was expected/],
    [{ pard_token: -1 }, /pard_token -1/],
    [{ pard_token: 'x' }, /pard_token "x"/],
    [{ spd_type: 'pard' }, /no mask token/],
  ])('PARD with %j', async (keys, message) => {
    const folder = write('model.safetensors', decoderTensors(tiny), { ...llamaConfig(tiny), ...keys });
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', message));
  });

  const masked = eagle3Tensors(tiny, { layers: 2, hasMask: true });
  const two = { ...headConfig, num_hidden_layers: 2, mask_token_id: 3 };
  it.each<[string, WritableTensors, Record<string, unknown>, RegExp]>([
    ['a mask token outside the vocabulary', masked, { ...two, mask_token_id: 99 }, /mask_token_id 99/],
    [
      'a mask of another width',
      { ...masked, mask_hidden: noise(createRandom(1), [1, 1, 20], 1) },
      two,
      /mask_hidden/,
    ],
    ['no layers', masked, { ...two, num_hidden_layers: 0 }, /"num_hidden_layers": 0/],
    ['a million layers', masked, { ...two, num_hidden_layers: 1e6 }, /"num_hidden_layers": 1000000/],
    ['more layers than the file', masked, { ...two, num_hidden_layers: 3 }, /layers\.2/],
    ['fewer layers than the file', masked, { ...two, num_hidden_layers: 1 }, /layers\.1/],
  ])('P-EAGLE with %s', async (_, tensors, config, message) => {
    await expect(models.load(write('model.safetensors', tensors, config))).rejects.toThrow(message);
  });
});

describe('a drafter of another target', () => {
  it.each([
    ['Medusa, torch file', wider, /0\.0\.linear\.weight with 24 columns; the target asks for 16/],
    ['Medusa, torch file', wordier, /0\.1\.weight with 30 rows; the target asks for 24/],
    ["Medusa-2 in the target's shards", wider, /has hidden size 24; the target's is 16/],
    ['Hydra, one layer', wider, /has head 0 with 48 inputs; 32 were expected/],
    ['Hydra, one layer', wordier, /hydra_lm_head\.0\.weight with 30 rows; the target asks for 24/],
    ['Hydra++', wordier, /hydra_lm_head\.0\.1\.weight with 30 rows; the target asks for 24/],
    ['EAGLE, torch file, with bias', wider, /has hidden size 24; the target's is 16/],
    ['EAGLE, torch file, with bias', wordier, /has vocabulary size 30; the target's is 24/],
    ['EAGLE-3 with d2t', wider, /has hidden size 24; the target's is 16/],
    ['EAGLE-3 with d2t', wordier, /has vocabulary size 30; the target's is 24/],
    ['draft model', wordier, /has a vocabulary of 30 tokens; the target's has 24/],
  ])('%s', async (name, sizes, message) => {
    await expect(models.load(writeVariant(name, sizes))).rejects.toEqual(refusal('drafter', message));
  });

  it('taps layers that the target has not', async () => {
    const config = { ...headConfig, eagle_aux_hidden_state_layer_ids: [2, 16, 29] };
    const folder = write('model.safetensors', eagle3Tensors(tiny, {}), config);
    const message = /asks for the taps \[2,16,29\]; layers from 0 to 4 were expected/;
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', message));
  });

  it('does not say whether its taps are inputs or outputs, until it is told', async () => {
    const config = { ...headConfig, eagle_config: { eagle_aux_hidden_state_layer_ids: [0, 1, 3] } };
    const folder = write('model.safetensors', eagle3Tensors(tiny, {}), config);
    const message = /lists the taps \[0,1,3\], and whether they are inputs or outputs of layers is not known/;
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', message));
    const { target } = await models.load(writeVariant('EAGLE-3 with d2t', tiny));
    const tapsOf = async (taps: TapConvention) => (await loadDrafter(folder, { target, taps })).taps;
    expect(await tapsOf('inputs')).toEqual([0, 1, 3]);
    expect(await tapsOf('outputs')).toEqual([1, 2, 4]);
  });

  it('is read against what its file says only with a note', async () => {
    const folder = writeVariant('EAGLE-3 with taps named by outputs', tiny);
    const { target } = await models.load(folder);
    const notes: string[] = [];
    const onNotice = (note: string): void => void notes.push(note);
    expect((await loadDrafter(folder, { target, onNotice })).taps).toEqual([2, 3]);
    expect(notes).toEqual([]);
    expect((await loadDrafter(folder, { target, taps: 'inputs', onNotice })).taps).toEqual([1, 2]);
    expect(notes).toEqual([expect.stringMatching(/are read as inputs of layers because --taps says so/)]);
  });

  it('reads another number of taps', async () => {
    const folder = write('model.safetensors', eagle3Tensors(tiny, { taps: 2 }));
    const message = /fc\.weight with 32 columns; the target asks for 48/;
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', message));
  });

  it('is narrower than the target it was made for', async () => {
    const config = { ...llamaConfig({ ...wider, layerCount: 1 }), target_hidden_size: 16 };
    const folder = write('model.safetensors', eagle3Tensors(wider, {}), config);
    await expect(models.load(folder)).rejects.toEqual(
      refusal('drafter', /is 24 wide, its target 16, and it has no/),
    );
  });

  it('speaks another language, which PARD cannot: the first token that differs is named', async () => {
    const config = { ...llamaConfig(tiny), pard_token: 3 };
    const folder = writeCheckpoint(
      models.freshFolder(),
      'model.safetensors',
      decoderTensors(tiny, 7),
      config,
    );
    writeLetterTokenizer(folder, tiny, { 5: 'Z', 9: 'Y' });
    const message = /token 5 is "Z" there and "f" in the target/;
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', message));
  });

  it('is accepted with another tokenizer, with a note', async () => {
    const folder = writeDecoder(models.freshFolder(), tiny, 7);
    writeLetterTokenizer(folder, tiny, { 5: 'Z', 9: 'Y' });
    const { target, tokenizer } = await models.loadTarget();
    const notes: string[] = [];
    const onNotice = (note: string): void => void notes.push(note);
    const drafter = await loadDrafter(folder, { target, tokenizer, onNotice });
    expect([drafter.vocabularySize, drafter.graph]).toEqual([22, undefined]);
    expect(notes.at(-1)).toMatch(/has another vocabulary\. 22 of the target's 24 tokens are shared/);
  });

  it('is accepted with the same tokenizer', async () => {
    const folder = writeDecoder(models.freshFolder(), tiny, 7);
    writeLetterTokenizer(folder, tiny);
    expect((await models.load(folder)).drafter.system).toBe('speculative-sampling');
  });
});

describe('a tensor that nothing reads', () => {
  const one = (name: string, size = 16): WritableTensors => ({
    [name]: noise(createRandom(5), [size], 1),
  });
  const eagle = eagleTensors(tiny, { bias: true, embedding: false });
  const eagle3 = eagle3Tensors(tiny, {});
  it.each([
    ['EAGLE with the norm that its layer does not have', eagle, 'layers.0.input_layernorm.weight'],
    ['EAGLE with a norm behind its layer', eagle, 'norm.weight'],
    ['EAGLE with a second layer', eagle, 'layers.1.mlp.up_proj.weight'],
    ['EAGLE-3 with a second layer', eagle3, 'layers.1.self_attn.q_proj.weight'],
    ['EAGLE-3 with a norm that its config does not ask for', eagle3, 'input_norm.weight'],
    ['EAGLE-3 with norms of its taps that its config does not ask for', eagle3, 'fc_norm.0.weight'],
    ['EAGLE-3 with biases in its MLP', eagle3, 'midlayer.mlp.down_proj.bias'],
  ])('is named: %s', async (_, tensors, name) => {
    const folder = write('model.safetensors', { ...tensors, ...one(name) });
    const message = new RegExp(`holds "${name.replaceAll('.', '\\.')}", which nothing here reads`);
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', message));
  });

  it('is named in Medusa and Hydra too', async () => {
    const medusa = write('m.safetensors', {
      ...medusaTensors(tiny, numbered('')),
      ...one('0.2.norm.weight'),
    });
    await expect(models.load(medusa)).rejects.toEqual(refusal('drafter', /"0\.2\.norm\.weight"/));
    const hydra = write(
      'hydra_lm_head.pt',
      { ...hydraTensors(tiny, 1, false), ...one('hydra_mlp.4.0.linear.bias') },
      { hydra_num_heads: 4, hydra_num_layers: 1, hydra_head_arch: 'mlp' },
    );
    await expect(models.load(hydra)).rejects.toEqual(refusal('drafter', /"hydra_mlp\.4\.0\.linear\.bias"/));
  });

  it('is no reason where anyone can compute it', async () => {
    const angles = one('layers.0.self_attn.rotary_emb.inv_freq', 2);
    const folder = write('model.safetensors', { ...eagle, ...angles });
    expect((await models.load(folder)).drafter.system).toBe('eagle');
  });

  it.each([
    [{ num_hidden_layers: 2 }, /has 2 layers|has no tensor "layers\.1\./],
    [{ logit_scale: 0.5 }, /scales its logits by 0\.5/],
  ])('is not there, but the config asks for more: %j', async (config, message) => {
    for (const tensors of [eagle, eagle3]) {
      const folder = write('model.safetensors', tensors, { ...headConfig, ...config });
      await expect(models.load(folder)).rejects.toThrow(message);
    }
  });

  it('is an output projection of EAGLE for other tokens than the target has', async () => {
    const output = { 'lm_head.weight': noise(createRandom(5), [20, 16], 1) };
    const folder = write('model.safetensors', { ...eagle, ...output });
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', /for 20 tokens; the target has 24/));
  });

  it('is asked for and missing: the norm before the fusion', async () => {
    const folder = write('model.safetensors', eagle3, { ...headConfig, norm_before_fc: true });
    await expect(models.load(folder)).rejects.toEqual(refusal('checkpoint', /input_norm\.weight/));
  });
});

describe('a damaged drafter', () => {
  const d2t = (values: number[]) => ({ dtype: 'I64', shape: [values.length], values }) as const;
  const draftTokens = someTokens(tiny);
  const eagle3 = eagle3Tensors(tiny, { draftTokens });
  const offsets = draftTokens.map((token, draft) => token - draft);

  it.each([
    [
      'd2t beyond the vocabulary',
      { ...eagle3, d2t: d2t([...offsets.slice(0, -1), 40]) },
      /maps draft token 15 to 55; the target has 24 tokens/,
    ],
    [
      'd2t below 0',
      { ...eagle3, d2t: d2t([-3, ...offsets.slice(1)]) },
      /maps draft token 0 to -3; the target has 24 tokens/,
    ],
    [
      'd2t with one token twice',
      { ...eagle3, d2t: d2t([offsets[1]! + 1, ...offsets.slice(1)]) },
      /maps 16 draft tokens to 15 target tokens/,
    ],
    [
      'd2t of another length',
      { ...eagle3, d2t: d2t(offsets.slice(0, 10)) },
      /maps 10 draft tokens to 10 target tokens; the drafter has 16/,
    ],
    ['no d2t', without(eagle3, 'd2t'), /drafts over 16 of 24 tokens and lacks d2t/],
    [
      'd2t and t2d at odds',
      { ...eagle3, t2d: { ...eagle3.t2d!, values: Array<number>(24).fill(0) } },
      /d2t and t2d that disagree on target token 0/,
    ],
    ['no output projection', without(eagle3, 'lm_head.weight'), /lacks the tensor lm_head\.weight/],
  ] as const)('EAGLE-3: %s', async (_, tensors, message) => {
    const folder = write('model.safetensors', tensors);
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', message));
  });

  it.each([
    ['EAGLE-3', without(eagle3, 'norm.weight'), /has no tensor "norm\.weight"/],
    [
      'EAGLE',
      without(eagleTensors(tiny, { bias: true, embedding: true }), 'layers.0.mlp.up_proj.weight'),
      /has no tensor "layers\.0\.mlp\.up_proj\.weight"/,
    ],
  ])('%s without one of its tensors', async (_, tensors, message) => {
    const folder = write('model.safetensors', tensors);
    await expect(models.load(folder)).rejects.toEqual(refusal('checkpoint', message));
  });

  it('EAGLE that declares a bias and has none', async () => {
    const tensors = eagleTensors(tiny, { bias: false, embedding: false });
    const folder = write('model.safetensors', tensors, { ...headConfig, bias: true });
    const message = /declares "bias": true and lacks fc\.bias/;
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', message));
  });

  it('Medusa with fewer heads than it declares, or without one of its layers', async () => {
    const tensors = medusaTensors(tiny, numbered(''));
    const short = write('medusa_lm_head.pt', tensors, { medusa_num_heads: 5 });
    await expect(models.load(short)).rejects.toEqual(refusal('drafter', /declares 5 heads and holds 4/));
    const torn = write('medusa_lm_head.pt', without(tensors, '2.1.weight'), {});
    await expect(models.load(torn)).rejects.toEqual(refusal('checkpoint', /has no tensor "2\.1\.weight"/));
  });

  it.each([
    [{ hydra_num_heads: 5 }, 'drafter', /lacks the tensor hydra_mlp\.4\.0\.linear\.weight/],
    [{ hydra_num_layers: 2 }, 'drafter', /lacks the tensor hydra_mlp\.0\.1\.linear\.weight/],
    [{ hydra_head_arch: 'cross-attn' }, 'drafter', /has heads of kind "cross-attn"/],
    [{ grounded_heads: false }, 'drafter', /ungrounded heads/],
    [{ hydra_num_heads: 'four' }, 'drafter', /cannot be read as Hydra's/],
  ])('Hydra with the config %j', async (config, code, message) => {
    const folder = write('hydra_lm_head.pt', hydraTensors(tiny, 1, false), config);
    await expect(models.load(folder)).rejects.toEqual(refusal(code, message));
  });

  it('a folder that holds something else', async () => {
    const weight = noise(createRandom(0), [4, 4], 1);
    const folder = write('model.safetensors', { 'encoder.weight': weight });
    await expect(models.load(folder)).rejects.toEqual(refusal('drafter', /no layout that is known here/));
  });
});

describe('a policy that does not fit its drafter', () => {
  it.each([
    ['Medusa, torch file', 'chain:5', /asks for 5 levels; Medusa has 4 heads/],
    ['Hydra++', 'dynamic:12,4,3', /asks for 5 levels; Hydra\+\+ has 4 heads/],
    ['Medusa, torch file', 'tree:eagle_25', /is 5 deep at \[0, 0, 0, 0, 0\]; this drafter reaches depth 4/],
    ['EAGLE-3 with d2t', 'dynamic:12,2,17', /asks for the best 17 of 16 tokens/],
    ['draft model', 'dynamic:12,2,25', /asks for the best 25 of 24 tokens/],
    [
      'EAGLE-3 with d2t',
      models.writeTree([[0], [16]]),
      /has the rank 16 in \[16\].*below the vocabulary size 16/,
    ],
    ['draft model', models.writeTree([[0], [1, 0]]), /has \[1, 0\] without its parent \[1\]/],
    ['draft model', models.writeTree([[0], [0, 1], [0]]), /lists \[0\] twice/],
    ['draft model', `tree:${join(models.freshFolder(), 'none.json')}`, /Cannot read the tree file/],
  ])('%s with %s', async (name, policy, message) => {
    const { drafter } = await models.load(writeVariant(name, tiny));
    let thrown: unknown;
    try {
      resolveText(policy, drafter);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toEqual(refusal('usage', message));
  });
});

describe('a drafter that is no number', () => {
  const request = {
    promptIds: [3, 1, 4],
    maxNewTokens: 24,
    stopIds: [],
    sampling: { temperature: 0 },
    seed: 0,
  };

  function spoil(tensors: WritableTensors, name: string, index: (length: number) => number): WritableTensors {
    const tensor = tensors[name]!;
    const values = Array.from(tensor.values);
    values[index(values.length)] = Number.NaN;
    return { ...tensors, [name]: { ...tensor, values } };
  }

  const last = (length: number): number => length - 1;
  const medusa = medusaTensors(tiny, numbered(''));
  const config = { 'medusa_lm_head.pt': {}, 'hydra_lm_head.pt': {}, 'model.safetensors': headConfig };

  it.each([
    ['Medusa', 'medusa_lm_head.pt', spoil(medusa, '2.0.linear.bias', last), 'chain:3'],
    [
      'Hydra',
      'hydra_lm_head.pt',
      spoil(hydraTensors(tiny, 1, false), 'hydra_lm_head.1.bias', last),
      'chain:3',
    ],
    [
      'Hydra++',
      'hydra_lm_head.pt',
      spoil(hydraTensors(tiny, 1, true), 'prefix_embeding_layer.norm.weight', last),
      'tree:mc_sim_7b_63',
    ],
    [
      'EAGLE',
      'model.safetensors',
      spoil(eagleTensors(tiny, { bias: true, embedding: false }), 'fc.bias', last),
      'dynamic:12,2,3',
    ],
    ['EAGLE-3', 'model.safetensors', spoil(eagle3Tensors(tiny, {}), 'lm_head.weight', last), 'tree:eagle_25'],
    [
      'EAGLE-3 in a chain',
      'model.safetensors',
      spoil(eagle3Tensors(tiny, {}), 'lm_head.weight', last),
      'chain:3',
    ],
  ] as const)('%s is reported, and the answer is the plain one', async (_, file, tensors, policyText) => {
    const arch = 'prefix_embeding_layer.norm.weight' in tensors ? { hydra_head_arch: 'prefix-mlp' } : {};
    const { target, drafter, tokenizer } = await models.load(
      write(file, tensors, { ...config[file], ...arch }),
    );
    const plain = await decodePlain(target, { ...request, tokenizer });
    const notices: string[] = [];
    const policy = always(resolveText(policyText, drafter));
    const onNotice = (message: string): void => {
      notices.push(message);
    };
    const result = await decodeSpeculative(target, drafter, { ...request, tokenizer, policy, onNotice });
    expect(notices).toEqual([
      expect.stringMatching(/scores that are no numbers \(NaN\).*continues with plain decoding/),
    ]);
    expect(result.drafterFailed).toBe(true);
    expect(result.tokenIds).toEqual(plain.tokenIds);
    expect(result.text).toBe(plain.text);
    expect(result.acceptance.accepted).toBe(0);
    expect(new Set(result.origins)).toEqual(new Set(['target']));
    const sampling = { temperature: 1 };
    const sampled = await decodeSpeculative(target, drafter, { ...request, sampling, policy });
    expect(sampled.tokenIds).toHaveLength(24);
    expect(sampled.drafterFailed).toBe(true);
  });

  it('may fail late, at one token of its vocabulary', async () => {
    const healthy = await models.load(writeDecoder(models.freshFolder(), tiny));
    const plain = await decodePlain(healthy.target, request);
    const place = plain.tokenIds.findIndex(
      (token, index) => index > 8 && !plain.tokenIds.slice(0, index).includes(token),
    );
    expect(place).toBeGreaterThan(8);
    const poison = plain.tokenIds[place]! * tiny.hiddenSize;
    const tensors = spoil(decoderTensors(tiny), 'model.embed_tokens.weight', () => poison);
    const { target, drafter } = await models.load(write('model.safetensors', tensors, llamaConfig(tiny)));
    const policy = always(resolveText('chain:2', drafter));
    let notices = 0;
    const onNotice = (): void => void (notices += 1);
    const result = await decodeSpeculative(target, drafter, { ...request, policy, onNotice });
    expect(result.tokenIds).toEqual(plain.tokenIds);
    expect(notices).toBe(1);
    expect(result.acceptance.accepted).toBeGreaterThan(2);
    expect(result.drafterFailed).toBe(true);
  });
});

describe("past the length that the drafter's config names", () => {
  const request = {
    promptIds: [1, 2, 3, 4, 5, 6, 7, 8],
    ...{ maxNewTokens: 40, sampling: { temperature: 0 }, seed: 0, stopIds: [] },
  };
  const short: TinySizes = { ...tiny, contextLength: 20 };
  async function decode(folder: string) {
    const { target, drafter } = await models.load(folder);
    const notices: string[] = [];
    const onNotice = (notice: string): void => void notices.push(notice);
    const policy = always(resolveText('chain:2', drafter));
    const result = await decodeSpeculative(target, drafter, { ...request, policy, onNotice });
    expect(result.tokenIds).toEqual((await decodePlain(target, request)).tokenIds);
    const late = result.steps.slice(-4).map(({ proposed }) => proposed);
    return { notices, late };
  }

  it.each(['EAGLE, torch file, with bias', 'EAGLE-3 with d2t'])(
    'an %s head goes on, as in the authors’ code',
    async (name) => {
      const { notices, late } = await decode(writeVariant(name, short));
      expect(notices).toEqual([]);
      expect(late.slice(0, 3)).toEqual([2, 2, 2]);
    },
  );

  it('a draft model stops, and that is said once', async () => {
    const { notices, late } = await decode(writeDecoder(models.freshFolder(), short, 7));
    expect(notices).toEqual([
      expect.stringMatching(/context of the drafter is full at \d+ positions; the target's has 64/),
    ]);
    expect(late).toEqual([0, 0, 0, 0]);
  });
});
