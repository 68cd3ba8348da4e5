import { createRandom } from '../core/random.js';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  decoderTensors,
  llamaConfig,
  tiny,
  writeCheckpoint,
  writeDecoder,
  writeLetterTokenizer,
} from '../../test/support/tiny-checkpoints.js';
import { randomTokens } from '../../test/support/tiny-pair.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { readFloat32 } from '../checkpoint/read-tensor.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { bundledTarget } from '../core/package-files.js';
import { inspectCheckpoint } from '../draft/inspection.js';
import { loadDrafter } from '../draft/systems.js';
import type { CausalModel } from '../model/causal-model.js';
import { loadModel } from '../model/causal-model.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import type { NewDrafter } from '../draft/fresh/new-drafter.js';
import { createDrafterFolder } from '../draft/fresh/new-drafter.js';
import { contentsOf } from '../../test/support/train/saved-tensors.js';
import { createTrainRequest } from './train-request.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});

let count = 0;
const freshFolder = (): string => join(temporary.path, String((count += 1)));
const cacheFolder = join(temporary.path, 'cache');
const tinyTarget = writeDecoder(join(temporary.path, 'target'));
writeLetterTokenizer(tinyTarget, tiny);

const draftTokens = Int32Array.of(0, 3, 4, 9, 17, 23);
async function create(target: string, drafter: NewDrafter, seed = 1): Promise<string> {
  const folder = freshFolder();
  await createDrafterFolder({ target, drafter, folder, seed });
  return folder;
}

function openModel(folder: string): Promise<CausalModel> {
  return loadModel(folder, { runtime, cacheFolder });
}

describe('what drafters begin with', () => {
  it('heads of Medusa propose what the target does, each of them', async () => {
    const target = await openModel(tinyTarget);
    const folder = await create(tinyTarget, { system: 'medusa', heads: 3 });
    const drafter = await loadDrafter(folder, { target, cacheFolder });
    const tokens = Int32Array.from(randomTokens('medusa', 9, tiny.vocabularySize));
    const cache = target.createCache();
    const { argmax, features } = await target.forward({ tokens, cache, want: ['argmax', 'features'] });
    const session = drafter.startSession();
    const next = argmax!.at(-1)!;
    session.observe({ tokens, states: features, next });
    const { tokens: drafted } = await session.propose({
      ...{ root: next, policy: { kind: 'chain', length: 3 }, sampling: { temperature: 0 } },
      ...{ random: createRandom(0), depthLimit: 3 },
    });
    expect([...drafted]).toEqual([next, next, next, next]);
    session.close();
  });

  it('outputs are the rows of the target, blocks that add begin at 0, norms at 1', async () => {
    const output = await readFloat32((await openCheckpoint(tinyTarget)).tensors.get('lm_head.weight')!);
    const { hiddenSize } = tiny;
    const eagle3 = await contentsOf(await create(tinyTarget, { system: 'eagle3', draftTokens }));
    for (const [draft, token] of draftTokens.entries()) {
      const row = (values: Float32Array | Int32Array, at: number) =>
        values.slice(at * hiddenSize, (at + 1) * hiddenSize);
      expect(row(eagle3.get('lm_head.weight')!, draft)).toEqual(row(output, token));
      expect(draft + eagle3.get('d2t')![draft]!).toBe(token);
    }
    expect([...eagle3.get('t2d')!.keys()].filter((token) => eagle3.get('t2d')![token] === 1)).toEqual([
      ...draftTokens,
    ]);
    expect(new Set(eagle3.get('midlayer.hidden_norm.weight'))).toEqual(new Set([1]));
    const hydra = await contentsOf(await create(tinyTarget, { system: 'hydra', layers: 2 }));
    expect(hydra.get('hydra_lm_head.3.weight')).toEqual(output);
    for (const name of ['hydra_lm_head.3.bias', 'hydra_mlp.1.0.linear.weight', 'hydra_mlp.1.1.linear.weight'])
      expect(new Set(hydra.get(name))).toEqual(new Set([0]));
  });

  it.each(['pard', 'p-eagle', 'dflash', 'dspark'])('masks of %s have an embedding', async (system) => {
    const { hiddenSize, vocabularySize } = tiny;
    const tensors = decoderTensors(tiny);
    const { 'model.embed_tokens.weight': embedding } = tensors;
    const values = Float32Array.from(embedding!.values as Float32Array).fill(0, -2 * hiddenSize);
    const target = writeCheckpoint(
      freshFolder(),
      'model.safetensors',
      { ...tensors, 'model.embed_tokens.weight': { ...embedding!, values } },
      { ...llamaConfig(tiny), pad_token_id: 0 },
    );
    const { drafter } = await inspectCheckpoint(await create(target, { system }));
    expect(drafter!.maskToken).toBe(vocabularySize - 3);
  });

  it.each(['medusa', 'hydra', 'dflash', 'dspark'])('all levels of %s are trained', async (system) => {
    const { drafter } = await inspectCheckpoint(await create(tinyTarget, { system }));
    const data = join(temporary.path, 'data.jsonl');
    writeFileSync(data, JSON.stringify({ prompt: 'a', answer: 'b' }));
    const { settings } = await createTrainRequest({ target: tinyTarget, system, data, cacheFolder });
    expect(settings.depth).toBe(drafter!.heads);
  });

  it('a draft model can begin with layers of its target, from the first to the last', async () => {
    const whole = await contentsOf(tinyTarget);
    const kept = await contentsOf(
      await create(tinyTarget, { system: 'speculative-sampling', targetLayers: 3 }),
    );
    const layersOf = (contents: typeof whole): string[] => [
      ...new Set([...contents.keys()].flatMap((name) => /layers\.\d+/.exec(name) ?? [])),
    ];
    expect(layersOf(whole)).toHaveLength(4);
    expect(layersOf(kept)).toHaveLength(3);
    for (const [place, layer] of [0, 2, 3].entries())
      for (const [name, values] of kept)
        if (name.startsWith(`model.layers.${place}.`))
          expect(values).toEqual(whole.get(name.replace(`layers.${place}.`, `layers.${layer}.`)));
    for (const name of ['model.embed_tokens.weight', 'model.norm.weight', 'lm_head.weight'])
      expect(kept.get(name)).toEqual(whole.get(name));
    const asked = create(tinyTarget, { system: 'speculative-sampling', targetLayers: 4 });
    await expect(asked).rejects.toThrow(/of 4 of the target's layers was asked for; the target has 4/);
  });

  it('a draft model knows which tokens are alike in its target', async () => {
    const { tensors } = await openCheckpoint(bundledTarget);
    const fold = async (hiddenSize: number) =>
      contentsOf(await create(bundledTarget, { system: 'speculative-sampling', hiddenSize }));
    const [narrow, same] = [await fold(128), await fold(320)];
    for (const name of ['model.embed_tokens.weight', 'lm_head.weight']) {
      const theirs = compareRows(await readFloat32(tensors.get(name)!), 320);
      const kept = compareRows(same.get(name) as Float32Array, 320);
      kept.forEach((value, pair) => {
        expect(value).toBeCloseTo(theirs[pair]!, 4);
      });
      // On average: the slope of the folded products against the target's.
      const folded = compareRows(narrow.get(name) as Float32Array, 128);
      expect(sumProducts(folded, theirs) / sumProducts(theirs, theirs)).toBeCloseTo(1, 1);
    }
  });

  it('random weights have the deviation that the target says, or the usual one', async () => {
    const deviationOf = async (target: string): Promise<number> => {
      const contents = await contentsOf(await create(target, { system: 'eagle3' }));
      const values = contents.get('fc.weight') as Float32Array;
      return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
    };
    expect(await deviationOf(tinyTarget)).toBeCloseTo(0.02, 2);
    const wide = writeDecoder(freshFolder());
    const config = JSON.parse(readFileSync(join(wide, 'config.json'), 'utf8')) as object;
    writeFileSync(join(wide, 'config.json'), JSON.stringify({ ...config, initializer_range: 0.3 }));
    expect(await deviationOf(wide)).toBeGreaterThan(0.25);
  });

  it('a draft model is to the bundled target what the bundled one is', async () => {
    const folder = await create(bundledTarget, { system: 'speculative-sampling' });
    const created = (await openCheckpoint(folder)).config;
    const bundled = (await openCheckpoint(join(bundledTarget, '..', 'sps'))).config;
    for (const key of [
      'hidden_size',
      'intermediate_size',
      'num_hidden_layers',
      'num_attention_heads',
      'head_dim',
    ])
      expect([key, created[key]]).toEqual([key, bundled[key]]);
    expect(readdirSync(folder)).toContain('tokenizer.json');
  });
});

describe('createDrafterFolder refuses', () => {
  it.each<[string, NewDrafter, RegExp]>([
    ['no heads', { system: 'medusa', heads: 0 }, /cannot have 0 for heads/],
    ['half a layer', { system: 'hydra', layers: 1.5 }, /cannot have 1.5 for layers/],
    ['a size of another system', { system: 'eagle', heads: 2 }, /has no size "heads": it takes no sizes/],
  ])('%s, and leaves nothing', async (_, drafter, message) => {
    const before = readdirSync(temporary.path).length;
    await expect(create(tinyTarget, drafter)).rejects.toThrow(message);
    expect(readdirSync(temporary.path)).toHaveLength(before);
  });

  it('a target that is too shallow to be tapped, and a folder that holds other things', async () => {
    const shallow = writeDecoder(freshFolder(), { ...tiny, layerCount: 2 });
    await expect(create(shallow, { system: 'eagle3' })).rejects.toThrow(
      /has 2 layers; .* at least 3 were expected/,
    );
    const folder = freshFolder();
    mkdirSync(folder);
    writeFileSync(join(folder, 'notes.txt'), '');
    const request = { target: tinyTarget, drafter: { system: 'eagle' }, folder, seed: 1 } as const;
    await expect(createDrafterFolder(request)).rejects.toThrow(/holds "notes.txt"/);
  });
});

/** Inner products of neighbouring tokens and of tokens with themselves. */
function compareRows(values: Float32Array, width: number): number[] {
  const row = (at: number): Float32Array => values.subarray(at * width, (at + 1) * width);
  return Array.from({ length: 2000 }, (_, at) => [
    sumProducts(row(at), row(at)),
    sumProducts(row(at), row(at + 1)),
  ]).flat();
}

function sumProducts(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let sum = 0;
  for (let index = 0; index < left.length; index++) sum += left[index]! * right[index]!;
  return sum;
}
