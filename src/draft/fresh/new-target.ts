import { openCheckpoint } from '../../checkpoint/open-checkpoint.js';
import type { Checkpoint, StoredTensor } from '../../checkpoint/stored-tensor.js';
import { resolveRecipes } from '../../checkpoint/weight-recipe.js';
import { parseConfiguration, type ModelConfiguration } from '../../model/configuration.js';
import { readRows } from './fresh-tensors.js';
import { embeddingName, outputName, decoderRecipes, requireLayers } from '../../model/weights.js';

export interface NewTarget {
  readonly name: string;
  readonly folder: string;
  readonly config: Checkpoint['config'];
  readonly configuration: ModelConfiguration;
  readonly tensors: Checkpoint['tensors'];
  readonly embedding: StoredTensor; // [vocabulary, hidden]
  /** The embedding if tied. */
  readonly output: StoredTensor; // [vocabulary, hidden]
  readonly deviation: number;
  /** Of the drafter's random weights. */
  readonly seed: number | string;
  /** For drafters that read a mask in the place of tokens. */
  readonly maskToken: number;
}

const defaultDeviation = 0.02;

export async function openNewTarget(folder: string, seed: number | string): Promise<NewTarget> {
  const checkpoint = await openCheckpoint(folder);
  const { config, tensors } = checkpoint;
  const configuration = parseConfiguration(config, `config.json of ${checkpoint.folder}`);
  requireLayers(checkpoint, configuration);
  resolveRecipes(checkpoint, decoderRecipes(configuration, ''));
  const { initializer_range: range } = config;
  const embedding = tensors.get(embeddingName)!;
  return {
    name: folder,
    folder: checkpoint.folder,
    config,
    configuration,
    tensors,
    embedding,
    output: tensors.get(configuration.tiedEmbeddings ? embeddingName : outputName)!,
    deviation: typeof range === 'number' && range > 0 && range < 1 ? range : defaultDeviation,
    seed,
    maskToken: await chooseMaskToken(embedding),
  };
}

/** Vocabularies are padded to a multiple of at most this. */
const maxPadding = 512;

/**
 * The last token that has an embedding: the last ids of published vocabularies are reserved or rare. A row of zeros, as
 * padding often has, would stay zero in training where a drafter borrows the target's table.
 */
async function chooseMaskToken(embedding: StoredTensor): Promise<number> {
  const [size = 1, width = 1] = embedding.shape;
  const rows = Int32Array.from({ length: Math.min(size, maxPadding) }, (_, place) => size - 1 - place);
  const values = await readRows({ from: embedding, rows });
  const isZero = (place: number): boolean =>
    values.subarray(place * width, (place + 1) * width).every((value) => value === 0);
  return rows.find((_, place) => !isZero(place)) ?? size - 1;
}

export interface LayerChoice {
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly headCount: number;
  readonly keyValueHeadCount: number;
  readonly layers: number;
}

/** A Llama config.json with the target's vocabulary, positions and angles. */
export function llamaConfig(
  { config, configuration, deviation }: NewTarget,
  { hiddenSize, intermediateSize, headCount, keyValueHeadCount, layers }: LayerChoice,
): Record<string, unknown> {
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: hiddenSize,
    intermediate_size: intermediateSize,
    num_hidden_layers: layers,
    num_attention_heads: headCount,
    num_key_value_heads: keyValueHeadCount,
    head_dim: configuration.headSize,
    vocab_size: configuration.vocabularySize,
    hidden_act: 'silu',
    rms_norm_eps: configuration.normEpsilon,
    initializer_range: deviation,
    attention_bias: false,
    tie_word_embeddings: false,
    torch_dtype: 'float32',
    use_cache: true,
    ...pick(config, ['max_position_embeddings', 'max_sequence_length', 'original_max_position_embeddings']),
    ...pick(config, ['bos_token_id', 'eos_token_id', 'pad_token_id']),
    ...rotaryOf(config, configuration.rotaryBase),
  };
}

/**
 * Without dynamic scaling: within the target's context the angles are the plain ones, and other engines would stretch
 * them.
 */
export function headConfig(target: NewTarget, choice: LayerChoice): Record<string, unknown> {
  const { rope_scaling: scaling, ...config } = llamaConfig(target, choice);
  const isKept = scaling !== undefined && target.configuration.rotaryScaling.kind !== 'dynamic';
  return isKept ? { ...config, rope_scaling: scaling } : config;
}

/** In the older spelling, which every reader of drafters knows. */
function rotaryOf(config: Checkpoint['config'], base: number): Record<string, unknown> {
  const { rope_parameters: newer, rope_scaling: older } = config;
  const settings: Record<string, unknown> = Object.fromEntries(
    [older, newer]
      .flatMap((each) => Object.entries((each ?? {}) as Record<string, unknown>))
      .filter(([key]) => key !== 'rope_theta'),
  );
  const kind = settings.rope_type ?? settings.type ?? 'default';
  return { rope_theta: base, ...(kind === 'default' ? {} : { rope_scaling: settings }) };
}

function pick(config: Checkpoint['config'], keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    keys.flatMap((key) => {
      const value = config[key];
      return value === undefined || value === null ? [] : [[key, value]];
    }),
  );
}
