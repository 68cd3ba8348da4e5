/**
 * Texts packed into one row are learned as if each had a row of its own, for every system: the same losses, gradients and
 * accepted length, to rounding.
 */
import { afterAll, describe, expect, it } from 'vitest';
import { adamDefaults } from '../../src/train/loop/adamw.js';
import { planBatches } from '../../src/train/data/batches.js';
import type { Example } from '../../src/train/data/examples.js';
import type { HeldOutLength } from '../../src/train/loop/training-loop.js';
import { measureLength } from '../../src/train/loop/training-loop.js';
import type { Objective, Pair } from '../../src/train/loop/losses.js';
import { readParameters } from '../../src/train/loop/parameters.js';
import { Trainer } from '../../src/train/loop/trainer.js';
import { byTier, casesOfTier } from '../support/tier.js';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, TinyModels } from '../support/tiny-pair.js';

/** All of every second text is learnt, so that first and last tokens count. */
const examples = [40, 23, 17, 16, 12, 9, 7, 5, 3, 2].map((length, index): Example => {
  const tokens = Int32Array.from(randomTokens(`text ${index}`, length, tiny.vocabularySize));
  const isLearnt = Uint8Array.from(tokens, (_, position) => +(index % 2 === 0 || position >= length / 2));
  return { id: `text ${index}`, tokens, isLearnt };
});
const plans = (['padded', 'packed'] as const).map((rows) =>
  planBatches(examples, { batchTokens: 96, rows, seed: 1 }),
);

const packedObjectives: readonly Objective[] = [
  { depth: 3, labels: 'soft', decay: 0.8, featureWeight: 0, labelWeight: 1, noise: 0 },
  { depth: 2, labels: 'tokens', decay: 0.8, featureWeight: 1, labelWeight: 0.1, noise: 0 },
];
const chain = 3;

interface Learnt {
  readonly count: number;
  readonly losses: readonly number[]; // the objective, then each level
  readonly gradients: ReadonlyMap<string, Float32Array>;
  readonly length: HeldOutLength;
}

/** Of one epoch. */
async function learn(pair: Pair, objective: Objective, plan: (typeof plans)[number]): Promise<Learnt> {
  const values = await readParameters(pair.drafter);
  const trainer = await Trainer.create(pair, values, { objective, adam: adamDefaults, seed: 1 });
  const losses = new Array<number>(1 + objective.depth).fill(0);
  let count = 0;
  const batches = Array.from({ length: plan.batchesPerEpoch }, (_, step) => plan.batchAt(step));
  for (const [step, batch] of batches.entries()) {
    const own = await trainer.accumulate(batch, step);
    count += own.count;
    [own.loss, ...own.levels].forEach((loss, index) => (losses[index]! += loss));
  }
  const length = await measureLength({ pair, trainer }, batches, chain);
  const gradients = await trainer.buffers.read(['gradient']);
  await trainer.dispose();
  return { count, losses, gradients, length };
}

async function expectSameAsPadded(pair: Pair, objective: Objective): Promise<void> {
  const [padded, packed] = [await learn(pair, objective, plans[0]!), await learn(pair, objective, plans[1]!)];
  expect(packed.count).toBe(padded.count);
  expect(packed.length).toEqual(padded.length);
  packed.losses.forEach((loss, index) => {
    expect(Math.abs(loss / padded.losses[index]! - 1)).toBeLessThan(1e-4);
  });
  expect(packed.gradients.size).toBeGreaterThan(0);
  for (const [name, gradient] of packed.gradients) {
    const expected = padded.gradients.get(name)!;
    const apart = Math.hypot(...gradient.map((value, index) => value - expected[index]!));
    expect(apart, name).toBeLessThan(1e-4 * Math.hypot(...expected) + 1e-5);
  }
}

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

/** One of each system, and of each way in which one reads its texts. */
const names = [
  ...['draft model', 'Medusa, torch file', 'Hydra, one layer', 'Hydra++'],
  ...['EAGLE, torch file, with bias', 'EAGLE-3 with d2t', "EAGLE-3 with the target's vocabulary"],
  ...['DFlash', 'DSpark', 'MTP'],
];
const cases = names.flatMap((name) => packedObjectives.map((objective) => ({ name, objective })));
const isQuick = ({ name, objective }: (typeof cases)[number]): boolean =>
  ['draft model', 'EAGLE-3 with d2t'].includes(name) && objective.labels === 'soft';

it.each(casesOfTier(cases, isQuick))(
  '$name learns $objective.labels labels as from padded rows',
  async ({ name, objective }) => {
    const variant = drafterVariants.find((other) => other.name === name)!;
    await expectSameAsPadded(await models.load(variant.write(models.freshFolder(), tiny)), objective);
  },
);

it.runIf(byTier({ quick: true, full: false }))('has several texts in a row', () => {
  const [padded, packed] = plans.map((plan) => plan.batchAt(0));
  expect(new Set(padded!.texts.map(({ row }) => row)).size).toBe(padded!.texts.length);
  expect(packed!.texts.length).toBeGreaterThan(packed!.shape[0]);
  expect(plans[1]!.paddingShare).toBeLessThan(plans[0]!.paddingShare);
});

describe.runIf(byTier({ quick: true, full: false }))('behind a window', () => {
  const windowed = { ...llamaConfig(tiny), architectures: ['MistralForCausalLM'], sliding_window: 6 };
  const write = (): string =>
    writeCheckpoint(models.freshFolder(), 'model.safetensors', decoderTensors(tiny), windowed);

  it('target and draft model look back no further than it, nor beyond their text', async () => {
    const target = await models.loadModel(write());
    const drafter = await models.loadDrafter(write(), target);
    expect(drafter.graph!.attention!.window).toBe(6);
    await expectSameAsPadded({ target, drafter }, packedObjectives[1]!);
  });
});
