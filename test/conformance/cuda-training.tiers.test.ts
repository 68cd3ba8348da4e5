/**
 * Training on CUDA against training on the host, on a device that the host's compiler emulates: the target's states,
 * the gradients of weights and what AdamW makes of them in buffers.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { adamDefaults, allSlots, slotName } from '../../src/train/loop/adamw.js';
import type { Objective } from '../../src/train/loop/losses.js';
import { readParameters } from '../../src/train/loop/parameters.js';
import { Trainer } from '../../src/train/loop/trainer.js';
import type { TextBatch } from '../../src/train/data/batches.js';
import { createEmulatedDevice } from '../support/emulated-device.js';
import { describeEmulated } from '../support/emulated-suite.js';
import { casesOfTier } from '../support/tier.js';
import { wholeRows } from '../support/training-steps.js';
import { tiny } from '../support/tiny-checkpoints.js';
import type { DrafterVariant } from '../support/tiny-drafters.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, TinyModels } from '../support/tiny-pair.js';

const batchOf = (name: string, count: number, length: number): TextBatch => ({
  tokens: Int32Array.from(randomTokens(name, count * length, tiny.vocabularySize)),
  weights: Float32Array.from({ length: count * length }, (_, index) => +(index % length >= 4)),
  ...{ shape: [count, length], texts: wholeRows([count, length]) },
});
const placeTexts = (...places: readonly (readonly [row: number, start: number, length: number])[]) =>
  places.map(([row, start, length]) => ({ id: `${row} ${start}`, row, start, length }));
// Of two shapes, and the first comes again: a run that is like one before it is replayed.
const batches = [
  batchOf('one', 2, 12),
  batchOf('two', 3, 9),
  // In its first row stand two texts.
  { ...batchOf('three', 2, 12), texts: placeTexts([0, 0, 7], [0, 7, 5], [1, 0, 12]) },
  batchOf('four', 2, 12),
];
const soft: Objective = { depth: 2, labels: 'soft', decay: 0.8, featureWeight: 0, labelWeight: 1, noise: 0 };
const tokens: Objective = { ...soft, labels: 'tokens', featureWeight: 1, labelWeight: 0.1, noise: 0.2 };
const distances: Objective = {
  ...soft,
  labels: 'tokens',
  labelWeight: 0.1,
  distanceWeight: 0.9,
  confidenceWeight: 1,
};
const variantOf = (system: string): DrafterVariant =>
  drafterVariants.find(({ name }) => name.startsWith(system))!;
const cases = [
  { variant: variantOf('draft model'), objective: soft },
  { variant: variantOf('Medusa'), objective: { ...soft, labels: 'tokens' as const } },
  { variant: variantOf('Hydra'), objective: soft },
  { variant: variantOf('EAGLE '), objective: tokens },
  { variant: variantOf('EAGLE-3'), objective: soft },
  { variant: variantOf('DFlash'), objective: soft },
  { variant: variantOf('DSpark with a Markov head of the type rnn'), objective: distances },
  { variant: variantOf('MTP'), objective: soft },
];

/** Both kinds of labels and noise, in the drafter with the most to differentiate. */
const isQuick = ({ variant }: (typeof cases)[number]): boolean => variant === variantOf('EAGLE ');

interface Trained {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  /** Of the first batch. */
  readonly gradients: ReadonlyMap<string, Float32Array>;
  readonly values: ReadonlyMap<string, Float32Array>;
  readonly start: ReadonlyMap<string, Float32Array>;
  readonly choices: readonly Int32Array[];
}

async function train(models: TinyModels, folder: string, objective: Objective): Promise<Trained> {
  const pair = await models.load(folder);
  const parameters = await readParameters(pair.drafter);
  const trainer = await Trainer.create(pair, parameters, { objective, adam: adamDefaults, seed: 1 });
  const start = await trainer.buffers.read(['parameter']);
  const [losses, norms]: [number[], number[]] = [[], []];
  let gradients: Trained['gradients'] | undefined;
  for (const [step, batch] of batches.entries()) {
    losses.push((await trainer.accumulate(batch, step)).loss);
    gradients ??= await trainer.buffers.read(['gradient']);
    // The last two make one update.
    if (step !== 2) norms.push(await trainer.update(norms.length, 1e-3));
  }
  const values = await trainer.buffers.read(allSlots);
  const choices = await trainer.choose(batches[0]!, 2);
  await trainer.dispose();
  return { losses, norms, gradients: gradients!, values, start, choices };
}

/** Between two lists of values, relative to how long the second one is. */
function distance(found: Float32Array, expected: Float32Array): number {
  const length = (values: Float32Array): number => Math.hypot(...values);
  return length(found.map((value, index) => value - expected[index]!)) / (length(expected) + 1e-9);
}

describeEmulated('a trainer on CUDA', () => {
  const onHost = new TinyModels(tiny);
  let exact: TinyModels;
  let mixed: TinyModels;
  beforeAll(() => {
    exact = new TinyModels(tiny, createCudaRuntime(createEmulatedDevice()));
    mixed = new TinyModels(tiny, createCudaRuntime(createEmulatedDevice(), { productType: 'bfloat16' }));
  });
  afterAll(async () => {
    for (const models of [onHost, exact, mixed]) await models.dispose();
  });

  it.each(casesOfTier(cases, isQuick))(
    'learns as on the host: $variant.name',
    async ({ variant, objective }) => {
      const folder = variant.write(onHost.freshFolder(), tiny);
      const expected = await train(onHost, folder, objective);
      const found = await train(exact, folder, objective);
      for (const [index, loss] of expected.losses.entries())
        expect(found.losses[index]! / loss).toBeCloseTo(1, 4);
      for (const [index, norm] of expected.norms.entries())
        expect(found.norms[index]! / norm).toBeCloseTo(1, 3);
      expect([...found.values.keys()]).toEqual([...expected.values.keys()]);
      for (const [name, gradient] of expected.gradients)
        expect(distance(found.gradients.get(name)!, gradient), name).toBeLessThan(1e-3);
      for (const [name, values] of expected.values)
        expect(distance(found.values.get(name)!, values), name).toBeLessThan(5e-3);
      for (const [name, values] of expected.start)
        expect(distance(values, found.values.get(name)!)).not.toBe(0);
      expect(found.choices).toEqual(expected.choices);
    },
  );

  const mixedCases = casesOfTier([cases.at(-1)!], () => true);
  it.each(mixedCases)(
    'multiplies in bfloat16 and keeps weights and moments in float32',
    async ({ variant, objective }) => {
      const folder = variant.write(onHost.freshFolder(), tiny);
      const expected = await train(onHost, folder, objective);
      const found = await train(mixed, folder, objective);
      expect(found.losses[0]! / expected.losses[0]!).toBeCloseTo(1, 1);
      expect(found.losses[0]).not.toBe(expected.losses[0]);
      for (const [name, gradient] of expected.gradients)
        expect(distance(found.gradients.get(name)!, gradient), name).toBeLessThan(0.1);
      for (const [name, start] of expected.start) {
        const ended = found.values.get(name)!;
        // A change as small as the rate is lost in a weight of 8 bits; here all of it arrives.
        const moved = start.map((value, index) => ended[index]! - value);
        const wanted = start.map((value, index) => expected.values.get(name)![index]! - value);
        expect(distance(moved, wanted), name).toBeLessThan(0.5);
      }
      const isRounded = (value: number): boolean =>
        (new Uint32Array(Float32Array.of(value).buffer)[0]! & 0xffff) === 0;
      const [weight] = found.start.keys();
      for (const slot of ['parameter', 'mean', 'square'] as const) {
        const values = found.values.get(slotName(slot, weight!.slice('parameter.'.length)))!;
        expect(
          values.some((value) => !isRounded(value)),
          slot,
        ).toBe(true);
      }
    },
  );
});
