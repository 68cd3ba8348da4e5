/** Published targets as GGUF files: the same configuration and the same tensors as from their folders. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import { createDirectWeights } from '../../src/checkpoint/direct-weights.js';
import { readFloat32, readHalfRows, readRows } from '../../src/checkpoint/read-tensor.js';
import type { Checkpoint } from '../../src/checkpoint/stored-tensor.js';
import { storedSource } from '../../src/checkpoint/tensor-source.js';
import { resolveRecipes } from '../../src/checkpoint/weight-recipe.js';
import type { ModelConfiguration } from '../../src/model/configuration.js';
import { parseConfiguration } from '../../src/model/configuration.js';
import { scaleFrequencies } from '../../src/model/rotary/rotary.js';
import { decoderRecipes } from '../../src/model/weights.js';
import type { GgufMetadata } from '../support/checkpoint/encode-gguf.js';
import { encodeGguf } from '../support/checkpoint/encode-gguf.js';
import { roundToHalf } from '../support/checkpoint/encode-values.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import type { WriteGgufOptions } from '../support/checkpoint/write-gguf.js';
import { float32, text, uint32, writeGguf } from '../support/checkpoint/write-gguf.js';
import { writePublished } from './published-layouts.js';
import type { PublishedTarget } from './published-targets.js';
import { publishedTargets } from './published-targets.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;

async function openBoth(
  { folder }: PublishedTarget,
  options: WriteGgufOptions = {},
): Promise<{ readonly original: Checkpoint; readonly gguf: Checkpoint }> {
  const place = join(temporary.path, String((count += 1)));
  const original = await openCheckpoint(writePublished(place, folder));
  await writeGguf(original, `${place}.gguf`, options);
  return { original, gguf: await openCheckpoint(`${place}.gguf`) };
}

function describeModel({
  config,
}: Checkpoint): Partial<ModelConfiguration> & { readonly frequencies: number[] } {
  const configuration = parseConfiguration(config, 'config.json');
  const { family, headSize, rotaryBase, rotaryScaling } = configuration;
  return {
    ...configuration,
    family: family === 'mistral' ? 'llama' : family,
    normEpsilon: Math.fround(configuration.normEpsilon),
    frequencies: [...scaleFrequencies(headSize, rotaryBase, rotaryScaling)].map((value) =>
      Number(value.toPrecision(5)),
    ),
    rotaryScaling: { kind: 'none' }, // the frequencies are compared
    eosIds: configuration.eosIds.slice(0, 1),
    ...{ rotaryOrigin: '', contextOrigin: '', notes: [] },
  };
}

async function readAll({ tensors, config }: Checkpoint): Promise<Map<string, readonly number[]>> {
  const recipes = decoderRecipes(parseConfiguration(config, 'config.json'), '');
  const names = recipes.flatMap(({ parts }) => parts.map(({ tensor }) => tensor));
  const values = new Map<string, readonly number[]>();
  for (const name of names) values.set(name, [...(await readFloat32(tensors.get(name)!))]);
  return values;
}

/** One of each kind, without sliding windows: llama.cpp has none in this architecture. */
const targets = publishedTargets.filter(({ name }) =>
  /7b-v1\.3|16k|Llama-3|Mistral.*v0\.2|Qwen2\.5-0\.5B|Qwen3-8B/.test(name),
);
const llama = targets.find(({ name }) => name.includes('Meta-Llama-3-8B'))!;
const qwen3 = targets.find(({ family }) => family === 'qwen3')!;
const query = 'model.layers.1.self_attn.q_proj.weight';
const key = 'model.layers.1.self_attn.k_proj.weight';

describe('a GGUF file has the configuration and the tensors of its folder:', () => {
  it.each(targets.map((target) => [target.name, target] as const))('%s', async (_, target) => {
    const { original, gguf } = await openBoth(target);
    expect(describeModel(gguf)).toEqual(describeModel(original));
    expect(await readAll(gguf)).toEqual(await readAll(original));
  });

  it('not if queries and keys are in another order than the converter writes', async () => {
    const wrong = await openBoth(llama, { interleaves: false });
    expect((await readAll(wrong.gguf)).get(query)).not.toEqual((await readAll(wrong.original)).get(query));
    const alsoWrong = await openBoth(qwen3, { interleaves: true });
    expect((await readAll(alsoWrong.gguf)).get(key)).not.toEqual(
      (await readAll(alsoWrong.original)).get(key),
    );
  });

  it('with the published parameters of Llama 3 where the rotary divisors are theirs', async () => {
    const scaling = { rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 };
    const config = {
      ...llama.folder.config,
      ...{ max_position_embeddings: 131_072 },
      rope_scaling: { ...scaling, original_max_position_embeddings: 8192 },
    };
    const { gguf } = await openBoth({ ...llama, folder: { ...llama.folder, config } });
    expect(gguf.config.rope_scaling).toEqual(config.rope_scaling);
  });

  it('with yarn', async () => {
    const rope_scaling = { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 64 };
    const config = { ...llama.folder.config, max_position_embeddings: 256, rope_scaling };
    const { original, gguf } = await openBoth({ ...llama, folder: { ...llama.folder, config } });
    expect(describeModel(gguf)).toEqual(describeModel(original));
    expect(gguf.config.rope_scaling).toEqual(rope_scaling);
  });
});

describe('every way of reading restores the order of queries and keys:', () => {
  it('in blocks of rows, as float32 and as 16 bits', async () => {
    const { original, gguf } = await openBoth(llama, { type: 'F16' });
    const tensor = gguf.tensors.get(query)!;
    const expected = [...(await readFloat32(original.tensors.get(query)!))].map(roundToHalf);
    const [floats, bits]: [number[], number[]] = [[], []];
    for await (const { values } of readRows(tensor)) floats.push(...values);
    for await (const { values } of readHalfRows(tensor)) bits.push(...values);
    expect(tensor.dtype).toBe('F16');
    expect(floats.map(roundToHalf)).toEqual(expected);
    expect(bits).toEqual(expected);
  });

  it('in pieces for a device, and as the source of another file', async () => {
    for (const type of ['F32', 'Q8_0'] as const) {
      const { gguf } = await openBoth(llama, { type });
      const expected = await readAll(gguf);
      const recipes = decoderRecipes(parseConfiguration(gguf.config, 'config.json'), '');
      const { tensors } = await createDirectWeights(resolveRecipes(gguf, recipes), 300);
      for (const [index, part] of tensors.get('layers.1.self_attn.k_proj.weight')!.parts.entries()) {
        expect(index).toBe(0);
        expect(await joined(part.read())).toEqual(expected.get(key));
      }
      const source = storedSource(gguf.tensors.get(key)!);
      expect([source.dtype, await joined(source.read())]).toEqual(['F32', expected.get(key)]);
    }
  });
});

async function joined(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<number[]> {
  const bytes: Buffer[] = [];
  for await (const piece of pieces) bytes.push(Buffer.from(piece));
  const all = new Uint8Array(Buffer.concat(bytes));
  return [...new Float32Array(all.buffer)];
}

describe('a GGUF file is refused by name:', () => {
  const number = Buffer.alloc(4);
  const tensor = (name: string) => ({ name, type: 'F32', shape: [1], data: number }) as const;
  const settings: GgufMetadata = {
    'general.architecture': text('llama'),
    'llama.context_length': uint32(64),
    'llama.embedding_length': uint32(8),
    'llama.block_count': uint32(1),
    'llama.feed_forward_length': uint32(8),
    'llama.attention.head_count': uint32(2),
    'llama.attention.layer_norm_rms_epsilon': float32(1e-5),
  };
  const embedding = tensor('token_embd.weight');
  const withSetting = (name: string, value: GgufMetadata[string]): GgufMetadata => ({
    ...settings,
    [name]: value,
  });
  const withoutLayers = Object.fromEntries(
    Object.entries(settings).filter(([name]) => name !== 'llama.block_count'),
  );

  it.each<[string, GgufMetadata, readonly ReturnType<typeof tensor>[], RegExp]>([
    [
      'Gemma',
      { 'general.architecture': text('gemma2') },
      [embedding],
      /architecture "gemma2", which is not supp/,
    ],
    [
      'Qwen3-MoE',
      { 'general.architecture': text('qwen3moe') },
      [embedding],
      /architecture "qwen3moe", which is not supp/,
    ],
    ['no architecture', {}, [embedding], /no general.architecture/],
    ['a missing setting', withoutLayers, [embedding], /no llama.block_count/],
    [
      'experts',
      withSetting('llama.expert_count', uint32(8)),
      [embedding],
      /llama.expert_count = 8 \(expected 0\), which/,
    ],
    ['an unknown setting', withSetting('llama.logit_scale', float32(2)), [embedding], /"llama.logit_scale"/],
    [
      'part of the rotary',
      withSetting('llama.rope.dimension_count', uint32(2)),
      [embedding],
      /dimension_count = 2/,
    ],
    ['longrope', withSetting('llama.rope.scaling.type', text('longrope')), [embedding], /"longrope"/],
    ['one of several parts', withSetting('split.count', uint32(3)), [embedding], /one of 3 parts/],
    [
      'a router',
      settings,
      [tensor('blk.0.ffn_gate_inp.weight')],
      /"blk.0.ffn_gate_inp.weight", which a llama/,
    ],
    ['an adapter', settings, [tensor('blk.0.attn_q.weight.lora_a')], /"blk.0.attn_q.weight.lora_a"/],
    ['heads that do not fit', settings, [tensor('blk.0.attn_q.weight')], /which 2 heads cannot share/],
    ['other rotary divisors', settings, [embedding, tensor('rope_freqs.weight')], /rope_freqs.weight.*\[1\]/],
    ['no tensors', settings, [], /has no tensors/],
  ])('%s', async (_, metadata, tensors, message) => {
    const path = join(temporary.path, 'refused.gguf');
    writeFileSync(path, encodeGguf(metadata, tensors));
    await expect(openCheckpoint(path)).rejects.toThrow(message);
  });

  it('not for 200,000 rotary divisors, which are only a list', async () => {
    const path = join(temporary.path, 'divisors.gguf');
    const divisors = new Float32Array(200_000).fill(2);
    const many = { name: 'rope_freqs.weight', type: 'F32', shape: [200_000] } as const;
    const metadata = withSetting('llama.attention.key_length', uint32(400_000));
    const tensors = [embedding, { ...many, data: new Uint8Array(divisors.buffer) }];
    writeFileSync(path, encodeGguf(metadata, tensors));
    const { rope_scaling: scaling } = (await openCheckpoint(path)).config;
    expect(scaling).toMatchObject({ rope_type: 'longrope', short_factor: { length: 200_000 } });
  });
});
