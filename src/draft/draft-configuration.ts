/** EAGLE heads carry a Llama configuration of one layer; what it leaves out is the target's. */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CausalModel } from '../model/causal-model.js';
import type { ModelConfiguration } from '../model/configuration.js';
import { parseConfiguration } from '../model/configuration.js';

export function readDraftConfiguration(
  { config, folder }: Checkpoint,
  { configuration }: CausalModel,
): ModelConfiguration {
  const inherited = {
    hidden_size: configuration.hiddenSize,
    intermediate_size: configuration.intermediateSize,
    num_attention_heads: configuration.headCount,
    num_key_value_heads: configuration.keyValueHeadCount,
    vocab_size: configuration.vocabularySize,
    max_position_embeddings: configuration.contextLength,
    rms_norm_eps: configuration.normEpsilon,
    // The newer form of the same setting; beside it an inherited rope_theta would win.
    ...(config.rope_parameters == null ? { rope_theta: configuration.rotaryBase } : {}),
    // Only together with the heads it belongs to: with heads of its own the layer divides its own width.
    ...(config.num_attention_heads == null ? { head_dim: configuration.headSize } : {}),
  };
  const own = Object.fromEntries(Object.entries(config).filter(([, value]) => value !== null));
  // Trainers write names of their own ("LlamaForCausalLMEagle3"); the layer is Llama's all the same.
  const merged = { ...inherited, num_hidden_layers: 1, ...own, architectures: ['LlamaForCausalLM'] };
  const parsed = parseConfiguration(merged, `config.json of ${folder}`);
  return { ...parsed, layerCount: 1 };
}
