/** Random models in the shapes that people serve, as checkpoints: nobody has to download them. */
import { closeSync, copyFileSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { bundledTarget } from '../src/core/package-files.js';

export interface Shape {
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly vocab_size: number;
}

/** `tiny` is for trying a benchmark where there is no GPU. */
export const shapes = {
  '1B': { ...shape(2048, 5632, 22, 32, 32_000), num_key_value_heads: 4 }, // TinyLlama's
  '7B': shape(4096, 11_008, 32, 32, 32_000),
  '13B': shape(5120, 13_824, 40, 40, 32_000),
  tiny: shape(64, 160, 4, 4, 512),
} as const;
export type ShapeName = keyof typeof shapes;

function shape(hidden: number, inner: number, layers: number, heads: number, vocabulary: number): Shape {
  return {
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: heads,
    vocab_size: vocabulary,
  };
}

export function configOf(sizes: Shape): Readonly<Record<string, unknown>> {
  return {
    ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_act: 'silu', ...sizes },
    ...{ max_position_embeddings: 4096, rms_norm_eps: 1e-5, rope_theta: 10_000, tie_word_embeddings: false },
  };
}

export const countElements = (sizes: readonly number[]): number =>
  sizes.reduce((product, size) => product * size, 1);

type NamedShapes = readonly (readonly [name: string, shape: readonly number[]])[];

/** The 1B shape in float16 with the bundled tokenizer. Returns the number of its parameters. */
export function writeRandomCheckpoint(folder: string): number {
  const sizes = shapes['1B'];
  const { hidden_size: hidden, vocab_size: vocabulary, num_hidden_layers: layers } = sizes;
  const tensors: NamedShapes = [
    ['model.embed_tokens.weight', [vocabulary, hidden]],
    ...Array.from({ length: layers }, (_, layer) => layerTensors(`model.layers.${layer}`, sizes)).flat(),
    ['model.norm.weight', [hidden]],
    ['lm_head.weight', [vocabulary, hidden]],
  ];
  writeTensors(join(folder, 'model.safetensors'), tensors, 'F16');
  const config = { ...configOf(sizes), max_position_embeddings: 2048 };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(bundledTarget, name), join(folder, name));
  return tensors.reduce((total, [, own]) => total + countElements(own), 0);
}

/** A head with the target's whole vocabulary and three taps, in bfloat16. */
export function writeRandomEagle3(folder: string, sizes: Shape): string {
  const { hidden_size: hidden, vocab_size: vocabulary } = sizes;
  const tensors: NamedShapes = [
    ['fc.weight', [hidden, 3 * hidden]],
    ...layerTensors('midlayer', sizes, 2 * hidden),
    ['midlayer.hidden_norm.weight', [hidden]],
    ['norm.weight', [hidden]],
    ['lm_head.weight', [vocabulary, hidden]],
  ];
  mkdirSync(folder, { recursive: true });
  writeTensors(join(folder, 'model.safetensors'), tensors, 'BF16');
  const config = { ...configOf({ ...sizes, num_hidden_layers: 1 }), draft_vocab_size: vocabulary };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  return folder;
}

function layerTensors(name: string, sizes: Shape, inputSize = sizes.hidden_size): NamedShapes {
  const { hidden_size: hidden, intermediate_size: inner } = sizes;
  const keyValueWidth = (hidden / sizes.num_attention_heads) * sizes.num_key_value_heads;
  return [
    [`${name}.input_layernorm.weight`, [hidden]],
    [`${name}.self_attn.q_proj.weight`, [hidden, inputSize]],
    [`${name}.self_attn.k_proj.weight`, [keyValueWidth, inputSize]],
    [`${name}.self_attn.v_proj.weight`, [keyValueWidth, inputSize]],
    [`${name}.self_attn.o_proj.weight`, [hidden, hidden]],
    [`${name}.post_attention_layernorm.weight`, [hidden]],
    [`${name}.mlp.gate_proj.weight`, [inner, hidden]],
    [`${name}.mlp.up_proj.weight`, [inner, hidden]],
    [`${name}.mlp.down_proj.weight`, [hidden, inner]],
  ];
}

const elementBytes = 2;
/** Bits of 1, and of small values of both signs: which bits are random, and an exponent around 2^-6. */
const formats = {
  F16: { one: 0x3c00, random: 0x83ff, exponent: 0x2400 },
  BF16: { one: 0x3f80, random: 0x80ff, exponent: 0x3c00 },
} as const;

function writeTensors(path: string, tensors: NamedShapes, dtype: keyof typeof formats): void {
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, own] of tensors) {
    const end = offset + elementBytes * countElements(own);
    header[name] = { dtype, shape: own, data_offsets: [offset, end] };
    offset = end;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const nextValues = createRandomValues(dtype);
  const file = openSync(path, 'w');
  try {
    writeSync(file, length);
    writeSync(file, json);
    for (const [, own] of tensors) {
      const count = countElements(own);
      if (own.length === 1) writeSync(file, new Uint16Array(count).fill(formats[dtype].one));
      else for (let rest = count; rest > 0;) rest -= writeSync(file, nextValues(rest)) / elementBytes;
    }
  } finally {
    closeSync(file);
  }
}

/** One block over and over; its length is a prime, so that no two rows are equal, and no two tokens score the same. */
function createRandomValues(dtype: keyof typeof formats): (most: number) => Uint16Array {
  const { random, exponent } = formats[dtype];
  const block = new Uint16Array(4_194_301);
  let state = 1;
  for (let index = 0; index < block.length; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    block[index] = ((state >>> 16) & random) | exponent;
  }
  let used = 0;
  return (most) => {
    const values = block.subarray(used, used + most);
    used = (used + values.length) % block.length;
    return values;
  };
}
