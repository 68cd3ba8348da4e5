/**
 * The configuration of an EAGLE head: one Llama layer. Missing settings have the authors' defaults (rotary base
 * 10000, as many key-value heads as heads), never the target's: a head was trained with what its trainer ran, and
 * another base costs accepted tokens without an error.
 * `rms_norm_eps` has no default: trainers use 1e-5 and 1e-6, and all published heads state it.
 */
import { z } from 'zod';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { showValue } from '../../core/json-text.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import { parseConfiguration } from '../../model/configuration.js';
import type { Refuse } from '../draft-system.js';
import { misfit } from './checks.js';

/**
 * Refuses position settings that engines ignore or interpret differently:
 * - dynamic `rope_scaling`: transformers stretches the base only for long sequences, vLLM and SGLang always, and
 * Hunyuan's heads mean a constant `alpha`
 * - longrope: factors for long sequences are not supported
 * - a window: `layer_types` names the layers that have one, else `sliding_window`; configs derived from Qwen switch
 * it off by `use_sliding_window`
 */
export function refuseUnusualPositions(
  { config, folder }: Pick<Checkpoint, 'config' | 'folder'>,
  { rotaryScaling }: Pick<ModelConfiguration, 'rotaryScaling'>,
  target: Pick<ModelConfiguration, 'contextLength'> | undefined,
  refuse: Refuse,
): void {
  if (rotaryScaling.kind === 'dynamic') {
    const hint =
      'Engines compute it in different ways. Use a head without it; if yours was trained with plain angles, remove rope_scaling from its config.json.';
    refuse(misfit(folder, 'asks for the rotary scaling "dynamic", which is not supported in a head', hint));
  }
  if (rotaryScaling.kind === 'longrope' && target !== undefined) {
    const { originalContext } = rotaryScaling;
    if (target.contextLength > originalContext) {
      const fault = `asks for the rotary scaling "longrope" beyond ${originalContext} positions; the target reads ${target.contextLength}`;
      refuse(misfit(folder, fault, 'Its factors for longer sequences are not supported: use another head.'));
    }
  }
  const {
    layer_types: kinds,
    sliding_window: window,
    use_sliding_window: usesWindow,
  } = flattenConfig(config);
  const unsupported = 'A head that sees only the last positions is not supported.';
  if (Array.isArray(kinds)) {
    if (kinds.includes('sliding_attention'))
      refuse(misfit(folder, 'asks for sliding attention in layer_types', unsupported));
  } else if (window !== undefined && usesWindow !== false) {
    const fault = `asks for sliding attention by "sliding_window": ${showValue(window)}`;
    const off = 'If it was trained without a window, set "use_sliding_window": false in its config.json.';
    refuse(misfit(folder, fault, `${unsupported} ${off}`));
  }
}

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
