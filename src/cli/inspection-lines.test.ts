import { describe, expect, it } from 'vitest';
import { parseConfiguration } from '../model/configuration.js';
import { estimateGpuMemory, passBytes } from '../decode/gpu-fit.js';
import type { GpuHost } from '../runtime/device-choice.js';
import { describeFit, fitLines } from './inspect.js';

const model = parseConfiguration(
  {
    ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_size: 64, intermediate_size: 128 },
    ...{ num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 1000, rms_norm_eps: 1e-5 },
    max_position_embeddings: 10_000,
  },
  'config.json',
);
const { weightBytes, bytesPerToken } = estimateGpuMemory(model, 'bfloat16');

/** With room for weights, passes and so many tokens. */
const hostWith = (tokens: number): GpuHost => ({
  defaultDevice: () => 'auto',
  hasDriver: () => true,
  find: () =>
    Promise.resolve({
      devices: [{ ordinal: 0, name: 'Alpha', totalBytes: 80e9, computeCapability: [9, 0] as const }],
    }),
  freeBytes: () => Promise.resolve(passBytes + weightBytes + tokens * bytesPerToken),
});

describe('describeFit', () => {
  it('says that a model fits with all of its context', async () => {
    const fit = await describeFit(model, {}, hostWith(20_000));
    expect(fit).toMatchObject({
      device: { kind: 'cuda', dtype: 'bfloat16', name: 'Alpha' },
      memory: { weightBytes, cacheBytes: 10_000 * bytesPerToken, fittingTokens: 10_000 },
    });
    const [[label, value], [, there]] = fitLines(fit, model) as [[string, string], [string, string]];
    expect(label).toBe('would run on');
    expect(value).toMatch(/^Alpha \(cuda:0\) in bfloat16, .* free: fits$/);
    expect(there).toMatch(/of weights, 5\.12 MB of KV cache for the whole context/);
  });

  it('says how much of the context has room', async () => {
    const fit = await describeFit(model, {}, hostWith(5_000));
    expect(fit.memory?.fittingTokens).toBe(5_000);
    expect(fitLines(fit, model)[0]?.[1]).toMatch(/free: fits with a context of up to 5,000 tokens$/);
  });

  it('would take the CPU where there is no room, unless the GPU was asked for', async () => {
    const onCpu = await describeFit(model, {}, hostWith(4_095));
    expect(onCpu.device).toEqual({ kind: 'cpu', dtype: 'float32' });
    expect(fitLines(onCpu, model)).toEqual([
      ['would run on', expect.stringMatching(/^Runs on the CPU: Alpha has .* free, and the model needs/)],
    ]);
    const asked = await describeFit(model, { device: 'cuda' }, hostWith(-1));
    expect(asked.memory?.fittingTokens).toBe(0);
    expect(fitLines(asked, model)[0]?.[1]).toMatch(/free: does not fit$/);
  });

  it('names the CPU alone where there is nothing else', async () => {
    const fit = await describeFit(model, { device: 'cpu' }, hostWith(0));
    expect(fit).toEqual({ device: { kind: 'cpu', dtype: 'float32' } });
    expect(fitLines(fit, model)).toEqual([['would run on', 'the CPU in float32']]);
  });
});
