import { describe, expect, it } from 'vitest';
import { parseConfiguration } from './configuration.js';

const llama = {
  architectures: ['LlamaForCausalLM'],
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  vocab_size: 100,
  max_position_embeddings: 32768,
  rms_norm_eps: 1e-5,
};
const mistral = { ...llama, architectures: ['MistralForCausalLM'] };
const qwen2 = { ...llama, architectures: ['Qwen2ForCausalLM'], sliding_window: 4096 };
const qwen3 = { ...qwen2, architectures: ['Qwen3ForCausalLM'], head_dim: 16 };
const parse = (config: Readonly<Record<string, unknown>>) => parseConfiguration(config, 'config.json');

describe('an architecture that is not known', () => {
  it.each([
    [['FooForCausalLM', { a: [1] }], 'the architecture FooForCausalLM, {"a":[1]}, which is not supported'],
    [['x'.repeat(100_000)], `the architecture ${'x'.repeat(200)}, which is not supported`],
    [7, 'the architecture null, which is not supported'],
  ])('%.60j is named as it stands there, in short', (architectures, sentence) => {
    expect(() => parse({ ...llama, architectures })).toThrow(sentence);
  });
});

describe('the sliding window', () => {
  it.each([
    ["Mistral's default", mistral, 4096],
    ['none for Mistral', { ...mistral, sliding_window: null }, undefined],
    ['of Mistral', { ...mistral, sliding_window: 1024 }, 1024],
    ['longer than the context', { ...mistral, sliding_window: 32768 }, undefined],
    ['of Qwen2, not asked for', qwen2, undefined],
    ['of Qwen2, refused', { ...qwen2, use_sliding_window: false, max_window_layers: 0 }, undefined],
    ['of Qwen2, behind its layers', { ...qwen2, use_sliding_window: true }, undefined],
    ['of Qwen2 in every layer', { ...qwen2, use_sliding_window: true, max_window_layers: 0 }, 4096],
    ['of Qwen3 in every layer', { ...qwen3, use_sliding_window: true, max_window_layers: 0 }, 4096],
    [
      'of Qwen3 in no layer',
      { ...qwen3, use_sliding_window: true, layer_types: Array(4).fill('full_attention') },
      undefined,
    ],
  ])('%s', (_, config, slidingWindow) => {
    const { contextLength, contextOrigin, notes, ...rest } = parse(config);
    expect(rest.slidingWindow).toBe(slidingWindow);
    expect({ contextLength, contextOrigin, notes }).toEqual({
      contextLength: 32768,
      contextOrigin: 'max_position_embeddings',
      notes: [],
    });
  });

  it.each([
    ['from a layer on', { ...qwen2, use_sliding_window: true, max_window_layers: 3 }, '1 of its 4 layers'],
    [
      'by layer types',
      {
        ...qwen2,
        use_sliding_window: true,
        layer_types: ['sliding_attention', 'full_attention', 'sliding_attention', 'full_attention'],
      },
      '2 of its 4 layers',
    ],
  ])('of some layers ends the context: %s', (_, config, which) => {
    const parsed = parse(config);
    expect(parsed).toMatchObject({ contextLength: 4096, slidingWindow: undefined });
    expect(parsed.contextOrigin).toBe(`the sliding window of ${which}`);
    expect(parsed.notes).toEqual([expect.stringContaining('ends at 4096 of 32768 positions')]);
  });

  it('is not a thing of Llama, and a note says so', () => {
    const parsed = parse({ ...llama, sliding_window: 4096 });
    expect(parsed).toMatchObject({ contextLength: 32768, slidingWindow: undefined });
    expect(parsed.notes).toEqual([expect.stringContaining('not used')]);
  });
});

describe('the context', () => {
  const bare = { ...llama, max_position_embeddings: undefined };
  const longrope = {
    rope_type: 'longrope',
    original_max_position_embeddings: 4096,
    short_factor: Array(8).fill(1),
    long_factor: Array(8).fill(4),
  };
  it.each([
    ['the older name', { ...bare, max_sequence_length: 2048 }, 2048, 'max_sequence_length'],
    ['both names', { ...llama, max_sequence_length: 65536 }, 32768, 'max_position_embeddings'],
    [
      'a long Vicuna',
      {
        ...llama,
        max_position_embeddings: 4096,
        max_sequence_length: 16384,
        rope_scaling: { type: 'linear', factor: 4 },
      },
      16384,
      'max_sequence_length',
    ],
    [
      'yarn beyond it',
      { ...llama, rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 32768 } },
      131072,
      'original_max_position_embeddings times the factor of yarn',
    ],
    ['dynamic', { ...llama, rope_scaling: { type: 'dynamic', factor: 4 } }, 32768, 'max_position_embeddings'],
    [
      'longrope',
      { ...llama, rope_parameters: longrope },
      4096,
      'original_max_position_embeddings, where longrope changes its factors',
    ],
  ])('%s', (_, config, contextLength, contextOrigin) => {
    expect(parse(config)).toMatchObject({ contextLength, contextOrigin });
  });

  it('is noted where a scaling could go on and we do not', () => {
    const { notes } = parse({ ...llama, rope_scaling: { type: 'dynamic', factor: 4 } });
    expect(notes).toEqual([expect.stringMatching(/ends at 32768 positions: beyond them dynamic/)]);
    expect(parse({ ...llama, rope_parameters: longrope }).notes).toEqual([
      expect.stringMatching(/ends at 4096 positions: longrope/),
    ]);
  });

  it('is missed where neither name is given', () => {
    expect(() => parse(bare)).toThrow(/neither "max_position_embeddings" nor "max_sequence_length"/);
  });
});

describe('other ways to say the same', () => {
  it('knows swish for silu, absent key-value heads and a null head size', () => {
    const parsed = parse({ ...llama, hidden_act: 'swish', head_dim: null });
    expect(parsed).toMatchObject({ keyValueHeadCount: 4, headSize: 16 });
    expect(parse({ ...llama, num_key_value_heads: null }).keyValueHeadCount).toBe(4);
  });

  it.each([
    [{ hidden_act: 'gelu' }, /activation "gelu"; silu was expected/],
    [{ quantization_config: { quant_method: 'fp8' } }, /the weights are quantised \(fp8\)/],
    [{ layer_types: ['full_attention'] }, /types of 1 layers; it has 4/],
    [{ layer_types: ['linear_attention'] }, /bad "layer_types\.0"/],
  ])('refuses %j', (part, message) => {
    expect(() => parse({ ...llama, ...part })).toThrow(message);
  });
});
