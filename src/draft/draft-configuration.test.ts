import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CausalModel } from '../model/causal-model.js';
import { parseConfiguration } from '../model/configuration.js';
import { readDraftConfiguration } from './draft-configuration.js';

const configuration = parseConfiguration(
  {
    architectures: ['Qwen3ForCausalLM'],
    hidden_size: 64,
    intermediate_size: 96,
    num_hidden_layers: 12,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 32,
    vocab_size: 100,
    max_position_embeddings: 512,
    rms_norm_eps: 1e-6,
    rope_theta: 1_000_000,
  },
  'target',
);

function read(config: Record<string, unknown>) {
  const checkpoint: Checkpoint = { folder: 'head', config, tensors: new Map(), files: [] };
  return readDraftConfiguration(checkpoint, { configuration } as CausalModel);
}

describe('readDraftConfiguration', () => {
  it("takes what is left out from the target, as one layer of Llama's", () => {
    expect(read({})).toMatchObject({
      family: 'llama',
      layerCount: 1,
      hiddenSize: 64,
      headCount: 4,
      keyValueHeadCount: 2,
      headSize: 32,
      contextLength: 512,
      rotaryBase: 1_000_000,
      normEpsilon: 1e-6,
      queryKeyNorm: false,
    });
  });

  it('keeps what the head says itself', () => {
    const own = { num_attention_heads: 8, num_key_value_heads: 8, rope_theta: 10_000, num_hidden_layers: 5 };
    expect(read(own)).toMatchObject({ headCount: 8, headSize: 8, rotaryBase: 10_000, layerCount: 1 });
    expect(read({ head_dim: 16 })).toMatchObject({ headCount: 4, headSize: 16 });
  });

  it('reads the newer form of the rotary settings', () => {
    const own = { rope_parameters: { rope_type: 'default', rope_theta: 500_000 } };
    expect(read(own).rotaryBase).toBe(500_000);
  });

  it('accepts the names that trainers give, and null for nothing', () => {
    const named = read({ architectures: ['LlamaForCausalLMEagle3'], rope_scaling: null, head_dim: null });
    expect(named).toMatchObject({ family: 'llama', rotaryScaling: { kind: 'none' }, headSize: 32 });
  });
});
