/** GGUF files: header, configuration, tensors and tokenizer of a tiny model, damaged or wrong in one value. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openCheckpoint } from '../../../src/checkpoint/open-checkpoint.js';
import { readFloat32 } from '../../../src/checkpoint/read-tensor.js';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { parseConfiguration } from '../../../src/model/configuration.js';
import { hasTokenizer } from '../../../src/text/tokenizer/tokenizer-file.js';
import { loadTokenizer } from '../../../src/text/tokenizer/tokenizer.js';
import type { GgmlType, GgufMetadata, GgufValue } from '../../support/checkpoint/encode-gguf.js';
import { encodeGguf, ggmlTypes } from '../../support/checkpoint/encode-gguf.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const uint32 = (value: number): GgufValue => ({ type: 'uint32', value });
const text = (value: string): GgufValue => ({ type: 'string', value });
const pieces = ['<unk>', '<s>', '</s>', '<0x0A>', '▁', 'a', 'b', '▁a', 'ab'];

const metadata: GgufMetadata = {
  'general.architecture': text('llama'),
  'general.alignment': uint32(32),
  'llama.context_length': uint32(64),
  'llama.embedding_length': uint32(32),
  'llama.block_count': uint32(1),
  'llama.feed_forward_length': uint32(32),
  'llama.attention.head_count': uint32(4),
  'llama.attention.head_count_kv': uint32(2),
  'llama.attention.layer_norm_rms_epsilon': { type: 'float32', value: 1e-5 },
  'llama.rope.freq_base': { type: 'float32', value: 1e4 },
  'llama.rope.scaling.type': text('none'),
  'tokenizer.ggml.model': text('llama'),
  'tokenizer.ggml.tokens': { type: 'strings', value: pieces },
  'tokenizer.ggml.scores': { type: 'float32s', value: pieces.map((_, id) => -id) },
  'tokenizer.ggml.token_type': { type: 'int32s', value: [2, 3, 3, 6, 1, 1, 1, 1, 1] },
  'tokenizer.ggml.bos_token_id': uint32(1),
  'tokenizer.ggml.eos_token_id': uint32(2),
  'tokenizer.ggml.add_bos_token': { type: 'bool', value: true },
  'tokenizer.chat_template': text('{{ messages[0].content }}'),
};

const data = (sizeBytes: number): Uint8Array => new Uint8Array(sizeBytes).fill(1);
const tensors = [
  { name: 'rope_freqs.weight', type: 'F32', shape: [4], data: data(16) },
  { name: 'token_embd.weight', type: 'Q8_0', shape: [9, 32], data: data(306) },
  { name: 'blk.0.attn_q.weight', type: 'F16', shape: [32, 32], data: data(2048) },
  { name: 'blk.0.attn_k.weight', type: 'Q4_0', shape: [16, 32], data: data(288) },
  { name: 'blk.0.ffn_down.weight', type: 'Q6_K', shape: [1, 256], data: data(210) },
  { name: 'output_norm.weight', type: 'F32', shape: [32], data: data(128) },
] as const satisfies readonly { readonly type: GgmlType; readonly [key: string]: unknown }[];

const original = encodeGguf(metadata, tensors);
/** Damage to the header hits what matters. */
const headerBytes = original.indexOf('output_norm.weight') + 60;

function makeGguf(random: Random): Buffer {
  switch (random.nextInteger(4)) {
    case 0:
      return mutateBytes(original, random);
    case 1: {
      const header = mutateBytes(original.subarray(0, headerBytes), random);
      return Buffer.concat([header, original.subarray(headerBytes)]);
    }
    case 2:
      return encodeGguf(changeValue(random), tensors, { version: pick(random, [2, 3, 3]) });
    default: {
      const changed = tensors.map((tensor) => {
        if (random.nextInteger(6) > 0) return tensor;
        const type = pick(random, Object.keys(ggmlTypes) as GgmlType[]);
        return pick(random, [
          { ...tensor, type },
          { ...tensor, shape: [...tensor.shape, pick(random, [0, 1, 2, 2 ** 31, 2 ** 52])] },
          { ...tensor, name: pick(random, ['', 'blk.0.attn_v.bias', 'blk.00.attn_q.weight', 'x\u0000']) },
        ]);
      });
      return encodeGguf(metadata, changed, { alignment: pick(random, [32, 32, 64]) });
    }
  }
}

function changeValue(random: Random): GgufMetadata {
  const key = pick(random, Object.keys(metadata));
  const value = pick<GgufValue | undefined>(random, [
    undefined,
    uint32(pick(random, [0, 1, 3, 2 ** 31, 2 ** 32 - 1])),
    { type: 'float32', value: pick(random, [NaN, Infinity, -1, 0, 0.5]) },
    { type: 'uint64', value: pick(random, [0, 2 ** 40, 2 ** 53]) },
    text(pick(random, ['', 'gpt2', 'qwen2', 'yarn', 'linear', '\u001b[2J', '{% for a in b %}'])),
    { type: 'strings', value: pick(random, [[], ['a', 'a'], ['a'.repeat(3000)], pieces.toReversed()]) },
    { type: 'int32s', value: pick(random, [[], [1, 2, 3], pieces.map(() => -1), pieces.map(() => 4)]) },
  ]);
  const entries = Object.entries(metadata).flatMap(([name, each]): [string, GgufValue][] =>
    name !== key ? [[name, each]] : value === undefined ? [] : [[name, value]],
  );
  return Object.fromEntries(entries);
}

export const gguf: FuzzKind = {
  name: 'gguf',
  boundedRuns: 600,
  open(folder) {
    const path = join(folder, 'model.gguf');
    return async (seed) => {
      const bytes = makeGguf(createRandom(seed, 'gguf'));
      writeFileSync(path, bytes);
      const checkpoint = await openCheckpoint(path);
      parseConfiguration(checkpoint.config, `config.json of ${path}`);
      for (const tensor of checkpoint.tensors.values()) {
        const { name, shape, offsetBytes, sizeBytes } = tensor;
        ensure(offsetBytes + sizeBytes <= bytes.length, `${name} ends outside of the file`);
        const values = await readFloat32(tensor);
        ensure(
          values.length === shape.reduce((product, size) => product * size, 1),
          `${name} has other values`,
        );
      }
      if (!(await hasTokenizer(path))) return;
      const tokenizer = await loadTokenizer(path);
      const ids = await tokenizer.encode('ab a');
      ensure(
        ids.every((id) => tokenizer.hasToken(id)),
        'encoded to a token that is not there',
      );
    };
  },
};
