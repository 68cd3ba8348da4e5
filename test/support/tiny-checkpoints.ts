/**
 * Tiny random checkpoints in every layout that is read. Their target nearly follows a fixed permutation of its tokens:
 * the embedding leads its residual stream, the output projection undoes the permutation, and layers of noise disturb
 * both. Every drafter approximates that in its own way, so that drafts are accepted often and refused often.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WritableTensor, WritableTensors } from './checkpoint/encode-values.js';
import { writeSafetensors } from './checkpoint/write-safetensors.js';
import { writeTorchFile } from './checkpoint/write-torch-file.js';
import type { Random } from '../../src/core/random.js';
import { createRandom } from '../../src/core/random.js';
import './shared-sessions.js';

export interface TinySizes {
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly headCount: number;
  readonly keyValueHeadCount: number;
  readonly layerCount: number;
  readonly vocabularySize: number;
  readonly contextLength: number;
  /** Scale of the output projections: how sharp the distributions are. */
  readonly outputScale: number;
}

export const tiny: TinySizes = {
  hiddenSize: 16,
  intermediateSize: 24,
  headCount: 4,
  keyValueHeadCount: 2,
  layerCount: 4,
  vocabularySize: 24,
  contextLength: 64,
  outputScale: 0.4,
};

/** Half the layers, for tests of whole commands; EAGLE-3 reads the states of three. */
export const shallow: TinySizes = { ...tiny, layerCount: 2 };

/** A vocabulary small enough to count what is drawn, and a target fast enough to draw often. */
export const tiniest: TinySizes = { ...tiny, layerCount: 3, vocabularySize: 8, outputScale: 0.15 };

export function gaussian(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
}

export function noise(random: Random, shape: readonly number[], deviation: number): WritableTensor {
  const length = shape.reduce((product, size) => product * size, 1);
  return { dtype: 'F32', shape, values: Float32Array.from({ length }, () => deviation * gaussian(random)) };
}

/** A matrix given entry by entry, with noise on it. */
export function matrix(
  random: Random,
  shape: readonly [number, number],
  entry: (row: number, column: number) => number,
  deviation = 0,
): WritableTensor {
  const values = noise(random, shape, deviation).values as Float32Array;
  const exact = values.map((value, index) => value + entry(Math.floor(index / shape[1]), index % shape[1]));
  return { dtype: 'F32', shape, values: exact };
}

export function normWeight(random: Random, size: number): WritableTensor {
  const { values } = noise(random, [size], 0.1);
  return { dtype: 'F32', shape: [size], values: Array.from(values, (value) => 1 + value) };
}

/** The tokens' embeddings, and which token follows which. */
export interface World {
  readonly embedding: WritableTensor; // [vocabulary, hidden]
  /** An output projection that, fed a token's embedding, prefers the token `steps` behind it. [tokens, hidden] */
  outputFor(steps: number, random: Random, tokens?: readonly number[]): WritableTensor;
}

export function createWorld({ vocabularySize, hiddenSize, outputScale }: TinySizes, name = 'world'): World {
  const random = createRandom(1, name, String(vocabularySize));
  const embedding = noise(random, [vocabularySize, hiddenSize], 1);
  const order = Array.from({ length: vocabularySize }, (_, token) => token);
  createRandom(1, 'order', String(vocabularySize)).shuffle(order);
  const placeOf = new Map(order.map((token, place) => [token, place]));
  const before = (token: number, steps: number): number =>
    order[(placeOf.get(token)! - steps + 8 * vocabularySize) % vocabularySize]!;
  return {
    embedding,
    outputFor(steps, noiseSource, tokens = Array.from(order.keys())) {
      const entry = (row: number, column: number): number =>
        outputScale * embedding.values[before(tokens[row]!, steps) * hiddenSize + column]!;
      return matrix(noiseSource, [tokens.length, hiddenSize], entry, 0.05);
    },
  };
}

export interface LayerVariant {
  readonly inputNorm?: boolean;
  readonly attentionInputSize?: number;
  readonly deviation?: number;
}

export function layerTensors(
  prefix: string,
  sizes: TinySizes,
  random: Random,
  { inputNorm = true, attentionInputSize = sizes.hiddenSize, deviation = 0.15 }: LayerVariant = {},
): WritableTensors {
  const { hiddenSize, intermediateSize, headCount, keyValueHeadCount } = sizes;
  const keyValueWidth = (hiddenSize / headCount) * keyValueHeadCount;
  const shapes = {
    'self_attn.q_proj': [hiddenSize, attentionInputSize],
    'self_attn.k_proj': [keyValueWidth, attentionInputSize],
    'self_attn.v_proj': [keyValueWidth, attentionInputSize],
    'self_attn.o_proj': [hiddenSize, hiddenSize],
    'mlp.gate_proj': [intermediateSize, hiddenSize],
    'mlp.up_proj': [intermediateSize, hiddenSize],
    'mlp.down_proj': [hiddenSize, intermediateSize],
  };
  const projections = Object.entries(shapes).map(([name, shape]) => [
    `${prefix}.${name}.weight`,
    // Queries and keys are larger, so that attention is far from even and a wrong mask shows.
    noise(random, shape, /[qk]_proj/.test(name) ? 2.5 * deviation : deviation),
  ]);
  const norms = [...(inputNorm ? ['input_layernorm'] : []), 'post_attention_layernorm'];
  return {
    ...(Object.fromEntries(projections) as WritableTensors),
    ...Object.fromEntries(norms.map((name) => [`${prefix}.${name}.weight`, normWeight(random, hiddenSize)])),
  };
}

export function llamaConfig(sizes: TinySizes): Record<string, unknown> {
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: sizes.hiddenSize,
    intermediate_size: sizes.intermediateSize,
    num_hidden_layers: sizes.layerCount,
    num_attention_heads: sizes.headCount,
    num_key_value_heads: sizes.keyValueHeadCount,
    vocab_size: sizes.vocabularySize,
    max_position_embeddings: sizes.contextLength,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    tie_word_embeddings: false,
  };
}

/** `seed` chooses the noise; the same world with another seed is a draft model that often agrees. */
export function decoderTensors(sizes: TinySizes, seed = 1): WritableTensors {
  const random = createRandom(seed, 'decoder', JSON.stringify(sizes));
  const world = createWorld(sizes, seed === 1 ? 'world' : `world of ${seed}`);
  const layers = Array.from({ length: sizes.layerCount }, (_, layer) =>
    layerTensors(`model.layers.${layer}`, sizes, random),
  );
  return {
    'model.embed_tokens.weight': world.embedding,
    ...(Object.assign({}, ...layers) as WritableTensors),
    'model.norm.weight': normWeight(random, sizes.hiddenSize),
    'lm_head.weight': world.outputFor(1, random),
  };
}

/** Writes a checkpoint of one file; the file's name says in which format. */
export function writeCheckpoint(
  folder: string,
  file: string,
  tensors: WritableTensors,
  config: Readonly<Record<string, unknown>>,
): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  if (file.endsWith('.safetensors')) writeSafetensors(join(folder, file), tensors);
  else writeTorchFile(join(folder, file), tensors);
  return folder;
}

export function writeDecoder(folder: string, sizes: TinySizes = tiny, seed = 1): string {
  return writeCheckpoint(folder, 'model.safetensors', decoderTensors(sizes, seed), llamaConfig(sizes));
}

/** The same world with Qwen3-MoE's layers: 2 of 6 experts per token, and a second layer without experts. */
export function writeMixture(folder: string, sizes: TinySizes = tiny): string {
  const random = createRandom(1, 'experts');
  const tensors: Record<string, WritableTensor> = { ...decoderTensors(sizes) };
  const { hiddenSize, layerCount } = sizes;
  const [experts, inner] = [6, 8];
  for (let layer = 0; layer < layerCount; layer++) {
    const name = `model.layers.${layer}`;
    for (const norm of ['q_norm', 'k_norm'])
      tensors[`${name}.self_attn.${norm}.weight`] = normWeight(random, hiddenSize / sizes.headCount);
    if (layer === 1) continue;
    for (const part of ['gate_proj', 'up_proj', 'down_proj']) {
      delete tensors[`${name}.mlp.${part}.weight`];
      const shape = part === 'down_proj' ? [hiddenSize, inner] : [inner, hiddenSize];
      for (let expert = 0; expert < experts; expert++)
        tensors[`${name}.mlp.experts.${expert}.${part}.weight`] = noise(random, shape, 0.3);
    }
    tensors[`${name}.mlp.gate.weight`] = noise(random, [experts, hiddenSize], 0.5);
  }
  return writeCheckpoint(folder, 'model.safetensors', tensors, {
    ...llamaConfig(sizes),
    ...{ architectures: ['Qwen3MoeForCausalLM'], model_type: 'qwen3_moe', mlp_only_layers: [1] },
    ...{ num_experts: experts, num_experts_per_tok: 2, moe_intermediate_size: inner, norm_topk_prob: true },
  });
}

/** One letter for every token; `pieces` replaces some of them. */
export function writeLetterTokenizer(
  folder: string,
  { vocabularySize }: Pick<TinySizes, 'vocabularySize'>,
  pieces: Readonly<Record<number, string>> = {},
): void {
  mkdirSync(folder, { recursive: true });
  const letters = Array.from({ length: vocabularySize }, (_, token) => String.fromCharCode(97 + token));
  const file = plainTokenizer(letters.map((letter, token) => pieces[token] ?? letter));
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(file));
}

/** A tokenizer.json of these pieces, which merges nothing. */
export function plainTokenizer(pieces: readonly string[]): Record<string, unknown> {
  const vocab = Object.fromEntries(pieces.map((piece, token) => [piece, token]));
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: { type: 'Fuse' },
    model: { type: 'BPE', vocab, merges: [], unk_token: null, fuse_unk: false, byte_fallback: false },
  };
}
