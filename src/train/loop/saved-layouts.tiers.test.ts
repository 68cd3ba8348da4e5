/** Drafters of every layout are saved as they were loaded. */
import { afterAll, describe, expect, it } from 'vitest';
import { publishedDrafters } from '../../../test/published/published-drafters.js';
import { writePublished } from '../../../test/published/published-layouts.js';
import { casesOfTier } from '../../../test/support/tier.js';
import { tiny } from '../../../test/support/tiny-checkpoints.js';
import { drafterVariants, oneOfEachSystem } from '../../../test/support/tiny-drafters.js';
import type { TinyPair } from '../../../test/support/tiny-pair.js';
import { randomTokens, resolveText, TinyModels } from '../../../test/support/tiny-pair.js';
import { openCheckpoint } from '../../checkpoint/open-checkpoint.js';
import { bundledDrafterFolder, bundledDrafters } from '../../core/package-files.js';
import { always } from '../../decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../decode/generate.js';
import { inspectCheckpoint } from '../../draft/inspection.js';
import { recogniseCheckpoint } from '../../draft/systems.js';
import { saveDrafter } from './train-drafter.js';
import { parametersOf, tensorsOf } from '../../../test/support/train/saved-tensors.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

async function drafts({ target, drafter, tokenizer }: TinyPair) {
  const { tokenIds, acceptance } = await decodeSpeculative(target, drafter, {
    ...{ promptIds: randomTokens('saved', 9, tiny.vocabularySize), maxNewTokens: 24, stopIds: [] },
    ...{ tokenizer, sampling: { temperature: 0 }, seed: 0 },
    policy: always(resolveText('dynamic:12,2,3', drafter)),
  });
  return { tokenIds, acceptance };
}

describe.each(casesOfTier(drafterVariants, (variant) => oneOfEachSystem.includes(variant)))(
  '$name',
  (variant) => {
    it('is saved as it was loaded, and drafts the same', async () => {
      const [from, to] = [variant.write(models.freshFolder(), tiny), models.freshFolder()];
      const pair = await models.load(from);
      await saveDrafter({ from, to, values: await parametersOf(pair) });
      expect(await tensorsOf(to, 'float32')).toEqual(await tensorsOf(from, 'float32'));
      const { problems, layout } = await inspectCheckpoint(to);
      expect(problems).toEqual([]);
      expect(layout).toBe(variant.layout);
      expect((await openCheckpoint(to)).config).toEqual((await openCheckpoint(from)).config);
      expect(await drafts(await models.load(to))).toEqual(await drafts(pair));
    });

    it('holds what was trained, and everything else as it was', async () => {
      const [from, to] = [variant.write(models.freshFolder(), tiny), models.freshFolder()];
      const values = await parametersOf(await models.load(from));
      const [name, some] = [...values].find(([key]) => /lm_head|fc|input_proj/.test(key))!;
      const changed = some.map((value, index) => value + index);
      await saveDrafter({ from, to, values: new Map([[name, changed]]) });
      const after = await parametersOf(await models.load(to));
      expect(after).toEqual(new Map(values).set(name, changed));
    });
  },
);

const stored = [
  ...publishedDrafters.map(({ name, folder }) => ({
    name,
    write: () => writePublished(models.freshFolder(), folder),
  })),
  ...bundledDrafters.map((name) => ({ name: `bundled ${name}`, write: () => bundledDrafterFolder(name) })),
];
const quickDrafters = ['yuhuili/EAGLE3-LLaMA3.1-Instruct-8B', 'bundled sps'];

describe.each(casesOfTier(stored, ({ name }) => quickDrafters.includes(name)))('$name', ({ write }) => {
  it('is saved as float32', async () => {
    const [from, wide] = [write(), models.freshFolder()];
    await saveDrafter({ from, to: wide, values: new Map() });
    expect(await tensorsOf(wide, 'float32')).toEqual(await tensorsOf(from, 'float32'));
    const { config, tensors } = await openCheckpoint(wide);
    const read = recogniseCheckpoint({ tensors }).system!.describe(await openCheckpoint(wide));
    const types = read.recipes.flatMap(({ parts }) => parts.map(({ tensor }) => tensors.get(tensor)!.dtype));
    expect(new Set(types)).toEqual(new Set(['F32']));
    expect([config.dtype ?? 'float32', config.torch_dtype ?? 'float32']).toEqual(['float32', 'float32']);
  });
});
