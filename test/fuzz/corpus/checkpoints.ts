/** Weight files, configurations and indexes that announce what is not there, or hide what is. */
import { join } from 'node:path';
import type { GgufMetadata } from '../../support/checkpoint/encode-gguf.js';
import { encodeGguf, uint64 } from '../../support/checkpoint/encode-gguf.js';
import { encodeSafetensors, joinSafetensors } from '../../support/checkpoint/write-safetensors.js';
import { encodePickle, pickleGlobal, pickleTuple } from '../../support/checkpoint/encode-pickle.js';
import { joinTorchFile } from '../../support/checkpoint/write-torch-file.js';
import { encodeZip } from '../../support/checkpoint/write-zip.js';
import { llamaConfig, tiny, writeCheckpoint } from '../../support/tiny-checkpoints.js';
import { hydraTensors } from '../../support/tiny-drafters.js';
import type { Files, MaliciousCase } from './case.js';
import { generate, inspect, nest, writeFiles, writeTarget } from './case.js';

const config = llamaConfig(tiny);
const inFolder = (name: string, files: Files): MaliciousCase => ({
  name,
  write: (folder) => inspect(writeFiles(join(folder, 'model'), { 'config.json': config, ...files })),
});
const withConfig = (name: string, changes: object): MaliciousCase => ({
  name,
  write: (folder) => generate(writeTarget(folder, { 'config.json': { ...config, ...changes } })),
});
const withPickle = (name: string, pickle: Uint8Array): MaliciousCase =>
  inFolder(name, { 'pytorch_model.bin': joinTorchFile('model', pickle, {}) });

const withGguf = (name: string, contents: Uint8Array): MaliciousCase => ({
  name,
  write: (folder) =>
    inspect(join(writeFiles(join(folder, 'model'), { 'model.gguf': contents }), 'model.gguf')),
});
const word = (value: string) => ({ type: 'string', value }) as const;
const ggufSettings = (value: number): GgufMetadata => ({
  'general.architecture': word('llama'),
  ...Object.fromEntries(
    ['context_length', 'embedding_length', 'block_count', 'feed_forward_length', 'attention.head_count'].map(
      (key) => [`llama.${key}`, { type: 'uint32', value } as const],
    ),
  ),
  'llama.attention.key_length': { type: 'uint32', value: 2 },
  'llama.attention.layer_norm_rms_epsilon': { type: 'float32', value: 1e-5 },
});
const ggufTensor = { name: 'token_embd.weight', type: 'F32', shape: [1], data: Buffer.alloc(4) } as const;

const announced = Buffer.alloc(16);
announced.writeBigUInt64LE(2n ** 63n);
const weight = { dtype: 'F32', shape: [16, 16], values: new Float32Array(256) } as const;

/** Each call describes a tensor by a shape that is one longer than the one before: 250 KB that ask for gigabytes. */
function growingShape(): Buffer {
  const begin = Buffer.from('\x80\x02]q\x00', 'latin1');
  const call = Buffer.from(
    'ctorch._utils\n_rebuild_tensor_v2\n(h\x00K\x01h\x01h\x01tR0h\x00K\x01a',
    'latin1',
  );
  const shape = encodePickle({ tuple: new Array<number>(20_000).fill(1) }).subarray(2, -1);
  const calls = new Array<Buffer>(3000).fill(call);
  return Buffer.concat([begin, shape, Buffer.from('q\x01', 'latin1'), ...calls, Buffer.from('.')]);
}

export const checkpointCases: readonly MaliciousCase[] = [
  inFolder('a header of 2^63 bytes', { 'model.safetensors': announced }),
  inFolder('a header of 900,000 brackets', {
    'model.safetensors': joinSafetensors(nest(450_000), Buffer.alloc(8)),
  }),
  inFolder('12,000 tensors over the same bytes', {
    'model.safetensors': joinSafetensors(
      `{${Array.from({ length: 12_000 }, (_, index) => `"${index}":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`).join()}}`,
      Buffer.alloc(8),
    ),
  }),
  inFolder('a name twice', {
    'model.safetensors': joinSafetensors(
      `{${new Array(2).fill('"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}').join()}}`,
      Buffer.alloc(8),
    ),
  }),
  inFolder('a tensor whose name steers the terminal', {
    'model.safetensors': encodeSafetensors({ '\u001b[2J\u001b]0;owned\u0007\u202ex': weight }),
  }),
  inFolder('config.json of 200,000 nested lists', {
    'config.json': nest(200_000),
    'model.safetensors': announced,
  }),
  withPickle('a pickle whose shape grows at every call', growingShape()),
  withPickle(
    'a pickle that calls os.system',
    encodePickle({ call: pickleGlobal('os', 'system'), parameters: pickleTuple('id') }),
  ),
  withPickle('a pickle of 400,000 lists', Buffer.from(`\x80\x02${']'.repeat(400_000)}.`, 'latin1')),
  withPickle(
    'a pickle that doubles a list sixty times',
    Buffer.from(`\x80\x02]q\x00${'(h\x00h\x00tq\x00'.repeat(60)}.`, 'latin1'),
  ),
  withPickle(
    'a pickle that nests 100,000 tuples',
    Buffer.from(`\x80\x02N${'\x85'.repeat(100_000)}.`, 'latin1'),
  ),
  inFolder('a zip of 5,000 entries without weights', {
    'pytorch_model.bin': encodeZip(
      Array.from({ length: 5000 }, (_, index) => [`a/${index}`, Buffer.alloc(0)]),
    ),
  }),
  withGguf(
    'a GGUF file of 2^60 tensors',
    Buffer.concat([Buffer.from('GGUF\u0003\0\0\0', 'latin1'), uint64(2n ** 60n), uint64(2n ** 60n)]),
  ),
  withGguf(
    'a GGUF file with 120,000 empty tokens',
    encodeGguf(
      {
        ...ggufSettings(1),
        'tokenizer.ggml.model': word('gpt2'),
        'tokenizer.ggml.tokens': { type: 'strings', value: new Array<string>(120_000).fill('') },
      },
      [ggufTensor],
    ),
  ),
  withGguf(
    'a GGUF file of 15,000 tensors whose names steer the terminal',
    encodeGguf(
      ggufSettings(1),
      Array.from({ length: 15_000 }, (_, index) => ({ ...ggufTensor, name: `\u001b[2J\u202e${index}` })),
    ),
  ),
  withGguf('a GGUF file of 4 billion layers and heads', encodeGguf(ggufSettings(2 ** 32 - 2), [ggufTensor])),
  withConfig('a thousand million layers', { num_hidden_layers: 1e9 }),
  withConfig('a thousand million layers with windows', {
    architectures: ['MistralForCausalLM'],
    sliding_window: 8,
    num_hidden_layers: 1e9,
  }),
  withConfig('sizes beyond every memory', {
    hidden_size: 2 ** 52,
    intermediate_size: 2 ** 52,
    head_dim: 2 ** 40,
  }),
  withConfig('a vocabulary of 10^15 tokens', { vocab_size: 1e15 }),
  withConfig('a context of 10^15 tokens in 10^12 heads', {
    num_attention_heads: 1e12,
    max_position_embeddings: 1e15,
  }),
  withConfig('45,000 types of layers', { layer_types: new Array(45_000).fill('sliding_attention') }),
  withConfig('an architecture that steers the terminal', {
    architectures: ['\u001b[31mLlama\u0007\n\nerror: no'],
  }),
  {
    name: 'a head of number 999999999',
    write: (folder) =>
      inspect(
        writeCheckpoint(
          join(folder, 'head'),
          'medusa_lm_head.safetensors',
          { '999999999.0.linear.weight': weight },
          {},
        ),
      ),
  },
  {
    name: 'a Hydra of a thousand million layers',
    write: (folder) => {
      const settings = { hydra_num_heads: 4, hydra_num_layers: 1e9, hydra_head_arch: 'mlp' };
      const tensors = hydraTensors(tiny, 1, false);
      const head = writeCheckpoint(join(folder, 'head'), 'hydra_lm_head.pt', tensors, settings);
      return generate(writeTarget(folder), '--drafter', head, '--prompt', 'abc');
    },
  },
  inFolder('an index that leads out of its folder', {
    'model.safetensors.index.json': { weight_map: { x: '../../../../etc/shadow.safetensors' } },
  }),
  inFolder('an index of 20,000 shards that are not there', {
    'model.safetensors.index.json': {
      weight_map: Object.fromEntries(
        Array.from({ length: 20_000 }, (_, index) => [`t${index}`, `${index}.safetensors`]),
      ),
    },
  }),
];
