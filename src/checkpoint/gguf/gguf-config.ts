/**
 * The metadata of a GGUF file as the config.json of the same model. A setting that could change the model and is not known
 * here is refused by name.
 */
import { maxVocabularySize } from '../../core/limits.js';
import { quote, refuse } from '../stored-tensor.js';
import type { GgufHeader } from './gguf-header.js';
import { findFlag, findNumber, findText, findTexts, requireNumber } from './gguf-metadata.js';

export interface GgufFamily {
  readonly name: string;
  readonly architecture: string;
  /** Whether llama.cpp rotates neighboring rows of a head, so that its converter reorders queries and keys. */
  readonly interleavesHeads: boolean;
}

/** Mistral models are `llama` there. */
const families: readonly GgufFamily[] = [
  { name: 'llama', architecture: 'LlamaForCausalLM', interleavesHeads: true },
  { name: 'qwen2', architecture: 'Qwen2ForCausalLM', interleavesHeads: false },
  { name: 'qwen3', architecture: 'Qwen3ForCausalLM', interleavesHeads: false },
];

export function requireFamily(header: GgufHeader): GgufFamily {
  const name = findText(header, 'general.architecture');
  const family = families.find((each) => each.name === name);
  if (family !== undefined) return family;
  throw refuse(
    name === undefined
      ? `${header.path} has no general.architecture in its metadata`
      : `${header.path} has the architecture ${quote(name)}, which is not supported`,
    `Supported GGUF architectures: ${families.map((each) => each.name).join(', ')}. Qwen3-MoE is read from safetensors.`,
  );
}

/** Read below, or without effect on what is computed. */
const knownSettings = new Set([
  ...['context_length', 'embedding_length', 'block_count', 'feed_forward_length', 'vocab_size'],
  ...['attention.head_count', 'attention.head_count_kv', 'attention.key_length', 'attention.value_length'],
  ...['attention.layer_norm_rms_epsilon', 'attention.causal', 'expert_count', 'expert_used_count'],
  ...['rope.freq_base', 'rope.dimension_count', 'rope.scaling.type', 'rope.scaling.factor'],
  ...['rope.scaling.original_context_length', 'rope.scaling.finetuned', 'rope.scaling.attn_factor'],
  ...['attention.sliding_window', 'tensor_data_layout'],
]);

export interface TensorFacts {
  readonly vocabularySize: number;
  readonly isTied: boolean;
  readonly hasAttentionBias: boolean;
  /** Divisors of the rotary frequencies, if the file has them. */
  readonly rotaryFactors: readonly number[] | undefined;
}

export function describeConfig(
  header: GgufHeader,
  { name, architecture }: GgufFamily,
  facts: TensorFacts,
): Record<string, unknown> {
  for (const key of header.metadata.keys()) {
    if (key.startsWith(`${name}.`) && !knownSettings.has(key.slice(name.length + 1)))
      throw unsupported(header, quote(key));
  }
  const number = (key: string): number | undefined => findNumber(header, `${name}.${key}`);
  const required = (key: string): number => requireNumber(header, `${name}.${key}`);
  const headCount = required('attention.head_count');
  const hiddenSize = required('embedding_length');
  const headSize = number('attention.key_length') ?? hiddenSize / headCount;
  const contextLength = required('context_length');
  const requireValue = (key: string, expected: number): void => {
    const value = number(key);
    if (value !== undefined && value !== expected)
      throw unsupported(header, `${name}.${key} = ${value} (expected ${expected})`);
  };
  requireValue('attention.value_length', headSize);
  requireValue('rope.dimension_count', headSize);
  requireValue('rope.scaling.attn_factor', 1);
  requireValue('expert_count', 0);
  requireValue('attention.sliding_window', 0);
  if (findFlag(header, `${name}.attention.causal`) === false)
    throw unsupported(header, `${name}.attention.causal = false`);
  const scaling = describeScaling(header, name, contextLength, headSize, facts.rotaryFactors);
  return {
    architectures: [architecture],
    model_type: name,
    hidden_act: 'silu',
    hidden_size: hiddenSize,
    intermediate_size: required('feed_forward_length'),
    num_hidden_layers: required('block_count'),
    num_attention_heads: headCount,
    num_key_value_heads: number('attention.head_count_kv') ?? headCount,
    head_dim: headSize,
    vocab_size: number('vocab_size') ?? facts.vocabularySize,
    max_position_embeddings: contextLength,
    rms_norm_eps: required('attention.layer_norm_rms_epsilon'),
    rope_theta: number('rope.freq_base') ?? 10_000,
    ...(scaling === undefined ? {} : { rope_scaling: scaling }),
    attention_bias: facts.hasAttentionBias,
    tie_word_embeddings: facts.isTied,
    bos_token_id: findNumber(header, 'tokenizer.ggml.bos_token_id') ?? null,
    eos_token_id: listEndTokens(header),
  };
}

function unsupported({ path }: GgufHeader, setting: string): Error {
  return refuse(
    `${path} has the setting ${setting}, which is not supported`,
    'Use a dense model of the Llama, Mistral, Qwen2 or Qwen3 family; of models with experts, Qwen3-MoE is read from safetensors.',
  );
}

function describeScaling(
  header: GgufHeader,
  name: string,
  contextLength: number,
  headSize: number,
  factors: readonly number[] | undefined,
): Record<string, unknown> | undefined {
  const kind = findText(header, `${name}.rope.scaling.type`) ?? 'none';
  const factor = findNumber(header, `${name}.rope.scaling.factor`);
  const original = findNumber(header, `${name}.rope.scaling.original_context_length`);
  if (factors !== undefined) {
    if (kind !== 'none')
      throw unsupported(header, `${name}.rope.scaling.type = ${quote(kind)} with rope_freqs`);
    const base = findNumber(header, `${name}.rope.freq_base`) ?? 10_000;
    return describeFactors(factors, contextLength, headSize, base);
  }
  switch (kind) {
    case 'none':
      return undefined;
    case 'linear':
      return { rope_type: 'linear', factor: factor ?? null };
    case 'yarn':
      return {
        rope_type: 'yarn',
        factor: factor ?? null,
        original_max_position_embeddings: original ?? null,
      };
    default:
      throw unsupported(header, `${name}.rope.scaling.type = ${quote(kind)}`);
  }
}

/** What all published models with this scaling have. */
const llama3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };

/**
 * llama.cpp stores the result of Llama 3's scaling: a divisor for each frequency. If the published parameters give the same
 * divisors, they are written; otherwise the divisors themselves, in the form of longrope, which has a list of them.
 */
function describeFactors(
  factors: readonly number[],
  contextLength: number,
  headSize: number,
  base: number,
): Record<string, unknown> {
  const factor = factors.reduce((largest, value) => Math.max(largest, value), 0);
  const { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: original } = llama3;
  const isLlama3 = factors.every((value, pair) => {
    const turns = (original * base ** ((-2 * pair) / headSize)) / (2 * Math.PI);
    const smooth = Math.min(1, Math.max(0, (turns - low) / (high - low)));
    return Math.abs(value * ((1 - smooth) / factor + smooth) - 1) < 1e-4;
  });
  if (isLlama3) return { rope_type: 'llama3', factor, ...llama3 };
  return {
    rope_type: 'longrope',
    factor: 1,
    attention_factor: 1,
    short_factor: factors,
    long_factor: factors,
    original_max_position_embeddings: contextLength,
  };
}

/** Ends of a turn or a text that files do not always name; llama.cpp also finds them by their text. */
const endTexts = new Set(['<|eot_id|>', '<|eom_id|>', '<|im_end|>', '<|endoftext|>', '<|end_of_text|>']);

function listEndTokens(header: GgufHeader): readonly number[] {
  const named = ['eos', 'eot', 'eom'].flatMap(
    (end) => findNumber(header, `tokenizer.ggml.${end}_token_id`) ?? [],
  );
  const tokens = findTexts(header, 'tokenizer.ggml.tokens', maxVocabularySize) ?? [];
  const spelled = tokens.flatMap((token, id) => (endTexts.has(token) ? [id] : []));
  return [...new Set([...named, ...spelled])];
}
