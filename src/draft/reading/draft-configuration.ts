/**
 * The configuration of an EAGLE head: one Llama layer. Missing settings have the authors' defaults (rotary base
 * 10000, as many key-value heads as heads), never the target's: a head was trained with what its trainer ran, and
 * another base costs accepted tokens without an error.
 * `rms_norm_eps` has no default: trainers use 1e-5 and 1e-6, and all published heads state it.
 */
import { z } from 'zod';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { parseConfiguration, type ModelConfiguration } from '../../model/configuration.js';

export type Config = Checkpoint['config'];

const nested = z.record(z.string(), z.unknown());

/** vLLM's speculators format nests the layer's settings. */
export function isSpeculatorsFormat(config: Config): boolean {
  return nested.safeParse(config.transformer_layer_config).success;
}

/** Inner settings take precedence; nulls are dropped. */
export function flattenConfig(config: Config): Config {
  const layer = nested.safeParse(config.transformer_layer_config);
  const all = layer.success ? { ...config, ...layer.data } : config;
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
}

/** Some trainers write it into `eagle_config`. */
export function readEagleSetting(config: Config, key: string): unknown {
  const inner = nested.safeParse(config.eagle_config);
  return (inner.success ? inner.data[key] : undefined) ?? config[key];
}

/** From the tensors; head counts from the target if config.json has none. */
export interface KnownSizes {
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly headCount: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
  readonly vocabularySize: number;
}

export function readDraftConfiguration(
  { config, folder }: Pick<Checkpoint, 'config' | 'folder'>,
  known: KnownSizes,
): ModelConfiguration {
  const own = flattenConfig(config);
  // Only together: a layer with its own heads divides its own width.
  const heads =
    own.num_attention_heads === undefined
      ? {
          num_attention_heads: known.headCount,
          num_key_value_heads: known.keyValueHeadCount,
          head_dim: known.headSize,
        }
      : {};
  const defaults = {
    hidden_size: known.hiddenSize,
    intermediate_size: known.intermediateSize,
    vocab_size: known.vocabularySize,
    // The table grows, so this bounds nothing.
    max_position_embeddings: 2048,
    ...heads,
  };
  const merged = {
    ...defaults,
    ...own,
    num_hidden_layers: 1,
    // Trainers write other names ("LlamaForCausalLMEagle3") for a Llama layer.
    architectures: ['LlamaForCausalLM'],
  };
  return parseConfiguration(merged, `config.json of ${folder}`);
}
