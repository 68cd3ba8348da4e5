/** A checkpoint of random weights in float16, for measurements at sizes that nobody has to download. */
import { closeSync, copyFileSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { bundledTarget } from '../src/decode/bundled-models.js';

/** 1.1 B parameters. */
const sizes = { hidden: 2048, inner: 5632, layers: 22, heads: 32, keyValueHeads: 4, vocabulary: 32000 };

/** Returns the number of its parameters. */
export function writeRandomCheckpoint(folder: string): number {
  const { hidden, inner, layers, heads, keyValueHeads, vocabulary } = sizes;
  const shapes = listTensors();
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [name, shape] of shapes) {
    header[name] = { dtype: 'F16', shape, data_offsets: [offset, offset + 2 * countElements(shape)] };
    offset += 2 * countElements(shape);
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const file = openSync(join(folder, 'model.safetensors'), 'w');
  writeSync(file, length);
  writeSync(file, json);
  const nextValues = createRandomValues();
  for (const [name, shape] of shapes) {
    const count = countElements(shape);
    if (name.endsWith('norm.weight')) writeSync(file, new Uint16Array(count).fill(0x3c00)); // ones
    else for (let rest = count; rest > 0;) rest -= writeSync(file, nextValues(rest)) / 2;
  }
  closeSync(file);
  const config = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: keyValueHeads,
    vocab_size: vocabulary,
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(bundledTarget, name), join(folder, name));
  return offset / 2;
}

function listTensors(): readonly (readonly [string, readonly number[]])[] {
  const { hidden, inner, layers, heads, keyValueHeads, vocabulary } = sizes;
  const keyValueWidth = (hidden / heads) * keyValueHeads;
  const shapes: [string, number[]][] = [['model.embed_tokens.weight', [vocabulary, hidden]]];
  for (let layer = 0; layer < layers; layer++) {
    const name = `model.layers.${layer}`;
    shapes.push(
      [`${name}.input_layernorm.weight`, [hidden]],
      [`${name}.self_attn.q_proj.weight`, [hidden, hidden]],
      [`${name}.self_attn.k_proj.weight`, [keyValueWidth, hidden]],
      [`${name}.self_attn.v_proj.weight`, [keyValueWidth, hidden]],
      [`${name}.self_attn.o_proj.weight`, [hidden, hidden]],
      [`${name}.post_attention_layernorm.weight`, [hidden]],
      [`${name}.mlp.gate_proj.weight`, [inner, hidden]],
      [`${name}.mlp.up_proj.weight`, [inner, hidden]],
      [`${name}.mlp.down_proj.weight`, [hidden, inner]],
    );
  }
  shapes.push(['model.norm.weight', [hidden]], ['lm_head.weight', [vocabulary, hidden]]);
  return shapes;
}

function countElements(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/**
 * Small values of both signs: exponents around 2^-6, the rest of the bits by a linear congruence. One block is used over
 * and over; its length is a prime, so that no two rows of a matrix are equal, and no two tokens score the same.
 */
function createRandomValues(): (most: number) => Uint16Array {
  const block = new Uint16Array(4_194_301);
  let state = 1;
  for (let index = 0; index < block.length; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    block[index] = ((state >>> 16) & 0x83ff) | 0x2400;
  }
  let used = 0;
  return (most) => {
    const values = block.subarray(used, used + most);
    used = (used + values.length) % block.length;
    return values;
  };
}
