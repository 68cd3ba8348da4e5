/** The table of docs/gpu.md, computed again. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { formatBytes } from '../src/core/number-text.js';
import { parseConfiguration } from '../src/model/configuration.js';
import { countFittingTokens, estimateGpuMemory } from '../src/decode/gpu-fit.js';

const page = readFileSync(join(import.meta.dirname, '../docs/gpu.md'), 'utf8');
const cards = [16, 24, 48, 80, 141];
const usableShare = 0.97;

/** [hidden, inner, layers, heads, heads for keys and values, vocabulary, context] as their config.json have them. */
type Sizes = readonly [number, number, number, number, number, number, number];

const llama = { architectures: ['LlamaForCausalLM'], model_type: 'llama' };
const qwen2 = { architectures: ['Qwen2ForCausalLM'], model_type: 'qwen2' };
const qwen3 = { architectures: ['Qwen3ForCausalLM'], model_type: 'qwen3', head_dim: 128 };
const models: readonly (readonly [string, Sizes, object])[] = [
  ['Llama-3.2-1B', [2048, 8192, 16, 32, 8, 128256, 131072], { ...llama, tie_word_embeddings: true }],
  ['Vicuna-7B v1.5', [4096, 11008, 32, 32, 32, 32000, 4096], llama],
  ['Qwen2.5-7B', [3584, 18944, 28, 28, 4, 152064, 32768], qwen2],
  ['Llama-3.1-8B', [4096, 14336, 32, 32, 8, 128256, 131072], llama],
  ['Vicuna-13B v1.5', [5120, 13824, 40, 40, 40, 32000, 4096], llama],
  ['Qwen3-32B', [5120, 25600, 64, 64, 8, 151936, 40960], qwen3],
  ['Llama-3.3-70B', [8192, 28672, 80, 64, 8, 128256, 131072], llama],
];

function rowOf([name, sizes, config]: (typeof models)[number]): string[] {
  const [hidden, inner, layers, heads, keyValueHeads, vocabulary, context] = sizes;
  const model = parseConfiguration(
    {
      ...{ hidden_size: hidden, intermediate_size: inner, num_hidden_layers: layers, rms_norm_eps: 1e-5 },
      ...{ num_attention_heads: heads, num_key_value_heads: keyValueHeads, vocab_size: vocabulary },
      ...{ max_position_embeddings: context, ...config },
    },
    name,
  );
  const memory = estimateGpuMemory(model, 'bfloat16');
  const fitting = cards.map((gigabytes) => {
    const tokens = countFittingTokens(memory, gigabytes * 1e9 * usableShare);
    if (tokens >= model.contextLength) return 'all';
    return tokens < 1000 ? '–' : `${Math.floor(tokens / 1000)}k`;
  });
  const whole = estimateGpuMemory(model, 'float32');
  return [
    name,
    formatBytes(memory.weightBytes),
    formatBytes(whole.weightBytes),
    formatBytes(1000 * memory.bytesPerToken),
    ...fitting,
  ];
}

it.each(models)('says of %s what the function says', (...model) => {
  const row = rowOf(model);
  const lines = page.split('\n').filter((line) => line.startsWith(`| ${row[0]!} `));
  expect(
    lines.map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    ),
  ).toEqual([row]);
});
