/** Training gradients against finite differences: along random directions of each weight, for every system. */
import { afterAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { adamDefaults, slotName } from '../../src/train/loop/adamw.js';
import type { Objective } from '../../src/train/loop/losses.js';
import { readParameters } from '../../src/train/loop/parameters.js';
import { Trainer } from '../../src/train/loop/trainer.js';
import type { TextBatch } from '../../src/train/data/batches.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { casesOfTier } from '../support/tier.js';
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

const objectives: Readonly<Record<'soft' | 'tokens', Objective>> = {
  soft: { depth: 3, labels: 'soft', decay: 0.8, featureWeight: 0, labelWeight: 1, noise: 0 },
  tokens: { depth: 2, labels: 'tokens', decay: 0.8, featureWeight: 1, labelWeight: 0.1, noise: 0.2 },
};

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

const cases = drafterVariants
  .filter(({ name }) => !name.includes('shards')) // those heads have no folder of their own to train into
  .flatMap((variant) => (['soft', 'tokens'] as const).map((labels) => ({ ...variant, variant, labels })))
  .filter(({ variant, labels }) => labels === 'soft' || oneOfEachSystem.includes(variant));
const quick = ['draft model', 'Medusa, torch file', 'EAGLE-3 with d2t', 'DFlash'];
const isQuick = ({ variant, labels }: (typeof cases)[number]): boolean =>
  labels === 'soft' && quick.includes(variant.name);

describe.each(casesOfTier(cases, isQuick))('$name', ({ variant, labels }) => {
  it(`has the gradients of ${labels} labels`, async () => {
    const objective = objectives[labels];
    const pair = await models.load(variant.write(models.freshFolder(), tiny));
    const values = await readParameters(pair.drafter);
    const trainer = await Trainer.create(pair, values, { objective, adam: adamDefaults, seed: 1 });
    const { loss } = await trainer.accumulate(batch, 0);
    const gradients = await trainer.buffers.read(['gradient']);
    const random = createRandom(variant.name);
    const lossAt = async (key: string, data: Float32Array): Promise<number> => {
      trainer.buffers.write(new Map([[key, data]]));
      return (await trainer.accumulate(batch, 0)).loss;
    };
    expect(loss).toBeGreaterThan(0);
    expect(trainer.buffers.shapes.size).toBeGreaterThan(0);
    for (const name of trainer.buffers.shapes.keys()) {
      const key = slotName('parameter', name);
      const values = (await trainer.buffers.read(['parameter'])).get(key)!;
      const size = Math.hypot(...values) / Math.sqrt(values.length) + 0.01;
      const direction = values.map(() => (random.next() < 0.5 ? -1 : 1) * size);
      const slopeOver = async (step: number): Promise<number> => {
        const moved = (by: number): Float32Array =>
          values.map((value, index) => value + by * direction[index]!);
        return ((await lossAt(key, moved(step))) - (await lossAt(key, moved(-step)))) / (2 * step);
      };
      // Two steps, so that the error of the third order falls out (Richardson).
      const slope = (4 * (await slopeOver(0.004)) - (await slopeOver(0.008))) / 3;
      trainer.buffers.write(new Map([[key, values]]));
      const gradient = gradients.get(slotName('gradient', name))!;
      const expected = gradient.reduce((sum, value, index) => sum + value * direction[index]!, 0);
      const tolerance = 0.02 * (Math.abs(expected) + 0.05 * Math.abs(loss));
      expect(Math.abs(slope - expected), `${name}: ${slope} by differences, ${expected}`).toBeLessThan(
        tolerance,
      );
    }
    await trainer.dispose();
  });
});
