import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readFileSync } from 'node:fs';
import { parseConfiguration } from '../model/configuration.js';
import type { ModelConfiguration } from '../model/configuration.js';
import { countFittingTokens, estimateGpuMemory, passBytes } from './gpu-fit.js';

const llama = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  hidden_size: 4096,
  intermediate_size: 14336,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  vocab_size: 128256,
  max_position_embeddings: 8192,
  rms_norm_eps: 1e-5,
};
const parse = (changes: object = {}): ModelConfiguration =>
  parseConfiguration({ ...llama, ...changes }, 'config.json');

const table = 128256 * 4096;
const layerMatrices = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336;
const vectors = 32 * 2 * 4096 + 4096;

describe('estimateGpuMemory', () => {
  it('has matrices and the table that is looked up in the type, vectors in float32', () => {
    const { weightBytes, bytesPerToken } = estimateGpuMemory(parse(), 'bfloat16');
    expect(weightBytes).toBe(2 * (32 * layerMatrices + 2 * table) + 4 * vectors);
    expect(bytesPerToken).toBe(2 * 2 * 32 * 8 * 128);
    expect(estimateGpuMemory(parse(), 'float16')).toEqual({ weightBytes, bytesPerToken });
  });

  it('has everything in float32 in float32, which is 4 bytes for each of the 8.03 billion parameters', () => {
    const { weightBytes } = estimateGpuMemory(parse(), 'float32');
    expect(weightBytes).toBe(4 * 8_030_261_248);
  });

  it.each([
    ['float32', 4],
    ['bfloat16', 2],
  ] as const)('has tied embeddings once in %s', (dtype, bytes) => {
    const [tied, apart] = [parse({ tie_word_embeddings: true }), parse()];
    const saved = estimateGpuMemory(apart, dtype).weightBytes - estimateGpuMemory(tied, dtype).weightBytes;
    expect(saved).toBe(bytes * table);
  });

  it('costs nothing for a configuration that claims absurdly many layers', () => {
    expect(estimateGpuMemory(parse({ num_hidden_layers: 1e9 }), 'bfloat16').weightBytes).toBeGreaterThan(
      2e9 * layerMatrices,
    );
  });

  it('counts the bundled target as its tensors are', () => {
    const path = join(import.meta.dirname, '../../models/reference/target/config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    const layer = 4 * 320 * 320 + 3 * 864 * 320 + 2 * 320;
    const parameters = 2 * 4096 * 320 + 8 * layer + 320;
    expect(estimateGpuMemory(parseConfiguration(config, path), 'float32')).toEqual({
      weightBytes: 4 * parameters,
      bytesPerToken: 4 * 2 * 8 * 320,
    });
  });
});

describe('countFittingTokens', () => {
  const memory = { weightBytes: 1000, bytesPerToken: 10 };

  it('is what is left beside weights and passes', () => {
    expect(countFittingTokens(memory, passBytes + 1000 + 59)).toBe(5);
    expect(countFittingTokens(memory, passBytes + 1000)).toBe(0);
  });

  it('is negative where the weights do not fit', () => {
    expect(countFittingTokens(memory, passBytes + 999)).toBeLessThan(0);
  });
});
