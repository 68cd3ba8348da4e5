/** Small files that announce, or unfold into, far more than they hold. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { GgufMetadata } from '../../support/checkpoint/encode-gguf.js';
import { encodeGguf } from '../../support/checkpoint/encode-gguf.js';
import { writeSentencePiece } from '../../support/text/write-sentencepiece.js';
import { writeCachedSet } from '../../support/text/cached-set.js';
import { hostileParquets } from '../../support/text/hostile-parquets.js';
import { llamaConfig, tiny } from '../../support/tiny-checkpoints.js';
import type { MaliciousCase } from './case.js';
import { generate, inspect, writeFiles, writeTarget } from './case.js';

/** `a`, `aa`, `aaa`, ...: each is made of the others in every way. */
export const nestedPieces = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => 'a'.repeat(index + 1));

export const nestedSentencePiece = (count: number): Buffer =>
  writeSentencePiece({ pieces: nestedPieces(count).map((piece, rank) => ({ piece, score: -rank })) });

const word = (value: string) => ({ type: 'string', value }) as const;
export function nestedGguf(count: number): Buffer {
  const metadata: GgufMetadata = {
    'general.architecture': word('llama'),
    ...Object.fromEntries(
      [
        'context_length',
        'embedding_length',
        'block_count',
        'feed_forward_length',
        'attention.head_count',
      ].map((key) => [`llama.${key}`, { type: 'uint32', value: 1 } as const]),
    ),
    'llama.attention.layer_norm_rms_epsilon': { type: 'float32', value: 1e-5 },
    'tokenizer.ggml.model': word('llama'),
    'tokenizer.ggml.tokens': { type: 'strings', value: [...nestedPieces(count)] },
  };
  return encodeGguf(metadata, [
    { name: 'token_embd.weight', type: 'F32', shape: [1], data: Buffer.alloc(4) },
  ]);
}

/** Some tensors of every layer, and none of the experts. */
export function manyExperts(layers: number): { readonly config: object; readonly tensors: Buffer } {
  const entries = Array.from(
    { length: layers },
    (_, layer) =>
      `"model.layers.${layer}.x":{"dtype":"F32","shape":[1],"data_offsets":[${4 * layer},${4 * layer + 4}]}`,
  );
  const header = Buffer.from(`{${entries.join()}}`);
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  const config = {
    ...llamaConfig(tiny),
    ...{ architectures: ['Qwen3MoeForCausalLM'], model_type: 'qwen3_moe', num_hidden_layers: layers },
    ...{ num_experts: 4096, num_experts_per_tok: 2, moe_intermediate_size: 8 },
  };
  return { config, tensors: Buffer.concat([size, header, Buffer.alloc(4 * layers)]) };
}

/** Lists of nine, nested by aliases: nine to the power of `depth` texts. */
export function nestedAliases(depth: number): string {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]'];
  for (let level = 1; level < depth; level++)
    lines.push(`a${level}: &a${level} [${new Array(9).fill(`*a${level - 1}`).join()}]`);
  return `${lines.join('\n')}\n`;
}

const withPieces = (count: number): MaliciousCase => ({
  name: `a tokenizer.model of ${count} nested pieces`,
  write: (folder) => {
    const target = writeTarget(folder, {
      'tokenizer.model': nestedSentencePiece(count),
      'tokenizer_config.json': { tokenizer_class: 'LlamaTokenizer' },
    });
    rmSync(join(target, 'tokenizer.json'));
    return generate(target);
  },
});
const withExperts = (layers: number): MaliciousCase => ({
  name: `4096 experts in each of ${layers} layers`,
  write: (folder) => {
    const { config, tensors } = manyExperts(layers);
    return inspect(
      writeFiles(join(folder, 'model'), { 'config.json': config, 'model.safetensors': tensors }),
    );
  },
});
const withSettings = (name: string, yaml: string, command = 'audit'): MaliciousCase => ({
  name,
  write: (folder) => {
    const file = join(writeFiles(folder, { 'settings.yaml': yaml }), 'settings.yaml');
    return [command, '--config', file, '--show-config'];
  },
});
const withPrompts = (name: string, file: string, contents: string): MaliciousCase => ({
  name,
  write: (folder) =>
    generate(writeTarget(folder), '--prompts', join(writeFiles(folder, { [file]: contents }), file)),
});
/** In the cache of the hub that `runCommand` gives each case. */
const withParquet = (name: string, bytes: Uint8Array): MaliciousCase => ({
  name: `a Parquet file with ${name}`,
  write: (folder) => {
    writeCachedSet(join(folder, 'hub'), bytes);
    return ['bench', '--target', writeTarget(folder), '--drafter', 'ngram', '--prompts', 'gsm8k'];
  },
});

export const bombCases: readonly MaliciousCase[] = [
  withPieces(1000),
  withPieces(1390),
  {
    name: 'a GGUF file of 1390 nested tokens',
    write: (folder) =>
      inspect(join(writeFiles(join(folder, 'model'), { 'model.gguf': nestedGguf(1390) }), 'model.gguf')),
  },
  withExperts(50),
  withExperts(1000),
  withExperts(12_000),
  withPrompts('490,000 prompts of a letter', 'prompts.txt', 'a\n'.repeat(490_000)),
  withPrompts('240,000 prompts as JSON', 'prompts.jsonl', '"a"\n'.repeat(240_000)),
  withPrompts(
    'a conversation of 240,000 turns',
    'prompts.jsonl',
    JSON.stringify({ turns: new Array(240_000).fill('') }),
  ),
  withSettings('an alias to itself', 'drafter: &a [*a]\n'),
  withSettings('aliases that name each other', 'steps: &a {b: &b {c: *a, d: *b}}\n'),
  withSettings('a setting that is nested aliases', `${nestedAliases(12)}steps: *a11\n`),
  withSettings('a guard with an alias to itself', 'upstream: &a [*a]\n', 'guard'),
  withSettings('a guard of nested aliases', `${nestedAliases(12)}upstream: *a11\n`, 'guard'),
  withSettings('30,000 nested lists as settings', `steps: ${'['.repeat(30_000)}\n`),
  withSettings('a setting whose name is a thousand nested names', `steps: ${'? '.repeat(1000)}\n`),
  withSettings('16,000 brackets that close nothing', `steps: ${'] '.repeat(16_000)}\n`),
  ...hostileParquets.map(({ name, bytes }) => withParquet(name, bytes)),
];
