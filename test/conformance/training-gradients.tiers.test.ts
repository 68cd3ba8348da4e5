/** Training gradients against finite differences: along random directions of each weight, for every system. */
import { afterAll, describe, expect, it } from 'vitest';
import { createRandom, type Random } from '../../src/core/random.js';
import { adamDefaults, slotName } from '../../src/train/loop/adamw.js';
import type { Objective } from '../../src/train/loop/losses.js';
import { readParameters } from '../../src/train/loop/parameters.js';
import { Trainer } from '../../src/train/loop/trainer.js';
import type { TextBatch } from '../../src/train/data/batches.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { byTier, casesOfTier } from '../support/tier.js';
import { drafterVariants, oneOfEachSystem } from '../support/tiny-drafters.js';
import { randomTokens, TinyModels } from '../support/tiny-pair.js';

const length = 14;
const batch: TextBatch = {
  tokens: Int32Array.from(randomTokens('texts', 2 * length, tiny.vocabularySize)),
  // Each begins with a prompt.
  weights: Float32Array.from({ length: 2 * length }, (_, index) => +(index % length >= 4)),
  shape: [2, length],
  // The second is shorter, with another one behind it in its row.
  texts: [
    { id: 'one', row: 0, start: 0, length },
    { id: 'two', row: 1, start: 0, length: 8 },
    { id: 'three', row: 1, start: 8, length: 5 },
  ],
};

const objectives = {
  soft: { depth: 3, labels: 'soft', decay: 0.8, featureWeight: 0, labelWeight: 1, noise: 0 },
  tokens: { depth: 2, labels: 'tokens', decay: 0.8, featureWeight: 1, labelWeight: 0.1, noise: 0.2 },
  // Without the confidence head, whose label is not differentiated.
  distances: {
    depth: 3,
    labels: 'tokens',
    decay: 0.8,
    featureWeight: 0,
    labelWeight: 0.1,
    distanceWeight: 0.9,
    noise: 0,
  },
} as const satisfies Readonly<Record<string, Objective>>;

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

/** Layouts that differ from another one in names or values only; saved-layouts.tiers.test.ts trains them. */
const sameGraphs = [
  'Medusa, vLLM naming',
  'EAGLE below model.',
  'EAGLE-3, layers.0 naming',
  'EAGLE-3 with taps named by outputs',
  'DFlash in the speculators format',
  'draft model equal to the target',
];
const cases = drafterVariants
  .filter(({ name }) => !name.includes('shards')) // those heads have no folder of their own to train into
  .filter(({ name }) => !sameGraphs.includes(name))
  .flatMap((variant) =>
    (['soft', 'tokens', 'distances'] as const).map((labels) => ({ ...variant, variant, labels })),
  )
  .filter(({ variant, labels }) => labels === 'soft' || oneOfEachSystem.includes(variant));
const quick = ['draft model', 'Medusa, torch file', 'EAGLE-3 with d2t', 'DFlash'];
const isQuick = ({ variant: { name }, labels }: (typeof cases)[number]): boolean =>
  (labels === 'soft' && quick.includes(name)) || (labels === 'distances' && name === 'Medusa, torch file');

describe.each(casesOfTier(cases, isQuick))('$name', ({ variant, labels }) => {
  it(`has the gradients of the objective ${labels}`, async () => {
    const objective = objectives[labels];
    const pair = await models.load(variant.write(models.freshFolder(), tiny));
    const values = await readParameters(pair.drafter);
    const trainer = await Trainer.create(pair, values, { objective, adam: adamDefaults, seed: 1 });
    const { loss } = await trainer.accumulate(batch, 0);
    const gradients = await trainer.buffers.read(['gradient']);
    const random = createRandom(variant.name);
    expect(loss).toBeGreaterThan(0);
    expect(trainer.buffers.shapes.size).toBeGreaterThan(0);
    for (const name of trainer.buffers.shapes.keys())
      await expectSlope(trainer, name, gradients.get(slotName('gradient', name))!, random, loss);
    await trainer.dispose();
  });
});

const dspark = drafterVariants.find(({ name }) => name === 'DSpark')!;

it.runIf(byTier({ quick: true, full: false }))(
  'a confidence head learns the probability of acceptance, and the scores learn nothing from it',
  async () => {
    const objective = {
      ...objectives.distances,
      decay: 1,
      labelWeight: 0,
      distanceWeight: 0,
      confidenceWeight: 1,
    };
    const pair = await models.load(dspark.write(models.freshFolder(), tiny));
    const values = await readParameters(pair.drafter);
    const trainer = await Trainer.create(pair, values, { objective, adam: adamDefaults, seed: 1 });
    const { loss, parts } = await trainer.accumulate(batch, 0);
    expect(parts).toEqual({ confidence: expect.closeTo(loss, 2) as number });
    const gradients = await trainer.buffers.read(['gradient']);
    const gradientOf = (name: string): Float32Array => gradients.get(slotName('gradient', `dflash.${name}`))!;
    // The second matrix of the Markov head changes scores only.
    expect(Math.hypot(...gradientOf('markov_w2'))).toBe(0);
    expect(Math.hypot(...gradientOf('layers.0.mlp.down_proj.weight'))).toBeGreaterThan(0);
    const random = createRandom('confidence');
    for (const name of ['confidence.weight', 'confidence.bias'])
      await expectSlope(trainer, `dflash.${name}`, gradientOf(name), random, loss);
    await trainer.dispose();
  },
);

/** Along a random direction of a weight. */
async function expectSlope(
  trainer: Trainer,
  name: string,
  gradient: Float32Array,
  random: Random,
  loss: number,
): Promise<void> {
  const key = slotName('parameter', name);
  const lossAt = async (data: Float32Array): Promise<number> => {
    trainer.buffers.write(new Map([[key, data]]));
    return (await trainer.accumulate(batch, 0)).loss;
  };
  const values = (await trainer.buffers.read(['parameter'])).get(key)!;
  const size = Math.hypot(...values) / Math.sqrt(values.length) + 0.01;
  const direction = values.map(() => (random.next() < 0.5 ? -1 : 1) * size);
  const slopeOver = async (step: number): Promise<number> => {
    const moved = (by: number): Float32Array => values.map((value, index) => value + by * direction[index]!);
    return ((await lossAt(moved(step))) - (await lossAt(moved(-step)))) / (2 * step);
  };
  const expected = gradient.reduce((sum, value, index) => sum + value * direction[index]!, 0);
  const tolerance = 0.02 * (Math.abs(expected) + 0.05 * Math.abs(loss));
  let slope = await slopeOver(0.004);
  // Where the loss bends, a second step takes the error of the third order out (Richardson).
  if (Math.abs(slope - expected) >= tolerance) slope = (4 * slope - (await slopeOver(0.008))) / 3;
  trainer.buffers.write(new Map([[key, values]]));
  expect(Math.abs(slope - expected), `${name}: ${slope} by differences, ${expected}`).toBeLessThan(tolerance);
}
