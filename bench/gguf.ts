/**
 * A checkpoint of the Llama family as a GGUF file in float32, so that llama.cpp runs the very same weights. The layout is
 * that of ggml's gguf.h, names of tensors are those of llama.cpp's converter. llama.cpp turns neighbouring values of a
 * head together, transformers value i with value i + half, so the rows of queries and keys change their order. The file
 * has no vocabulary: token ids go in and come out.
 */
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { readFloat32 } from '../src/checkpoint/read-tensor.js';
import type { Checkpoint, StoredTensor } from '../src/checkpoint/stored-tensor.js';
import { MistletoeError } from '../src/core/errors.js';
import type { ModelConfiguration } from '../src/model/configuration.js';
import { parseConfiguration } from '../src/model/configuration.js';

const alignment = 32;
const float32Type = 0; // ggml_type

interface PlannedTensor {
  readonly name: string;
  readonly source: StoredTensor;
  /** Heads whose rows are interleaved; absent where rows stay. */
  readonly turnedHeads?: number;
}

export async function writeGguf(checkpoint: Checkpoint, path: string): Promise<void> {
  const configuration = parseConfiguration(checkpoint.config, `config.json of ${checkpoint.folder}`);
  requirePlainLlama(configuration, checkpoint.folder);
  const tensors = planTensors(checkpoint, configuration);
  const file = await open(path, 'w');
  try {
    await write(file, padded(encodeHeader(describe(configuration), tensors)));
    for (const { source, turnedHeads } of tensors) {
      const stored = await readFloat32(source);
      const values = turnedHeads === undefined ? stored : interleaveHeads(stored, source.shape, turnedHeads);
      await write(file, padded(Buffer.from(values.buffer, values.byteOffset, values.byteLength)));
    }
  } finally {
    await file.close();
  }
}

function requirePlainLlama(configuration: ModelConfiguration, folder: string): void {
  const { family, queryKeyValueBias, outputBias, rotaryScaling } = configuration;
  if (family === 'llama' && !queryKeyValueBias && !outputBias && rotaryScaling.kind === 'none') return;
  throw new MistletoeError(
    'checkpoint',
    `${folder} has biases, scaled rotary angles or another family than llama (${family}); a plain Llama was expected.`,
    { hint: "Convert it with llama.cpp's own convert_hf_to_gguf.py --outtype f32." },
  );
}

/** One value of the file's metadata with its gguf_type. */
type Value =
  | { readonly type: 'uint32' | 'float32'; readonly value: number }
  | { readonly type: 'string'; readonly value: string };

function describe(configuration: ModelConfiguration): ReadonlyMap<string, Value> {
  const uint32 = (value: number): Value => ({ type: 'uint32', value });
  const float32 = (value: number): Value => ({ type: 'float32', value });
  return new Map<string, Value>([
    ['general.architecture', { type: 'string', value: 'llama' }],
    ['llama.vocab_size', uint32(configuration.vocabularySize)],
    ['llama.context_length', uint32(configuration.contextLength)],
    ['llama.embedding_length', uint32(configuration.hiddenSize)],
    ['llama.block_count', uint32(configuration.layerCount)],
    ['llama.feed_forward_length', uint32(configuration.intermediateSize)],
    ['llama.attention.head_count', uint32(configuration.headCount)],
    ['llama.attention.head_count_kv', uint32(configuration.keyValueHeadCount)],
    ['llama.attention.key_length', uint32(configuration.headSize)],
    ['llama.attention.value_length', uint32(configuration.headSize)],
    ['llama.attention.layer_norm_rms_epsilon', float32(configuration.normEpsilon)],
    ['llama.rope.dimension_count', uint32(configuration.headSize)],
    ['llama.rope.freq_base', float32(configuration.rotaryBase)],
    ['tokenizer.ggml.model', { type: 'string', value: 'none' }],
  ]);
}

function planTensors(
  checkpoint: Checkpoint,
  { layerCount, headCount, keyValueHeadCount, tiedEmbeddings }: ModelConfiguration,
): readonly PlannedTensor[] {
  const plan = (name: string, source: string, turnedHeads?: number): PlannedTensor => {
    const tensor = checkpoint.tensors.get(source);
    if (tensor === undefined) {
      throw new MistletoeError('checkpoint', `${checkpoint.folder} has no tensor ${source}.`, {
        hint: 'Download the checkpoint again.',
      });
    }
    return { name, source: tensor, ...(turnedHeads === undefined ? {} : { turnedHeads }) };
  };
  const layers = Array.from({ length: layerCount }, (_, layer) => {
    const [to, from] = [`blk.${layer}`, `model.layers.${layer}`];
    return [
      plan(`${to}.attn_norm.weight`, `${from}.input_layernorm.weight`),
      plan(`${to}.attn_q.weight`, `${from}.self_attn.q_proj.weight`, headCount),
      plan(`${to}.attn_k.weight`, `${from}.self_attn.k_proj.weight`, keyValueHeadCount),
      plan(`${to}.attn_v.weight`, `${from}.self_attn.v_proj.weight`),
      plan(`${to}.attn_output.weight`, `${from}.self_attn.o_proj.weight`),
      plan(`${to}.ffn_norm.weight`, `${from}.post_attention_layernorm.weight`),
      plan(`${to}.ffn_gate.weight`, `${from}.mlp.gate_proj.weight`),
      plan(`${to}.ffn_up.weight`, `${from}.mlp.up_proj.weight`),
      plan(`${to}.ffn_down.weight`, `${from}.mlp.down_proj.weight`),
    ];
  });
  return [
    plan('token_embd.weight', 'model.embed_tokens.weight'),
    ...layers.flat(),
    plan('output_norm.weight', 'model.norm.weight'),
    ...(tiedEmbeddings ? [] : [plan('output.weight', 'lm_head.weight')]),
  ];
}

/** Row i of a head's first half comes to row 2i, row i of its second half to row 2i + 1. */
function interleaveHeads(
  values: Float32Array, // [heads * size, columns]
  [rows, columns]: readonly number[],
  heads: number,
): Float32Array {
  const size = rows! / heads;
  const turned = new Float32Array(values.length);
  for (let row = 0; row < rows!; row++) {
    const inHead = row % size;
    const place = row - inHead + (inHead < size / 2 ? 2 * inHead : 2 * inHead - size + 1);
    turned.set(values.subarray(row * columns!, (row + 1) * columns!), place * columns!);
  }
  return turned;
}

function encodeHeader(values: ReadonlyMap<string, Value>, tensors: readonly PlannedTensor[]): Buffer {
  const parts = [Buffer.from('GGUF'), uint32(3), uint64(tensors.length), uint64(values.size)];
  for (const [key, value] of values) parts.push(string(key), encodeValue(value));
  let offset = 0;
  for (const { name, source } of tensors) {
    // ggml counts axes from the innermost.
    const sizes = source.shape.toReversed();
    parts.push(string(name), uint32(sizes.length), ...sizes.map(uint64), uint32(float32Type), uint64(offset));
    const bytes = 4 * sizes.reduce((product, size) => product * size, 1);
    offset += Math.ceil(bytes / alignment) * alignment;
  }
  return Buffer.concat(parts);
}

function encodeValue({ type, value }: Value): Buffer {
  switch (type) {
    case 'uint32':
      return Buffer.concat([uint32(4), uint32(value)]);
    case 'float32': {
      const bytes = Buffer.alloc(4);
      bytes.writeFloatLE(value);
      return Buffer.concat([uint32(6), bytes]);
    }
    case 'string':
      return Buffer.concat([uint32(8), string(value)]);
  }
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function string(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([uint64(bytes.length), bytes]);
}

function padded(bytes: Buffer): readonly Buffer[] {
  const rest = bytes.length % alignment;
  return rest === 0 ? [bytes] : [bytes, Buffer.alloc(alignment - rest)];
}

async function write(file: FileHandle, parts: readonly Buffer[]): Promise<void> {
  for (const part of parts) await file.writeFile(part);
}
