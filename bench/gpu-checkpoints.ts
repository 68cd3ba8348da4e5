/** Checkpoints of random weights in bfloat16, in the files that people publish: a decoder in shards, an EAGLE-3 head. */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Shape } from './gpu-models.js';
import { configOf, countElements } from './gpu-models.js';

type NamedShapes = readonly (readonly [name: string, shape: readonly number[]])[];

const elementBytes = 2;
const one = 0x3f80;

/** Returns the bytes of its tensors. */
export function writeRandomDecoder(folder: string, shape: Shape, shardBytes = 5e9): number {
  const { hidden_size: hidden, num_hidden_layers: layers, vocab_size: vocabulary } = shape;
  const tensors: NamedShapes = [
    ['model.embed_tokens.weight', [vocabulary, hidden]],
    ...Array.from({ length: layers }, (_, layer) => layerTensors(`model.layers.${layer}`, shape)).flat(),
    ['model.norm.weight', [hidden]],
    ['lm_head.weight', [vocabulary, hidden]],
  ];
  mkdirSync(folder, { recursive: true });
  const shards = partIntoShards(tensors, shardBytes);
  const map: Record<string, string> = {};
  shards.forEach((shard, index) => {
    const number = (value: number): string => String(value).padStart(5, '0');
    const file = `model-${number(index + 1)}-of-${number(shards.length)}.safetensors`;
    for (const [name] of shard) map[name] = file;
    writeTensors(join(folder, file), shard);
  });
  const totalBytes = tensors.reduce((sum, [, of]) => sum + elementBytes * countElements(of), 0);
  const index = { metadata: { total_size: totalBytes }, weight_map: map };
  writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify(index));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...configOf(shape), torch_dtype: 'bfloat16' }));
  return totalBytes;
}

/** A head with the target's whole vocabulary and three taps. */
export function writeRandomEagle3(folder: string, shape: Shape): string {
  const { hidden_size: hidden, vocab_size: vocabulary } = shape;
  const tensors: NamedShapes = [
    ['fc.weight', [hidden, 3 * hidden]],
    ...layerTensors('midlayer', shape, 2 * hidden),
    ['midlayer.hidden_norm.weight', [hidden]],
    ['norm.weight', [hidden]],
    ['lm_head.weight', [vocabulary, hidden]],
  ];
  mkdirSync(folder, { recursive: true });
  writeTensors(join(folder, 'model.safetensors'), tensors);
  const config = { ...configOf({ ...shape, num_hidden_layers: 1 }), draft_vocab_size: vocabulary };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  return folder;
}

function layerTensors(name: string, shape: Shape, inputSize = shape.hidden_size): NamedShapes {
  const { hidden_size: hidden, intermediate_size: inner } = shape;
  return [
    [`${name}.input_layernorm.weight`, [hidden]],
    ...['q_proj', 'k_proj', 'v_proj'].map(
      (part) => [`${name}.self_attn.${part}.weight`, [hidden, inputSize]] as const,
    ),
    [`${name}.self_attn.o_proj.weight`, [hidden, hidden]],
    [`${name}.post_attention_layernorm.weight`, [hidden]],
    [`${name}.mlp.gate_proj.weight`, [inner, hidden]],
    [`${name}.mlp.up_proj.weight`, [inner, hidden]],
    [`${name}.mlp.down_proj.weight`, [hidden, inner]],
  ];
}

function partIntoShards(tensors: NamedShapes, shardBytes: number): NamedShapes[] {
  const shards: (readonly [string, readonly number[]])[][] = [[]];
  let bytes = 0;
  for (const tensor of tensors) {
    const size = elementBytes * countElements(tensor[1]);
    if (bytes > 0 && bytes + size > shardBytes) {
      shards.push([]);
      bytes = 0;
    }
    shards.at(-1)!.push(tensor);
    bytes += size;
  }
  return shards;
}

function writeTensors(path: string, tensors: NamedShapes): void {
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, shape] of tensors) {
    const end = offset + elementBytes * countElements(shape);
    header[name] = { dtype: 'BF16', shape, data_offsets: [offset, end] };
    offset = end;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const file = openSync(path, 'w');
  try {
    writeSync(file, length);
    writeSync(file, json);
    for (const [, shape] of tensors) {
      const count = countElements(shape);
      if (shape.length === 1) writeSync(file, new Uint16Array(count).fill(one));
      else for (let rest = count; rest > 0;) rest -= writeSync(file, nextValues(rest)) / elementBytes;
    }
  } finally {
    closeSync(file);
  }
}

/** Small values of both signs, used over and over; their number is a prime, so that no two rows of a matrix are alike. */
const block = drawValues(16_777_213);
let used = 0;

function nextValues(most: number): Uint16Array {
  const values = block.subarray(used, used + most);
  used = (used + values.length) % block.length;
  return values;
}

/** Exponents around 2^-6, the rest of the bits by a linear congruence. */
function drawValues(count: number): Uint16Array {
  const values = new Uint16Array(count);
  let state = 1;
  for (let index = 0; index < count; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values[index] = ((state >>> 16) & 0x80ff) | 0x3c00;
  }
  return values;
}
