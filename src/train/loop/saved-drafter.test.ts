import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { tiny, writeDecoder, writeLetterTokenizer } from '../../../test/support/tiny-checkpoints.js';
import { drafterVariants } from '../../../test/support/tiny-drafters.js';
import { TinyModels } from '../../../test/support/tiny-pair.js';
import { openCheckpoint } from '../../checkpoint/open-checkpoint.js';
import { readFloat32 } from '../../checkpoint/read-tensor.js';
import { saveDrafter } from './train-drafter.js';
import type { Values } from '../../../test/support/train/saved-tensors.js';
import { parametersOf, tensorsOf, weightsOf } from '../../../test/support/train/saved-tensors.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

it('says what the taps of an EAGLE-3 head are where the file that it came from does not', async () => {
  const variant = drafterVariants.find(({ name }) => name === 'EAGLE-3 with taps named by outputs')!;
  const [from, to] = [variant.write(models.freshFolder(), tiny), models.freshFolder()];
  const file = join(from, 'config.json');
  const config = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  writeFileSync(file, JSON.stringify({ ...config, architectures: ['LlamaForCausalLM'] }));
  await saveDrafter({ from, to, values: new Map(), taps: 'outputs' });
  expect((await models.load(to)).drafter.taps).toEqual([2, 3]);
});

describe('saveDrafter', () => {
  const eagle3 = drafterVariants.find(({ name }) => name === 'EAGLE-3 with d2t')!;

  it.each([
    ['pytorch_model.bin', 'EAGLE-3 with d2t', ['config.json', 'model.safetensors']],
    ['medusa_lm_head.pt', 'Medusa, torch file', ['config.json', 'medusa_lm_head.safetensors']],
    ['hydra_lm_head.pt', 'Hydra, one layer', ['config.json', 'hydra_lm_head.safetensors']],
    ['an index of shards', "Medusa-2 in the target's shards", ['config.json', 'model.safetensors']],
  ])('names files as authors do: what was %s', async (_, name, files) => {
    const from = drafterVariants.find((each) => each.name === name)!.write(models.freshFolder(), tiny);
    const to = models.freshFolder();
    await saveDrafter({ from, to, values: new Map() });
    expect(readdirSync(to).sort()).toEqual(files);
  });

  it('writes into the folder that it reads, and takes its tokenizer along', async () => {
    const folder = writeDecoder(models.freshFolder(), tiny, 7);
    writeLetterTokenizer(folder, tiny);
    const before = readFileSync(join(folder, 'tokenizer.json'), 'utf8');
    const values = await weightsOf(folder);
    values.set(
      'draft.norm.weight',
      values.get('draft.norm.weight')!.map((value) => value / 2),
    );
    await saveDrafter({ from: folder, to: folder, values });
    expect(readFileSync(join(folder, 'tokenizer.json'), 'utf8')).toBe(before);
    expect(await weightsOf(folder)).toEqual(values);
  });

  it('drops the second copy of an embedding that is tied, once it was trained', async () => {
    const folder = writeDecoder(models.freshFolder(), tiny, 7);
    const { tensors } = await openCheckpoint(folder);
    const table = tensors.get('model.embed_tokens.weight')!;
    const tied = models.freshFolder();
    await saveDrafter({
      ...{ from: folder, to: tied },
      // lm_head.weight is stored [vocabulary, hidden], and read turned.
      values: new Map([['draft.lm_head.weight', transpose(await readFloat32(table), tiny.hiddenSize)]]),
    });
    const config = JSON.parse(readFileSync(join(tied, 'config.json'), 'utf8')) as object;
    writeFileSync(join(tied, 'config.json'), JSON.stringify({ ...config, tie_word_embeddings: true }));
    expect((await openCheckpoint(tied)).tensors.has('lm_head.weight')).toBe(true);
    await models.load(tied);
    const values = await weightsOf(tied);
    values.set(
      'draft.embed_tokens.weight',
      values.get('draft.embed_tokens.weight')!.map((value) => 2 * value),
    );
    const to = models.freshFolder();
    await saveDrafter({ from: tied, to, values });
    expect((await openCheckpoint(to)).tensors.has('lm_head.weight')).toBe(false);
    await models.load(to);
  });

  it.each<[string, (values: Values) => void, RegExp]>([
    [
      'a weight it does not have',
      (values) => values.set('eagle3.fc.scale', new Float32Array(1)),
      /no weight "eagle3.fc.scale"/,
    ],
    [
      'weights of another system',
      (values) => values.set('medusa.0.0.weight', new Float32Array(1)),
      /"medusa.0.0.weight"/,
    ],
    [
      'a weight of another size',
      (values) => values.set('eagle3.norm.weight', new Float32Array(3)),
      /\[16\], but 3 values/,
    ],
    ['a NaN', (values) => values.get('eagle3.norm.weight')!.fill(NaN), /"norm.weight" holds NaN/],
  ])('refuses %s, and the old drafter stays', async (_, spoil, message) => {
    const from = eagle3.write(models.freshFolder(), tiny);
    const values = await parametersOf(await models.load(from));
    const to = models.freshFolder();
    await saveDrafter({ from, to, values });
    const before = await tensorsOf(to, 'stored');
    spoil(values);
    await expect(saveDrafter({ from, to, values })).rejects.toThrow(message);
    expect(await tensorsOf(to, 'stored')).toEqual(before);
  });

  it('refuses folders that are no drafter', async () => {
    const from = eagle3.write(models.freshFolder(), tiny);
    const file = join(from, 'file');
    writeFileSync(file, '');
    await expect(saveDrafter({ from, to: file, values: new Map() })).rejects.toThrow(/is a file/);
    await expect(saveDrafter({ from, to: from, values: new Map() })).rejects.toThrow(/holds "file"/);
    await expect(saveDrafter({ from: file, to: from, values: new Map() })).rejects.toThrow(/is a file/);
  });
});

function transpose(values: Float32Array, columns: number): Float32Array {
  const rows = values.length / columns;
  return values.map((_, index) => values[(index % rows) * columns + Math.floor(index / rows)]!);
}
