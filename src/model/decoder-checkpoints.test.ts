/** What a checkpoint holds besides what a decoder reads, and models whose layers look back through a window. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { WritableTensor, WritableTensors } from '../../test/support/checkpoint/encode-values.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint } from '../../test/support/tiny-checkpoints.js';
import { randomTokens } from '../../test/support/tiny-pair.js';
import type { CausalModel } from './causal-model.js';
import { loadModel } from './causal-model.js';
import { parseConfiguration } from './configuration.js';
import { decoderRecipes, findUnreadTensors } from './weights.js';

const folder = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
afterAll(async () => {
  await runtime.dispose();
  folder.remove();
});

let count = 0;
function load(
  tensors: WritableTensors,
  config: Readonly<Record<string, unknown>>,
  file = 'model.safetensors',
): Promise<CausalModel> {
  const path = writeCheckpoint(join(folder.path, String((count += 1))), file, tensors, config);
  return loadModel(path, { runtime, cacheFolder: join(folder.path, 'cache') });
}

const sizes = { ...tiny, layerCount: 1 };
const config = llamaConfig(sizes);
const tensors = decoderTensors(sizes);
const ones = (...shape: number[]): WritableTensor => ({
  dtype: 'F32',
  shape,
  values: new Float32Array(shape.reduce((product, size) => product * size, 1)).fill(1),
});
const refusal = (message: RegExp): unknown =>
  expect.objectContaining({
    name: 'MistletoeError',
    code: 'checkpoint',
    message: expect.stringMatching(message) as string,
    hint: expect.stringMatching(/./) as string,
  });

describe('tensors that nothing reads', () => {
  it.each([
    ['a norm of another family', 'model.layers.0.self_attn.q_norm.weight', [4]],
    ['a bias that config.json does not announce', 'model.layers.0.self_attn.q_proj.bias', [16]],
    ['a bias of the MLP', 'model.layers.0.mlp.up_proj.bias', [24]],
    ['a layer beyond the last', 'model.layers.1.mlp.up_proj.weight', [24, 16]],
    ['a bias of the output', 'lm_head.bias', [24]],
    ['an adapter', 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight', [2, 16]],
  ])('%s is refused by name', async (_, name, shape) => {
    const message = new RegExp(`holds "${name}", which a Llama decoder of 1 layers does not read`);
    await expect(load({ ...tensors, [name]: ones(...shape) }, config)).rejects.toEqual(refusal(message));
  });

  it('are known where they are computed anew or belong to a drafter', async () => {
    const names = [
      'model.rotary_emb.inv_freq',
      'model.layers.0.self_attn.rotary_emb.inv_freq',
      'model.layers.0.self_attn.masked_bias',
      'medusa_head.0.0.linear.weight',
    ];
    const extra = Object.fromEntries(names.map((name) => [name, ones(2)]));
    await expect(load({ ...tensors, ...extra }, config)).resolves.toBeDefined();
    const configuration = parseConfiguration(config, 'config.json');
    const recipes = decoderRecipes(configuration, '');
    const found = findUnreadTensors([...Object.keys(tensors), ...names, 'x'], recipes, configuration);
    expect(found.unneeded.map(({ name }) => name)).toEqual(names);
    expect(found.unknown).toEqual(['x']);
  });
});

describe('an output tied to the embedding', () => {
  const tied = { ...config, tie_word_embeddings: true };
  const embedding = tensors['model.embed_tokens.weight']!;

  it.each(['model.safetensors', 'pytorch_model.bin'])('may be stored once more: %s', async (file) => {
    const twice = { ...tensors, 'lm_head.weight': embedding };
    await expect(load(twice, tied, file)).resolves.toBeDefined();
  });

  it.each([0, 23])('may not differ in row %d', async (row) => {
    const values = Float32Array.from(embedding.values as Float32Array);
    values[row * sizes.hiddenSize + 3]! += 0.5;
    const other = { ...tensors, 'lm_head.weight': { ...embedding, values } };
    const message = new RegExp(`lm_head\\.weight of its own that differs from it, first in row ${row}$`);
    await expect(load(other, tied)).rejects.toEqual(refusal(message));
  });

  it('may not have another shape', async () => {
    const other = { ...tensors, 'lm_head.weight': ones(30, 16) };
    await expect(load(other, tied)).rejects.toEqual(
      refusal(/has shape \[30, 16\], the embedding's is \[24, 16\]/),
    );
  });
});

describe('a sliding window', () => {
  const window = 5;
  const windowed = { ...config, architectures: ['MistralForCausalLM'], sliding_window: window };
  const tokens = randomTokens('window', 23, sizes.vocabularySize);
  const logitsOf = async (model: CausalModel, ids: readonly number[]): Promise<Float32Array> => {
    const { logits } = await model.forward({
      tokens: Int32Array.from(ids),
      cache: model.createCache(),
      want: ['logits'],
    });
    return logits!;
  };
  const expectClose = (found: Float32Array, wanted: Float32Array): void => {
    expect(found).toHaveLength(wanted.length);
    found.forEach((value, index) => {
      expect(value).toBeCloseTo(wanted[index]!, 4);
    });
  };

  it('of a single layer is the model without one on the last tokens', async () => {
    const model = await load(tensors, windowed);
    const plain = await load(tensors, config);
    expect(model.configuration).toMatchObject({ slidingWindow: window, contextLength: tiny.contextLength });
    const { vocabularySize } = sizes;
    const found = await logitsOf(model, tokens);
    for (const position of [0, 3, 4, 5, 12, 22]) {
      const visible = tokens.slice(Math.max(0, position - window + 1), position + 1);
      const wanted = (await logitsOf(plain, visible)).slice(-vocabularySize);
      expectClose(found.subarray(position * vocabularySize, (position + 1) * vocabularySize), wanted);
    }
    const whole = await logitsOf(plain, tokens);
    const distance = whole
      .slice(-vocabularySize)
      .map((value, id) => Math.abs(value - found.at(id - vocabularySize)!));
    expect(Math.max(...distance)).toBeGreaterThan(0.01); // the window shows
  });

  it.each([1, 4, 7])('is the same in chunks of %d', async (chunk) => {
    const deep = { ...tiny, layerCount: 3 };
    const model = await load(decoderTensors(deep), { ...windowed, num_hidden_layers: 3 });
    const cache = model.createCache();
    let last = new Float32Array();
    for (let start = 0; start < tokens.length; start += chunk) {
      const part = Int32Array.from(tokens.slice(start, start + chunk));
      const { rows, logits } = await model.forward({ tokens: part, cache, want: ['logits'] });
      cache.appendAll(rows, part.length);
      last = Float32Array.from(logits!.slice(-deep.vocabularySize));
    }
    expectClose(last, (await logitsOf(model, tokens)).slice(-deep.vocabularySize));
  });
});
