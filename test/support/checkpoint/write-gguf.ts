/**
 * A checkpoint as a GGUF file, with the names and settings of llama.cpp's converter. llama.cpp rotates neighboring values of
 * a Llama head, transformers value i with value i + half, so the rows of queries and keys change their order.
 */
import { open } from 'node:fs/promises';
import { readFloat32 } from '../../../src/checkpoint/read-tensor.js';
import type { Checkpoint, StoredTensor } from '../../../src/checkpoint/stored-tensor.js';
import type { ModelConfiguration } from '../../../src/model/configuration.js';
import { parseConfiguration } from '../../../src/model/configuration.js';
import type { Llama3Scaling } from '../../../src/model/rotary/rotary.js';
import type { GgufMetadata, GgufValue } from './encode-gguf.js';
import { encodeGgufHeader, pad } from './encode-gguf.js';
import type { WritableType } from './gguf-values.js';
import { bytesFor, encodeAs } from './gguf-values.js';

export interface WriteGgufOptions {
  /** Of the matrices; vectors are float32. */
  readonly type?: WritableType;
  /** Replaces and adds settings, for example a tokenizer. Without one, token ids go in and come out. */
  readonly metadata?: GgufMetadata;
  /** False for a file with a converter's bug: queries and keys in the order of transformers. */
  readonly interleaves?: boolean;
}

interface PlannedTensor {
  readonly name: string;
  readonly type: WritableType;
  readonly shape: readonly number[];
  readonly read: () => Promise<Float32Array> | Float32Array;
}

export async function writeGguf(
  checkpoint: Checkpoint,
  path: string,
  { type = 'F32', metadata = {}, interleaves }: WriteGgufOptions = {},
): Promise<void> {
  const configuration = parseConfiguration(checkpoint.config, `config.json of ${checkpoint.folder}`);
  const tensors = planTensors(checkpoint, configuration, type, interleaves);
  const entries = tensors.map(({ name, type, shape }) => ({
    ...{ name, type, shape },
    sizeBytes: bytesFor(
      shape.reduce((product, size) => product * size, 1),
      type,
    ),
  }));
  const file = await open(path, 'w');
  try {
    await file.writeFile(encodeGgufHeader({ ...describe(configuration), ...metadata }, entries));
    for (const { type, read } of tensors) await file.writeFile(pad(encodeAs(await read(), type)));
  } finally {
    await file.close();
  }
}

export const uint32 = (value: number): GgufValue => ({ type: 'uint32', value });
export const float32 = (value: number): GgufValue => ({ type: 'float32', value });
export const text = (value: string): GgufValue => ({ type: 'string', value });

/** Mistral models are `llama` for llama.cpp. */
function architectureOf({ family }: ModelConfiguration): string {
  return family === 'mistral' ? 'llama' : family;
}

function describe(configuration: ModelConfiguration): GgufMetadata {
  const family = architectureOf(configuration);
  const { bosId, eosIds } = configuration;
  return {
    'general.architecture': text(family),
    [`${family}.vocab_size`]: uint32(configuration.vocabularySize),
    [`${family}.context_length`]: uint32(configuration.contextLength),
    [`${family}.embedding_length`]: uint32(configuration.hiddenSize),
    [`${family}.block_count`]: uint32(configuration.layerCount),
    [`${family}.feed_forward_length`]: uint32(configuration.intermediateSize),
    [`${family}.attention.head_count`]: uint32(configuration.headCount),
    [`${family}.attention.head_count_kv`]: uint32(configuration.keyValueHeadCount),
    [`${family}.attention.key_length`]: uint32(configuration.headSize),
    [`${family}.attention.value_length`]: uint32(configuration.headSize),
    [`${family}.attention.layer_norm_rms_epsilon`]: float32(configuration.normEpsilon),
    [`${family}.rope.dimension_count`]: uint32(configuration.headSize),
    [`${family}.rope.freq_base`]: float32(configuration.rotaryBase),
    ...describeScaling(configuration),
    'tokenizer.ggml.model': text('none'),
    ...(bosId === undefined ? {} : { 'tokenizer.ggml.bos_token_id': uint32(bosId) }),
    ...(eosIds[0] === undefined ? {} : { 'tokenizer.ggml.eos_token_id': uint32(eosIds[0]) }),
  };
}

function describeScaling(configuration: ModelConfiguration): GgufMetadata {
  const { rotaryScaling: scaling } = configuration;
  const key = `${architectureOf(configuration)}.rope.scaling`;
  switch (scaling.kind) {
    case 'none':
    case 'llama3': // a tensor instead
      return {};
    case 'linear':
      return { [`${key}.type`]: text('linear'), [`${key}.factor`]: float32(scaling.factor) };
    case 'yarn':
      return {
        [`${key}.type`]: text('yarn'),
        [`${key}.factor`]: float32(scaling.factor),
        [`${key}.original_context_length`]: uint32(scaling.originalContext),
      };
    default:
      throw new Error(`The rotary scaling ${scaling.kind} is not written.`);
  }
}

/** What Llama 3's scaling divides each frequency by. */
function rotaryFactors({ headSize, rotaryBase }: ModelConfiguration, scaling: Llama3Scaling): Float32Array {
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalContext } = scaling;
  return Float32Array.from({ length: headSize / 2 }, (_, pair) => {
    const wavelength = 2 * Math.PI * rotaryBase ** ((2 * pair) / headSize);
    if (wavelength < originalContext / high) return 1;
    if (wavelength > originalContext / low) return factor;
    const smooth = (originalContext / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

const layerNames: readonly (readonly [gguf: string, stored: string])[] = [
  ['attn_norm', 'input_layernorm'],
  ['attn_q', 'self_attn.q_proj'],
  ['attn_k', 'self_attn.k_proj'],
  ['attn_v', 'self_attn.v_proj'],
  ['attn_output', 'self_attn.o_proj'],
  ['attn_q_norm', 'self_attn.q_norm'],
  ['attn_k_norm', 'self_attn.k_norm'],
  ['ffn_norm', 'post_attention_layernorm'],
  ['ffn_gate', 'mlp.gate_proj'],
  ['ffn_up', 'mlp.up_proj'],
  ['ffn_down', 'mlp.down_proj'],
];

function planTensors(
  { tensors }: Checkpoint,
  configuration: ModelConfiguration,
  type: WritableType,
  interleaves = architectureOf(configuration) === 'llama',
): readonly PlannedTensor[] {
  const { layerCount, headCount, keyValueHeadCount, tiedEmbeddings, rotaryScaling } = configuration;
  const plan = (name: string, stored: string, heads?: number): readonly PlannedTensor[] => {
    const source = tensors.get(stored);
    if (source === undefined) return []; // biases and norms that the family does not have
    const read = async (): Promise<Float32Array> => {
      const values = await readFloat32(source);
      return heads === undefined ? values : interleaveHeads(values, source.shape, heads);
    };
    return [{ name, shape: source.shape, type: typeFor(source, type), read }];
  };
  const headsOf = new Map([
    ['attn_q', headCount],
    ['attn_k', keyValueHeadCount],
  ]);
  const layers = Array.from({ length: layerCount }, (_, layer) =>
    layerNames.flatMap(([gguf, stored]) =>
      ['weight', 'bias'].flatMap((kind) =>
        plan(
          `blk.${layer}.${gguf}.${kind}`,
          `model.layers.${layer}.${stored}.${kind}`,
          interleaves ? headsOf.get(gguf) : undefined,
        ),
      ),
    ),
  );
  const factors = rotaryScaling.kind === 'llama3' ? rotaryFactors(configuration, rotaryScaling) : undefined;
  return [
    ...(factors === undefined
      ? []
      : [{ name: 'rope_freqs.weight', shape: [factors.length], type: 'F32', read: () => factors } as const]),
    ...plan('token_embd.weight', 'model.embed_tokens.weight'),
    ...layers.flat(),
    ...plan('output_norm.weight', 'model.norm.weight'),
    ...(tiedEmbeddings ? [] : plan('output.weight', 'lm_head.weight')),
  ];
}

/** Vectors, and rows that are not whole blocks, stay float32. */
function typeFor({ shape }: StoredTensor, type: WritableType): WritableType {
  const isQuantized = type === 'Q8_0' || type === 'Q4_0';
  return shape.length < 2 || (isQuantized && shape.at(-1)! % 32 !== 0) ? 'F32' : type;
}

/** Row i of a head's first half becomes row 2i, row i of its second half row 2i + 1. */
function interleaveHeads(
  values: Float32Array, // [heads * size, columns], or [heads * size]
  [rows = 0]: readonly number[],
  heads: number,
): Float32Array {
  const columns = values.length / rows;
  const size = rows / heads;
  const interleaved = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    const inHead = row % size;
    const place = row - inHead + (inHead < size / 2 ? 2 * inHead : 2 * inHead - size + 1);
    interleaved.set(values.subarray(row * columns, (row + 1) * columns), place * columns);
  }
  return interleaved;
}
