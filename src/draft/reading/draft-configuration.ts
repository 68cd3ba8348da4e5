/**
 * The configuration of an EAGLE head: one layer of Llama's. What config.json leaves out is what the authors' code takes
 * then (Llama's defaults: a rotary base of 10000, as many key-value heads as heads), never the target's, however likely
 * that looks: a head was trained with what its trainer ran, and another base costs accepted tokens without an error.
 * `rms_norm_eps` has no default, for heads as for targets: trainers run with 1e-5 and with 1e-6, and every published
 * head says which (67 config files of EAGLE, SpecForge, TorchSpec and AngelSlim have it, none lacks it).
 */
import { z } from 'zod';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import { parseConfiguration } from '../../model/configuration.js';

export type Config = Checkpoint['config'];

const nested = z.record(z.string(), z.unknown());

/** The speculators format (vLLM) keeps the layer's settings one level down. */
export function isSpeculatorsFormat(config: Config): boolean {
  return nested.safeParse(config.transformer_layer_config).success;
}

/** One level, without what is null; the settings of the layer win over those around them. */
export function flattenConfig(config: Config): Config {
  const layer = nested.safeParse(config.transformer_layer_config);
  const all = layer.success ? { ...config, ...layer.data } : config;
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
}

/** A setting of EAGLE heads, which some trainers write into `eagle_config`. */
export function readEagleSetting(config: Config, key: string): unknown {
  const inner = nested.safeParse(config.eagle_config);
  return (inner.success ? inner.data[key] : undefined) ?? config[key];
}

/** Sizes that the tensors tell; heads are the target's where config.json has none. */
export interface KnownSizes {
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly headCount?: number | undefined;
  readonly keyValueHeadCount?: number | undefined;
  readonly headSize?: number | undefined;
  readonly vocabularySize: number;
}

export function readDraftConfiguration(
  { config, folder }: Pick<Checkpoint, 'config' | 'folder'>,
  known: KnownSizes,
): ModelConfiguration {
  const own = flattenConfig(config);
  // Only together with the heads they belong to: with heads of its own the layer divides its own width.
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
    // The length of a rotary table that grows: it bounds nothing.
    max_position_embeddings: 2048,
    ...heads,
  };
  const merged = {
    ...defaults,
    ...own,
    num_hidden_layers: 1,
    // Trainers write names of their own ("LlamaForCausalLMEagle3"); the layer is Llama's all the same.
    architectures: ['LlamaForCausalLM'],
  };
  return parseConfiguration(merged, `config.json of ${folder}`);
}
