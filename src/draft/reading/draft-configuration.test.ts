import { describe, expect, it } from 'vitest';
import { parseConfiguration } from '../../model/configuration.js';
import { flattenConfig, isSpeculatorsFormat, readDraftConfiguration } from './draft-configuration.js';

const known = {
  hiddenSize: 64,
  intermediateSize: 96,
  vocabularySize: 100,
  headCount: 4,
  keyValueHeadCount: 2,
  headSize: 32,
};

function read(config: Record<string, unknown>) {
  return readDraftConfiguration({ folder: 'head', config: { rms_norm_eps: 1e-6, ...config } }, known);
}

describe('readDraftConfiguration', () => {
  it("takes sizes from the tensors, heads from the target and the rest from Llama's defaults", () => {
    expect(read({})).toMatchObject({
      ...{ family: 'llama', layerCount: 1, hiddenSize: 64, intermediateSize: 96 },
      ...{ headCount: 4, keyValueHeadCount: 2, headSize: 32 },
      ...{ rotaryBase: 10_000, normEpsilon: 1e-6, queryKeyNorm: false },
    });
    expect(read({}).rotaryOrigin).toBe('default 10000');
  });

  it('keeps what the head says itself', () => {
    const own = { num_attention_heads: 8, num_key_value_heads: 8, rope_theta: 20_000, num_hidden_layers: 5 };
    expect(read(own)).toMatchObject({ headCount: 8, headSize: 8, rotaryBase: 20_000, layerCount: 1 });
    expect(read(own).rotaryOrigin).toBe('rope_theta of config.json');
    expect(read({ head_dim: 16 })).toMatchObject({ headCount: 4, headSize: 16 });
  });

  it('has as many key-value heads as heads where only these are named', () => {
    expect(read({ num_attention_heads: 8 })).toMatchObject({ headCount: 8, keyValueHeadCount: 8 });
  });

  it('reads the newer form of the rotary settings', () => {
    const own = { rope_parameters: { rope_type: 'default', rope_theta: 500_000 } };
    expect(read(own)).toMatchObject({
      rotaryBase: 500_000,
      rotaryOrigin: 'rope_parameters.rope_theta of config.json',
    });
  });

  it('reads the layer of the speculators format', () => {
    const config = {
      speculators_model_type: 'eagle3',
      draft_vocab_size: 40,
      transformer_layer_config: {
        ...{ num_attention_heads: 8, num_key_value_heads: 4, head_dim: 16, rms_norm_eps: 1e-5 },
        rope_theta: 500_000,
      },
    };
    expect(isSpeculatorsFormat(config)).toBe(true);
    expect(flattenConfig(config)).toMatchObject({ draft_vocab_size: 40, head_dim: 16 });
    expect(read(config)).toMatchObject({
      ...{ headCount: 8, keyValueHeadCount: 4, headSize: 16, normEpsilon: 1e-5, rotaryBase: 500_000 },
    });
  });

  it('refuses a head without rms_norm_eps, as a target without it is refused', () => {
    const missing = 'config.json of head lacks "rms_norm_eps".';
    expect(() => read({ rms_norm_eps: undefined })).toThrow(missing);
    expect(() => read({ rms_norm_eps: null })).toThrow(missing);
    const sizes = { hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4 };
    const target = { ...sizes, architectures: ['LlamaForCausalLM'], vocab_size: 9 };
    expect(() => parseConfiguration(target, 'config.json of head')).toThrow(missing);
  });

  it('accepts the names that trainers give, and null for nothing', () => {
    const named = read({ architectures: ['LlamaForCausalLMEagle3'], rope_scaling: null, head_dim: null });
    expect(named).toMatchObject({ family: 'llama', rotaryScaling: { kind: 'none' }, headSize: 32 });
  });
});
