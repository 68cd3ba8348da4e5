/** New drafters of every system and size, and for every published target. */
import { afterAll, describe, expect, it } from 'vitest';
import { writePublished } from '../../test/published/published-layouts.js';
import { publishedTargets } from '../../test/published/published-targets.js';
import { byTier, casesOfTier } from '../../test/support/tier.js';
import { tiny } from '../../test/support/tiny-checkpoints.js';
import { randomTokens, resolveText, TinyModels } from '../../test/support/tiny-pair.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { decodePlain } from '../decode/generate.js';
import { always } from '../decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../decode/generate.js';
import { inspectCheckpoint } from '../draft/inspection.js';
import type { NewDrafter } from '../draft/fresh/new-drafter.js';
import { createDrafterFolder } from '../draft/fresh/new-drafter.js';
import { trainableSystems } from '../draft/systems.js';
import { contentsOf } from '../../test/support/train/saved-tensors.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

const draftTokens = Int32Array.of(0, 3, 4, 9, 17, 23);
const drafters: readonly (NewDrafter & { readonly title: string; readonly layout: string })[] = [
  { title: 'a draft model', system: 'speculative-sampling', layout: 'language model' },
  {
    ...{ title: 'a draft model of given sizes', system: 'speculative-sampling', layout: 'language model' },
    ...{ layers: 3, hiddenSize: 10 },
  },
  {
    ...{ title: 'a draft model of two layers of its target', system: 'speculative-sampling' },
    ...{ targetLayers: 2, layout: 'language model' },
  },
  { title: 'PARD', system: 'pard', layout: 'PARD' },
  { title: 'Medusa', system: 'medusa', layout: 'Medusa-1 heads' },
  { title: 'Medusa of two layers', system: 'medusa', heads: 3, layers: 2, layout: 'Medusa-1 heads' },
  { title: 'Hydra', system: 'hydra', layout: 'Hydra (mlp)' },
  { title: 'Hydra of three layers', system: 'hydra', heads: 2, layers: 3, layout: 'Hydra (mlp)' },
  { title: 'Hydra++', system: 'hydra', prefixLayer: true, layout: 'Hydra++ (prefix-mlp)' },
  { title: 'EAGLE', system: 'eagle', layout: 'EAGLE-1/-2 or HASS head' },
  { title: 'EAGLE-3', system: 'eagle3', layout: 'EAGLE-3 head' },
  { title: 'EAGLE-3 of two layers', system: 'eagle3', layers: 2, layout: 'EAGLE-3 head' },
  { title: 'P-EAGLE', system: 'p-eagle', layers: 2, draftTokens, layout: 'P-EAGLE head' },
  { title: 'MTP', system: 'mtp', layout: 'MTP module of MiMo' },
  { title: 'DFlash', system: 'dflash', heads: 4, layout: 'DFlash head' },
  { title: 'DSpark', system: 'dspark', heads: 3, layers: 1, layout: 'DSpark head' },
  { title: 'EAGLE-3 over some tokens', system: 'eagle3', draftTokens, layout: 'EAGLE-3 head' },
];

async function create(target: string, drafter: NewDrafter, seed = 1): Promise<string> {
  const folder = models.freshFolder();
  await createDrafterFolder({ target, drafter, folder, seed });
  return folder;
}

it.runIf(byTier({ quick: true, full: false }))('has a row for every system that can be trained', () => {
  expect(new Set(drafters.map(({ system }) => system))).toEqual(new Set(trainableSystems));
});

const quickTitles = [
  'a draft model',
  'PARD',
  'P-EAGLE',
  'MTP',
  'DFlash',
  'DSpark',
  'Medusa',
  'Hydra++',
  'EAGLE',
  'EAGLE-3 over some tokens',
];

describe.each(casesOfTier(drafters, ({ title }) => quickTitles.includes(title)))(
  '$title',
  ({ layout, title, ...drafter }) => {
    it('is a drafter without problems that drafts for its target without changing an answer', async () => {
      const folder = await create(models.targetFolder, drafter);
      const inspection = await inspectCheckpoint(folder);
      expect(inspection.problems).toEqual([]);
      expect(inspection.notes).toEqual([]);
      expect(inspection.layout).toBe(layout);
      const { target, tokenizer, drafter: loaded } = await models.load(folder);
      expect(loaded.system).toBe(drafter.system);
      for (const policy of ['chain:2', 'dynamic:12,1,3']) {
        const request = {
          ...{ promptIds: randomTokens(title, 7, tiny.vocabularySize), maxNewTokens: 16, stopIds: [] },
          ...{ tokenizer, sampling: { temperature: 0 }, seed: 0 },
        };
        const plain = await decodePlain(target, request);
        const speculative = await decodeSpeculative(target, loaded, {
          ...request,
          policy: always(resolveText(policy, loaded)),
        });
        expect(speculative.tokenIds).toEqual(plain.tokenIds);
        expect(speculative.drafterFailed).toBe(false);
      }
    });

    it('is the same for the same seed, and another for another', async () => {
      const first = await contentsOf(await create(models.targetFolder, drafter));
      expect(await contentsOf(await create(models.targetFolder, drafter))).toEqual(first);
      const other = await contentsOf(await create(models.targetFolder, drafter, 2));
      expect([...other.keys()]).toEqual([...first.keys()]);
      // Nothing of Medusa's heads is random, and nothing of a target's layers.
      if (drafter.system === 'medusa' || 'targetLayers' in drafter) expect(other).toEqual(first);
      else expect(other).not.toEqual(first);
    });
  },
);

const oneOfEach: readonly NewDrafter[] = [
  { system: 'speculative-sampling' },
  { system: 'speculative-sampling', targetLayers: 3 },
  { system: 'medusa' },
  { system: 'hydra', prefixLayer: true },
  { system: 'eagle' },
  { system: 'eagle3' },
  { system: 'mtp' },
  { system: 'dflash' },
  { system: 'dspark' },
];

const quickTargets = ['meta-llama/Llama-3.1-8B-Instruct', 'Qwen/Qwen3-8B'];

it.each(casesOfTier(publishedTargets, ({ name }) => quickTargets.includes(name)))(
  'fit $name, whatever its family',
  async (row) => {
    const { folder } = row;
    const path = writePublished(models.freshFolder(), folder);
    const target = await models.loadModel(path);
    const { rotaryBase, rotaryScaling } = target.configuration;
    const hasExperts = target.configuration.experts !== undefined;
    // Each target gets a third of them, in turn; one with experts gets all.
    const turn = publishedTargets.indexOf(row) % 3;
    for (const drafter of oneOfEach.filter((_, place) => hasExperts || place % 3 === turn)) {
      const created = models.freshFolder();
      const creating = createDrafterFolder({ target: path, drafter, folder: created, seed: 1 });
      if (hasExperts && drafter.targetLayers !== undefined) {
        await expect(creating).rejects.toThrow('training experts is not supported');
        continue;
      }
      await creating;
      const { problems, drafter: facts, model } = await inspectCheckpoint(created);
      expect(problems).toEqual([]);
      const loaded = await models.loadDrafter(created, target);
      expect(loaded.system).toBe(drafter.system);
      if (drafter.system === 'eagle' || drafter.system === 'eagle3')
        expect(facts!.rotary!.base).toBe(rotaryBase);
      if (drafter.system === 'speculative-sampling')
        expect(model).toMatchObject({ rotaryBase, rotaryScaling });
    }
  },
);

it.runIf(byTier({ quick: true, full: false })).each(['eagle', 'eagle3'] as const)(
  '%s has plain angles for a target with dynamic scaling',
  async (system) => {
    const { folder } = publishedTargets[0]!;
    const config = { ...folder.config, rope_scaling: { type: 'dynamic', factor: 4 } };
    const path = writePublished(models.freshFolder(), { ...folder, config });
    const created = models.freshFolder();
    await createDrafterFolder({ target: path, drafter: { system }, folder: created, seed: 1 });
    expect((await openCheckpoint(created)).config).not.toHaveProperty('rope_scaling');
    const target = await models.loadModel(path);
    await expect(models.loadDrafter(created, target)).resolves.toMatchObject({ system });
  },
);
