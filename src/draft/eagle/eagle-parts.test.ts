import { describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../../../test/support/checkpoint/write-safetensors.js';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ReadingOptions } from '../draft-system.js';
import { inspectCheckpoint } from '../inspection.js';

/** Widths of a head for a target of width 8: two heads of four. */
const shapes: Readonly<Record<string, readonly number[]>> = {
  'fc.weight': [8, 24],
  'layers.0.hidden_norm.weight': [8],
  'layers.0.input_layernorm.weight': [8],
  'layers.0.post_attention_layernorm.weight': [8],
  'layers.0.self_attn.q_proj.weight': [8, 16],
  'layers.0.self_attn.k_proj.weight': [8, 16],
  'layers.0.self_attn.v_proj.weight': [8, 16],
  'layers.0.self_attn.o_proj.weight': [8, 8],
  'layers.0.mlp.gate_proj.weight': [12, 8],
  'layers.0.mlp.up_proj.weight': [12, 8],
  'layers.0.mlp.down_proj.weight': [8, 12],
  'norm.weight': [8],
  'lm_head.weight': [10, 8],
};

async function inspect(
  config: Record<string, unknown>,
  extra: Readonly<Record<string, readonly number[]>> = {},
  options: ReadingOptions = {},
) {
  const folder = makeTemporaryFolder();
  try {
    const path = join(folder.path, 'head');
    mkdirSync(path);
    writeFileSync(join(path, 'config.json'), JSON.stringify(config));
    const entries = Object.entries({ ...shapes, ...extra }).map(([name, shape]) => {
      const length = shape.reduce((product, size) => product * size, 1);
      return [name, { dtype: 'F32', shape, values: new Float32Array(length) }] as const;
    });
    writeSafetensors(join(path, 'model.safetensors'), Object.fromEntries(entries));
    return await inspectCheckpoint(path, options);
  } finally {
    folder.remove();
  }
}

const layer = {
  ...{ hidden_size: 8, intermediate_size: 12, num_attention_heads: 2, vocab_size: 10 },
  rms_norm_eps: 1e-5,
};

describe('inspecting an EAGLE-3 head', () => {
  it('says where the rotary base comes from, and which layers are tapped', async () => {
    const { drafter, problems } = await inspect(layer);
    expect(problems).toEqual([]);
    expect(drafter).toMatchObject({
      rotary: { base: 10_000, origin: 'default 10000' },
      traits: [],
      expects: { taps: 3, tapRule: 'the default: before layers 2, L/2 and L - 3' },
    });
  });

  it('reads the speculators format, and lists what the head brings', async () => {
    const config = {
      speculators_model_type: 'eagle3',
      eagle_aux_hidden_state_layer_ids: [2, 16, 29],
      norm_before_fc: true,
      transformer_layer_config: { ...layer, rope_theta: 500_000 },
    };
    const extra = { 'input_norm.weight': [24], 'embed_tokens.weight': [10, 8] };
    const { drafter, problems } = await inspect(config, extra);
    expect(problems).toEqual([]);
    expect(drafter).toMatchObject({
      rotary: { base: 500_000, origin: 'rope_theta of config.json' },
      traits: ['embeddings of its own', 'norm_before_fc', 'norm_before_residual'],
      expects: {
        tapRule: '2, 16, 29: inputs of these layers, because the file is in the speculators format',
      },
    });
  });

  it('explains what listed layers are, and asks where that is not known', async () => {
    const list = { eagle_aux_hidden_state_layer_ids: [2, 4, 6] };
    const known = await inspect({ ...layer, architectures: ['LlamaForCausalLMEagle3'], eagle_config: list });
    expect(known.problems).toEqual([]);
    expect(known.drafter?.expects.tapRule).toMatch(/^2, 4, 6: outputs of these layers, because SpecForge/);
    const unknown = await inspect({ ...layer, eagle_config: list });
    expect(unknown.problems).toEqual([
      {
        problem: expect.stringContaining('inputs or outputs of layers is not known') as string,
        remedy: expect.stringContaining('--taps outputs') as string,
      },
    ]);
    const told = await inspect({ ...layer, eagle_config: list }, {}, { taps: 'inputs' });
    expect(told.problems).toEqual([]);
    expect(told.drafter?.expects.tapRule).toBe('2, 4, 6: inputs of these layers, because --taps says so');
  });

  it('names the tensors that nothing reads', async () => {
    const { problems } = await inspect(layer, { 'layers.1.mlp.up_proj.weight': [12, 8] });
    expect(problems.map(({ problem }) => problem)).toEqual([
      'The drafter holds "layers.1.mlp.up_proj.weight", which nothing here reads.',
    ]);
  });

  it.each([
    [
      { layer_types: ['sliding_attention'] },
      'asks for sliding attention in layer_types and has no sliding_window',
    ],
    [
      { layer_types: ['sliding_attention'], sliding_window: 512, use_sliding_window: false },
      'asks for sliding attention in layer_types and switches it off by use_sliding_window',
    ],
    [{ layer_types: ['chunked_attention'] }, 'full_attention or sliding_attention for 1 layer was expected'],
    [{ layer_types: [] }, 'full_attention or sliding_attention for 1 layer was expected'],
    [{ sliding_window: 0 }, 'has a bad "sliding_window"'],
    [{ rope_scaling: { type: 'dynamic', factor: 4 } }, 'asks for the rotary scaling "dynamic"'],
    [
      { rope_parameters: { rope_type: 'dynamic', rope_theta: 10_000, factor: 4 } },
      'asks for the rotary scaling "dynamic"',
    ],
    [{ rms_norm_eps: null }, 'lacks "rms_norm_eps"'],
  ])('refuses %j', async (settings, expected) => {
    const { problems } = await inspect({ ...layer, ...settings });
    expect(problems.map(({ problem }) => problem)).toEqual([expect.stringContaining(expected)]);
  });

  it.each([
    { sliding_window: 512 },
    { sliding_window: 512, use_sliding_window: false },
    { sliding_window: null },
    { sliding_window: 512, layer_types: ['full_attention'] },
  ])('accepts %j, which asks for no window', async (settings) => {
    const { drafter, problems } = await inspect({ ...layer, ...settings });
    expect(problems).toEqual([]);
    expect(drafter?.traits?.join()).not.toContain('window');
  });

  it.each([
    { sliding_window: 512, use_sliding_window: true },
    { sliding_window: 512, layer_types: ['sliding_attention', 'full_attention'] },
  ])('reads the window of %j', async (settings) => {
    const { drafter, problems } = await inspect({ ...layer, ...settings });
    expect(problems).toEqual([]);
    expect(drafter?.traits).toContain('a sliding window of 512 positions');
  });
});
