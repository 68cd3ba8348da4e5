/** Published checkpoints that are not supported: each is refused with a sentence that names what stands in the way. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { createRandom } from '../../src/core/random.js';
import { inspectCheckpoint } from '../../src/draft/inspection.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { noise } from '../support/tiny-checkpoints.js';
import type { PublishedDrafter } from './drafter-row.js';
import { publishedDrafters } from './published-drafters.js';
import type { PublishedFolder } from './published-layouts.js';
import { writePublished } from './published-layouts.js';
import { drafterTarget, partlySparseTarget, publishedTargets } from './published-targets.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});
let count = 0;
const options = { runtime, cacheFolder: join(temporary.path, 'cache') };

function write(folder: PublishedFolder): string {
  return writePublished(join(temporary.path, String((count += 1))), folder);
}

type Changes = Partial<Omit<PublishedFolder, 'file'>>;

function change(folder: PublishedFolder, { config = {}, tensors = {} }: Changes): PublishedFolder {
  return {
    ...folder,
    config: { ...folder.config, ...config },
    tensors: { ...folder.tensors, ...tensors },
  };
}

const one = (name: string) => ({ [name]: noise(createRandom(5), [8, 8], 1) });
const architecture = (name: string): Changes => ({ config: { architectures: [name] } });
const dynamic: Changes = { config: { rope_scaling: { type: 'dynamic', factor: 4 } } };
const longrope: Changes = {
  config: {
    rope_scaling: {
      ...{ type: 'longrope', factor: 128, original_max_position_embeddings: 16 },
      ...{ short_factor: [1, 1, 1, 1], long_factor: [1, 2, 3, 4] },
    },
  },
};
const quantised = (method: string): Changes => ({
  config: { quantization_config: { quant_method: method } },
});

const mixture = publishedTargets.find(({ family }) => family === 'qwen3-moe')!.folder;

describe('a target', () => {
  const cases: readonly [what: string, changes: Changes, message: RegExp][] = [
    ['Mixtral', architecture('MixtralForCausalLM'), /architecture MixtralForCausalLM/],
    ['Qwen2 with experts', architecture('Qwen2MoeForCausalLM'), /architecture Qwen2MoeForCausalLM/],
    ['Gemma', architecture('Gemma2ForCausalLM'), /architecture Gemma2ForCausalLM/],
    ['Phi', architecture('Phi3ForCausalLM'), /architecture Phi3ForCausalLM/],
    ['gpt-oss', architecture('GptOssForCausalLM'), /architecture GptOssForCausalLM/],
    ['DeepSeek', architecture('DeepseekV3ForCausalLM'), /architecture DeepseekV3ForCausalLM/],
    ['AWQ', quantised('awq'), /quantised \(awq\)/],
    ['GPTQ', quantised('gptq'), /quantised \(gptq\)/],
    ['FP8', quantised('fp8'), /quantised \(fp8\)/],
    ['biases in the MLP', { config: { mlp_bias: true } }, /biases in the MLP/],
    ['partial rotary', { config: { partial_rotary_factor: 0.5 } }, /partial rotary embedding/],
    ['another activation', { config: { hidden_act: 'gelu' } }, /activation "gelu"/],
    ['an MTP head in its shards', { tensors: one('mtp.layers.0.eh_proj.weight') }, /mtp\.layers\.0\.eh_proj/],
    ['a layer too many', { tensors: one('model.layers.8.mlp.up_proj.weight') }, /model\.layers\.8/],
  ];
  it.each(cases)('is refused: %s', async (_, changes, message) => {
    const folder = write(change(drafterTarget.folder, changes));
    await expect(loadModel(folder, options)).rejects.toThrow(message);
    const { problems } = await inspectCheckpoint(folder);
    expect(problems.map(({ problem }) => problem)).toContainEqual(expect.stringMatching(message));
  });

  const without = (left: string): PublishedFolder => ({
    ...mixture,
    tensors: Object.fromEntries(Object.entries(mixture.tensors).filter(([name]) => name !== left)),
  });
  const router = mixture.tensors['model.layers.1.mlp.gate.weight']!;
  const experts: readonly [what: string, folder: PublishedFolder, message: RegExp][] = [
    [
      'more experts per token than experts',
      change(mixture, { config: { num_experts_per_tok: 9 } }),
      /chooses 9 experts per token \(num_experts_per_tok\) of 8 \(num_experts\)/,
    ],
    ['no experts', change(mixture, { config: { num_experts: 0 } }), /has a bad "num_experts"/],
    ['a million experts', change(mixture, { config: { num_experts: 1e6 } }), /has a bad "num_experts"/],
    ['a sparse step of 0', change(mixture, { config: { decoder_sparse_step: 0 } }), /"decoder_sparse_step"/],
    [
      'no size of an expert',
      change(mixture, { config: { moe_intermediate_size: undefined } }),
      /lacks "moe_intermediate_size"/,
    ],
    [
      'a missing expert',
      without('model.layers.2.mlp.experts.7.up_proj.weight'),
      /no tensor "model\.layers\.2\.mlp\.experts\.7\.up_proj\.weight"/,
    ],
    [
      'an expert that is not announced',
      change(mixture, { config: { num_experts: 7 } }),
      /holds "model\.layers\.0\.mlp\.experts\.7\..*, which a Qwen3-MoE decoder of 4 layers does not read/,
    ],
    [
      'a router of another size',
      change(mixture, {
        tensors: { 'model.layers.1.mlp.gate.weight': { ...router, shape: [4, 64] } },
      }),
      /gate\.weight" of .* has shape \[4, 64\], expected \[8, 32\]/,
    ],
    [
      'a sparse step that is off by one',
      change(partlySparseTarget.folder, { config: { decoder_sparse_step: 1 } }),
      /holds "model\.layers\.0\.mlp\.gate_proj\.weight"/,
    ],
  ];
  it.each(experts)('with experts is refused: %s', async (_, folder, message) => {
    const path = write(folder);
    await expect(loadModel(path, options)).rejects.toThrow(message);
    const { problems } = await inspectCheckpoint(path);
    expect(problems.map(({ problem }) => problem)).toContainEqual(expect.stringMatching(message));
  });

  it('with more experts per token than experts is refused with the place of the right number', async () => {
    const folder = write(change(mixture, { config: { num_experts_per_tok: 9 } }));
    await expect(loadModel(folder, options)).rejects.toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/^Take the value from/) as string }) as Error,
    );
  });

  it('is refused: GGUF', async () => {
    const folder = join(temporary.path, 'gguf');
    mkdirSync(folder);
    writeFileSync(join(folder, 'model-Q4_K_M.gguf'), 'GGUF');
    await expect(loadModel(folder, options)).rejects.toThrow(/is a GGUF file/);
  });
});

describe('a drafter', () => {
  const find = (name: string): PublishedDrafter => publishedDrafters.find((row) => row.name === name)!;
  const eagle = find('yuhuili/EAGLE-LLaMA3-Instruct-8B');
  const eagle3 = find('yuhuili/EAGLE3-LLaMA3.1-Instruct-8B');
  const speculators = find('RedHatAI/Qwen3-8B-speculator.eagle3');
  const prefixHydra = find('ankner/hydra-vicuna-7b-v1.3');
  const medusa = find('FasterDecoding/medusa-vicuna-7b-v1.3');
  const mtp = find('the MTP module of MiMo-7B-RL alone');
  const cases: readonly [what: string, row: PublishedDrafter, changes: Changes, message: RegExp][] = [
    [
      'EAGLE of two layers',
      eagle,
      { tensors: one('layers.1.self_attn.q_proj.weight') },
      /layers\.1\.self_attn\.q_proj/,
    ],
    [
      'EAGLE-3 of two layers',
      speculators,
      { tensors: one('layers.1.self_attn.q_proj.weight') },
      /layers\.1\.self_attn\.q_proj/,
    ],
    ['HASS norms', eagle, { tensors: one('embed_layernorm.weight') }, /embed_layernorm\.weight/],
    [
      'biases in the MLP',
      eagle3,
      { tensors: one('midlayer.mlp.up_proj.bias') },
      /midlayer\.mlp\.up_proj\.bias/,
    ],
    [
      'a norm that its config does not ask for',
      eagle3,
      { tensors: one('input_norm.weight') },
      /input_norm\.weight/,
    ],
    [
      'EAGLE-3 on the last feature alone',
      eagle3,
      { config: { eagle_config: { use_aux_hidden_state: false } } },
      /use_aux_hidden_state/,
    ],
    [
      'Hydra of another kind',
      prefixHydra,
      { config: { hydra_head_arch: 'cross-attn' } },
      /heads of kind "cross-attn"/,
    ],
    [
      'a window without a length',
      eagle3,
      { config: { layer_types: ['sliding_attention'] } },
      /has no sliding_window/,
    ],
    [
      'attention of another kind',
      eagle,
      { config: { layer_types: ['linear_attention'] } },
      /"layer_types": \["linear_attention"\]/,
    ],
    ['dynamic scaling', eagle3, dynamic, /rotary scaling "dynamic"/],
    ['dynamic scaling in EAGLE', eagle, dynamic, /rotary scaling "dynamic"/],
    [
      "dynamic scaling as AngelSlim's head for Hunyuan-1.8B has it",
      eagle3,
      { config: { rope_scaling: { type: 'dynamic', alpha: 1000, factor: 1, mscale: 1, mscale_all_dim: 1 } } },
      /rotary scaling "dynamic"/,
    ],
    ['longrope that ends before its target', eagle3, longrope, /"longrope" beyond 16 positions/],
    ['no epsilon of its norms', eagle3, { config: { rms_norm_eps: null } }, /lacks "rms_norm_eps"/],
    ['no epsilon of its norms in EAGLE', eagle, { config: { rms_norm_eps: null } }, /lacks "rms_norm_eps"/],
    [
      'the head of a vision model',
      eagle3,
      { config: { rope_scaling: { type: 'mrope', mrope_section: [1, 1, 2] } } },
      /rotary scaling "mrope"/,
    ],
    [
      'P-EAGLE without a mask token',
      speculators,
      { tensors: one('mask_hidden') },
      /no mask token|mask_hidden/,
    ],
    [
      'DFlash without the size of its block',
      eagle,
      { tensors: { 'fc.weight': noise(createRandom(5), [32, 160], 1), ...one('hidden_norm.weight') } },
      /no block_size in its config\.json/,
    ],
    ['three MTP modules', mtp, { config: { num_nextn_predict_layers: 3 } }, /"num_nextn_predict_layers": 3/],
    [
      'a second MTP module',
      mtp,
      { tensors: one('model.mtp_layers.1.input_proj.weight') },
      /has several MTP modules/,
    ],
    ['an MTP module with a window', mtp, { config: { use_sliding_window: true } }, /"use_sliding_window"/],
    [
      'experts in an MTP module',
      mtp,
      { tensors: one('model.mtp_layers.0.mlp.experts.0.up_proj.weight') },
      /mlp\.experts\.0\.up_proj/,
    ],
    [
      'an MTP module of another width',
      mtp,
      { tensors: { 'model.mtp_layers.0.input_proj.weight': noise(createRandom(5), [16, 32], 1) } },
      /input_proj\.weight with 16 rows; the target asks for 32/,
    ],
    ['Medusa with scaled logits', medusa, { config: { logit_scale: 0.5 } }, /scales its logits by 0\.5/],
    ['Medusa over some tokens', medusa, { tensors: one('token_map') }, /token_map/],
  ];
  it.each(cases)('is refused: %s', async (_, row, changes, message) => {
    const target = await loadModel(write(row.target.folder), options);
    const folder = write(change(row.folder, changes));
    await expect(loadDrafter(folder, { target, ...options })).rejects.toThrow(message);
  });

  it('is refused: experts in the place of an MLP', async () => {
    const target = await loadModel(write(eagle3.target.folder), options);
    const tensors = Object.fromEntries(
      Object.entries(eagle3.folder.tensors).map(([name, tensor]) => [
        name.replace('mlp.', 'mlp.experts.0.'),
        tensor,
      ]),
    );
    const folder = write({ ...eagle3.folder, tensors });
    await expect(loadDrafter(folder, { target, ...options })).rejects.toThrow(/midlayer\.mlp\.gate_proj/);
  });

  it('is refused: GRIFFIN', async () => {
    const target = await loadModel(write(eagle.target.folder), options);
    const { 'fc.weight': fusion, ...tensors } = eagle.folder.tensors;
    const griffin = { ...tensors, 'fc.fc.weight': fusion!, ...one('fc.mlp.up_proj.weight') };
    const folder = write({ ...eagle.folder, tensors: griffin });
    await expect(loadDrafter(folder, { target, ...options })).rejects.toThrow(
      /has the layout of GRIFFIN, .* which is not supported\./,
    );
  });

  const otherModules: readonly [family: string, tensor: string, config: PublishedFolder['config']][] = [
    ['DeepSeek-V3 or GLM', 'model.layers.61.eh_proj.weight', {}],
    ['Qwen3-Next or Qwen3.5', 'mtp.fc.weight', {}],
    ['EXAONE 4.5', 'mtp.fc.weight', { architectures: ['Exaone4_5_ForConditionalGeneration'] }],
    ["Gemma 4's assistant", 'pre_projection.weight', { model_type: 'gemma4_assistant' }],
  ];
  it.each(otherModules)('is refused: the MTP module of %s', async (family, tensor, config) => {
    const target = await loadModel(write(drafterTarget.folder), options);
    // It is also wider than the target; naming that would send the user to look for another target.
    const wide = { hidden_size: 7168, ...config };
    const folder = write({ config: wide, file: 'model.safetensors', tensors: one(tensor) });
    const sentence = new RegExp(`has the MTP module of ${family}, which is not supported: [^.]+\\.$`);
    await expect(loadDrafter(folder, { target, ...options })).rejects.toThrow(
      expect.objectContaining({ message: expect.stringMatching(sentence) as string }) as Error,
    );
    const { problems } = await inspectCheckpoint(folder);
    expect(problems.map(({ problem }) => problem)).toEqual([expect.stringMatching(sentence)]);
  });

  it('is refused: names such as fusion_fc.weight', async () => {
    const target = await loadModel(write(drafterTarget.folder), options);
    const folder = write({ config: {}, file: 'model.safetensors', tensors: one('fusion_fc.weight') });
    await expect(loadDrafter(folder, { target, ...options })).rejects.toThrow(/no layout that is known here/);
  });
});
