/**
 * A GGUF file as a checkpoint: its tensors under the names that transformers uses, its metadata as config.json. Every tensor
 * is mapped, consumed here, or the reason for a refusal that names it.
 */
import { resolve } from 'node:path';
import { isFolder } from '../../core/files.js';
import { readFloat32 } from '../read-tensor.js';
import { formatShape, quote, refuse, type Checkpoint, type StoredTensor } from '../stored-tensor.js';
import { describeConfig, requireFamily, type GgufFamily } from './gguf-config.js';
import { readGgufHeader, type GgufHeader, type GgufTensor } from './gguf-header.js';
import { findNumber, requireNumber } from './gguf-metadata.js';

/** By the name of the file; what is inside is checked when it is opened. */
export function isGgufFile(path: string): boolean {
  return /\.gguf$/i.test(path) && !isFolder(path);
}

export async function openGguf(path: string): Promise<Checkpoint> {
  const root = resolve(path);
  const header = await readGgufHeader(root);
  const parts = findNumber(header, 'split.count') ?? 1;
  if (parts > 1)
    throw refuse(
      `${root} is one of ${parts} parts of a model`,
      'Join them with llama.cpp: llama-gguf-split --merge FIRST-PART.gguf WHOLE.gguf.',
    );
  const family = requireFamily(header);
  const tensors = new Map<string, StoredTensor>();
  for (const tensor of header.tensors) {
    if (tensor.name === rotaryName) continue;
    const stored = mapTensor(header, family, tensor);
    tensors.set(stored.name, stored);
  }
  if (tensors.size === 0) {
    throw refuse(
      `${root} has no tensors, only metadata`,
      'Use the file with the weights; one with the vocabulary alone is not a model.',
    );
  }
  const rotary = header.tensors.find(({ name }) => name === rotaryName);
  const config = describeConfig(header, family, {
    vocabularySize: tensors.get('model.embed_tokens.weight')?.shape[0] ?? 0,
    isTied: !tensors.has('lm_head.weight'),
    hasAttentionBias: tensors.has('model.layers.0.self_attn.q_proj.bias'),
    rotaryFactors: rotary === undefined ? undefined : await readFactors(header, family, rotary),
  });
  return { folder: root, config, tensors, files: [root] };
}

const rotaryName = 'rope_freqs.weight';

const wholeNames: ReadonlyMap<string, string> = new Map([
  ['token_embd.weight', 'model.embed_tokens.weight'],
  ['output_norm.weight', 'model.norm.weight'],
  ['output.weight', 'lm_head.weight'],
]);

const layerNames: ReadonlyMap<string, string> = new Map([
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
]);

function mapTensor(header: GgufHeader, family: GgufFamily, tensor: GgufTensor): StoredTensor {
  const { name, dtype, shape, offsetBytes, sizeBytes } = tensor;
  const stored = { dtype, shape, file: header.path, offsetBytes, sizeBytes };
  const whole = wholeNames.get(name);
  if (whole !== undefined) return { name: whole, ...stored };
  const [, layer, part = '', kind] = /^blk\.(\d{1,6})\.(\w+)\.(weight|bias)$/.exec(name) ?? [];
  const known = layerNames.get(part);
  if (layer === undefined || known === undefined) {
    throw refuse(
      `${header.path} holds ${quote(name)}, which a ${family.name} decoder does not read`,
      'Without it, it would be another model: use a dense model of the Llama, Mistral, Qwen2 or Qwen3 family.',
    );
  }
  const mapped = { name: `model.layers.${layer}.${known}.${kind!}`, ...stored };
  const counted = family.interleavesHeads ? headCountKeys.get(part) : undefined;
  return counted === undefined
    ? mapped
    : { ...mapped, interleavedHeads: countHeads(header, tensor, counted) };
}

/** Queries and keys are rotated. */
const headCountKeys: ReadonlyMap<string, readonly string[]> = new Map([
  ['attn_q', ['llama.attention.head_count']],
  ['attn_k', ['llama.attention.head_count_kv', 'llama.attention.head_count']],
]);

function countHeads(header: GgufHeader, { name, shape }: GgufTensor, keys: readonly string[]): number {
  const heads = findNumber(header, keys[0]!) ?? requireNumber(header, keys.at(-1)!);
  const rowsPerHead = shape[0]! / heads;
  if (Number.isInteger(heads) && heads > 0 && Number.isInteger(rowsPerHead / 2)) return heads;
  throw refuse(
    `tensor ${quote(name)} in ${header.path} has the shape ${formatShape(shape)}, which ${heads} heads cannot share`,
    'The metadata belongs to another model: download the file again.',
  );
}

async function readFactors(
  header: GgufHeader,
  { name }: GgufFamily,
  tensor: GgufTensor,
): Promise<readonly number[]> {
  const headSize =
    findNumber(header, `${name}.attention.key_length`) ??
    requireNumber(header, `${name}.embedding_length`) / requireNumber(header, `${name}.attention.head_count`);
  const isFitting = tensor.shape.length === 1 && tensor.shape[0] === headSize / 2;
  const factors = isFitting ? [...(await readFloat32({ ...tensor, file: header.path }))] : [];
  if (isFitting && factors.every((factor) => factor > 0 && Number.isFinite(factor))) return factors;
  throw refuse(
    `tensor ${quote(rotaryName)} in ${header.path} has the shape ${formatShape(tensor.shape)} or values that are not positive, expected [${headSize / 2}]`,
    'Convert the model again with a current llama.cpp.',
  );
}
