/** Numbers in a stranger's file are checked against the tensors that exist before anything is built by them. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { asSizes } from '../../src/checkpoint/torch/pickle-value.js';
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { inspectCheckpoint } from '../../src/draft/inspection.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint } from '../support/tiny-checkpoints.js';
import { writeFiles } from '../fuzz/corpus/case.js';
import { manyExperts } from '../fuzz/corpus/bombs.js';
import { hydraTensors } from '../support/tiny-drafters.js';
import { TinyModels } from '../support/tiny-pair.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
const models = new TinyModels(tiny);
afterAll(async () => {
  await runtime.dispose();
  await models.dispose();
  temporary.remove();
});

let count = 0;
function write(
  tensors: WritableTensors,
  config: Record<string, unknown>,
  file = 'model.safetensors',
): string {
  return writeCheckpoint(join(temporary.path, String((count += 1))), file, tensors, config);
}

const problemsOf = async (folder: string): Promise<string[]> =>
  (await inspectCheckpoint(folder)).problems.map(({ problem }) => problem);

describe('a decoder', () => {
  it.each([5, 1000, 1e9])('that claims %d layers has as many as its tensors', async (layers) => {
    const folder = write(decoderTensors(tiny), { ...llamaConfig(tiny), num_hidden_layers: layers });
    const sentence = `${folder} has tensors of 4; its config.json names ${layers} layers`;
    expect((await problemsOf(folder))[0]).toContain(sentence);
    const options = { runtime, cacheFolder: join(temporary.path, 'cache') };
    await expect(loadModel(folder, options)).rejects.toThrow(sentence);
  });

  it.each([1, 1000])('that claims 4096 experts in %d layers has as many as its tensors', async (layers) => {
    const { config, tensors } = manyExperts(layers);
    const folder = writeFiles(join(temporary.path, String((count += 1))), {
      'config.json': config,
      'model.safetensors': tensors,
    });
    const sentence = `${folder} has ${layers} tensors; its config.json names 4096 experts in ${layers} layers`;
    expect(await problemsOf(folder)).toEqual([expect.stringContaining(sentence)]);
    const options = { runtime, cacheFolder: join(temporary.path, 'cache') };
    await expect(loadModel(folder, options)).rejects.toThrow(sentence);
  });

  it('that claims as many layers with a window is not believed either', async () => {
    const windows = { architectures: ['MistralForCausalLM'], sliding_window: 8, num_hidden_layers: 1e9 };
    const folder = write(decoderTensors(tiny), { ...llamaConfig(tiny), ...windows });
    expect((await problemsOf(folder))[0]).toContain(
      'has tensors of 4; its config.json names 1000000000 layers',
    );
  });

  it('with tensors of other names is told so once, not for each of them', async () => {
    const renamed = Object.entries(decoderTensors(tiny)).map(
      ([name, tensor]) => [name.replace('model.layers', 'transformer.h'), tensor] as const,
    );
    const folder = write(
      { ...Object.fromEntries(renamed), 'model.embed_tokens.weight': renamed[0]![1] },
      llamaConfig(tiny),
    );
    const problems = await problemsOf(folder);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain('has no tensor model.layers.<n>.*');
  });

  it('whose layers all lack a part is helped with the names that a reader sees', async () => {
    const sizes = { ...tiny, layerCount: 20 };
    const renamed = Object.entries(decoderTensors(sizes)).map(
      ([name, tensor]) => [name.replace('up_proj', 'up_projection'), tensor] as const,
    );
    const folder = write(Object.fromEntries(renamed), llamaConfig(sizes));
    const missing = (await problemsOf(folder)).filter((problem) => problem.includes('has no tensor'));
    expect(missing).toHaveLength(20);
    const helped = missing.map((problem) => problem.includes('near names'));
    expect(helped).toEqual(Array.from({ length: 20 }, (_, index) => index < 12));
  });
});

describe('a drafter', () => {
  it('whose only head is number 999999999', async () => {
    const weight = { dtype: 'F32', shape: [16, 16], values: new Float32Array(256) } as const;
    const folder = write({ '999999999.0.linear.weight': weight }, {}, 'medusa_lm_head.safetensors');
    expect((await problemsOf(folder)).join()).toContain('has no tensor "0.0.linear.weight"');
    await expect(models.load(folder)).rejects.toThrow('holds no Medusa head that is known here');
  });

  it.each(['hydra_num_layers', 'hydra_num_heads'])('of Hydra whose %s is a thousand million', async (key) => {
    const config = { hydra_num_heads: 4, hydra_num_layers: 1, hydra_head_arch: 'mlp', [key]: 1e9 };
    const folder = write(hydraTensors(tiny, 1, false), config, 'hydra_lm_head.pt');
    await expect(models.load(folder)).rejects.toThrow('lacks the tensor hydra_mlp.');
  });
});

describe('a pickle', () => {
  it('has no tensor of more than 16 dimensions, however often it quotes the same shape', () => {
    const shape = (rank: number) => asSizes({ kind: 'tuple', items: new Array<number>(rank).fill(1) });
    expect(shape(16)).toHaveLength(16);
    expect(shape(17)).toBeUndefined();
  });
});
