/**
 * The configuration of an EAGLE head: one Llama layer. Missing settings have the authors' defaults (rotary base
 * 10000, as many key-value heads as heads), never the target's: a head was trained with what its trainer ran, and
 * another base costs accepted tokens without an error.
 * `rms_norm_eps` has no default: trainers use 1e-5 and 1e-6, and all published heads state it.
 */
import * as z from '../../core/schema.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { parseConfiguration, type ModelConfiguration } from '../../model/configuration.js';
import type { LayerSizes } from '../../model/decoder.js';

export type Config = Checkpoint['config'];

const nested = z.record(z.string(), z.unknown());

/** vLLM's speculators format nests the layer's settings. */
export function isSpeculatorsFormat(config: Config): boolean {
  return nested.safeParse(config.transformer_layer_config).success;
}

/** Some trainers write settings of the head into these. */
const sections = ['transformer_layer_config', 'eagle_config', 'dflash_config'] as const;

/** Inner settings take precedence; nulls are dropped. */
export function flattenConfig(config: Config): Config {
  const all = [config, ...sections.map((section) => nested.safeParse(config[section]).data ?? {})];
  return Object.fromEntries(
    all.flatMap((settings) => Object.entries(settings).filter(([, value]) => value !== null)),
  );
}

export function sizeIn(config: Readonly<Record<string, unknown>>, key: string): number | undefined {
  const value = config[key];
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

/** From the tensors; head counts from the target if config.json has none. */
export type KnownSizes = Pick<
  ModelConfiguration,
  'hiddenSize' | 'intermediateSize' | 'headCount' | 'keyValueHeadCount' | 'headSize' | 'vocabularySize'
>;

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
    layer_types: undefined, // of all its layers: the caller reads them
    // Trainers write other names ("LlamaForCausalLMEagle3") for a Llama layer.
    architectures: ['LlamaForCausalLM'],
  };
  return parseConfiguration(merged, `config.json of ${folder}`);
}

/** Counts heads and blocks by existing tensors, consecutive from 0. */
export function countHeads(
  tensors: Checkpoint['tensors'],
  placeOf: (name: string) => { readonly head: string; readonly block: string | undefined } | undefined,
) {
  const [heads, blocks] = [new Set<string>(), new Set<string>()];
  for (const name of tensors.keys()) {
    const place = placeOf(name);
    if (place === undefined) continue;
    heads.add(place.head);
    if (place.block !== undefined) blocks.add(place.block);
  }
  const [headCount, blockCount] = [countFromZero(heads), countFromZero(blocks)];
  // Bounds the product of heads and blocks.
  const isEven = headCount * blockCount <= tensors.size;
  return { heads: headCount, blocks: isEven ? blockCount : 1, isSeen: heads.size > 0 };
}

/** An axis of the first of these weights that is there. */
export const sizeOfFirst = (
  { tensors }: Pick<Checkpoint, 'tensors'>,
  heads: number,
  nameOf: (head: number) => string,
  axis: number,
): number | undefined =>
  Array.from({ length: heads }, (_, head) => tensors.get(`${nameOf(head)}.weight`)).find(Boolean)?.shape[
    axis
  ];

function countFromZero(numbers: ReadonlySet<string>): number {
  let count = 0;
  while (numbers.has(String(count))) count += 1;
  return count;
}

/** Without norms of queries and keys, the head size is unknown; any that fits gives the same shapes. */
export function measureLayer(
  { tensors }: Pick<Checkpoint, 'tensors'>,
  layer: string,
  hiddenSize: number,
): LayerSizes {
  const size = (part: string, axis: number): number | undefined =>
    tensors.get(`${layer}.${part}`)?.shape[axis];
  const queryWidth = size('self_attn.q_proj.weight', 0) ?? size('self_attn.o_proj.weight', 1) ?? 2;
  const keyWidth = size('self_attn.k_proj.weight', 0) ?? size('self_attn.v_proj.weight', 0) ?? queryWidth;
  const norm = size('self_attn.q_norm.weight', 0) ?? size('self_attn.k_norm.weight', 0);
  const headSize = Math.max(1, norm ?? commonDivisor(queryWidth, keyWidth));
  const has = (part: string): boolean => tensors.has(`${layer}.self_attn.${part}`);
  return {
    hiddenSize,
    intermediateSize:
      size('mlp.gate_proj.weight', 0) ??
      size('mlp.up_proj.weight', 0) ??
      size('mlp.down_proj.weight', 1) ??
      1,
    headCount: Math.max(1, Math.floor(queryWidth / headSize)),
    keyValueHeadCount: Math.max(1, Math.floor(keyWidth / headSize)),
    headSize,
    normEpsilon: 1e-6, // no shape depends on it
    queryKeyValueBias: has('q_proj.bias'),
    outputBias: has('o_proj.bias'),
    queryKeyNorm: has('q_norm.weight'),
  };
}

function commonDivisor(left: number, right: number): number {
  return right === 0 ? left : commonDivisor(right, left % right);
}
