/**
 * Training against PyTorch: losses, gradients and two updates of every system's published tensors on two short texts, from
 * bench/torch/training.py. `npm run bench -- training-gradients --write` writes the file again. The quick tier
 * gives each text a row of its own, the full tier packs both into one.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CausalModel } from '../../src/model/causal-model.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { referenceModels, referenceTarget } from '../support/model-folders.js';
import { byTier } from '../support/tier.js';
import type { StepRecord, StepSettings } from '../support/training-steps.js';
import { compareSteps, loadApprentice, recordSteps, wholeRows } from '../support/training-steps.js';

interface GoldenTraining {
  readonly tokens: readonly (readonly number[])[]; // [text][position]
  readonly weights: readonly (readonly number[])[];
  readonly systems: Readonly<Record<string, StepRecord & { readonly settings: StepSettings }>>;
}

const golden = JSON.parse(
  readFileSync(resolve(import.meta.dirname, 'training.json'), 'utf8'),
) as GoldenTraining;
const shape = [golden.tokens.length, golden.tokens[0]!.length] as const;
const padded = {
  tokens: Int32Array.from(golden.tokens.flat()),
  weights: Float32Array.from(golden.weights.flat()),
  ...{ shape, texts: wholeRows(shape) },
};
const packed = {
  ...padded,
  ...{ shape: [1, shape[0] * shape[1]] as const },
  texts: wholeRows(shape).map((text) => ({ ...text, row: 0, start: text.row * shape[1] })),
};

const goldenBatches = { padded, packed };

const runtime = createOnnxRuntime();
let target: CausalModel;
beforeAll(async () => {
  target = await loadModel(referenceTarget, { runtime });
});
afterAll(() => runtime.dispose());

const rows = byTier<keyof typeof goldenBatches>({ quick: 'padded', full: 'packed' });
describe(`training on ${rows} rows against PyTorch`, () => {
  it.each(Object.entries(golden.systems))('%s', async (name, { settings, ...expected }) => {
    const apprentice = await loadApprentice(join(referenceModels, name), target);
    const places = Object.fromEntries(
      Object.entries(expected.tensors).map(([tensor, { entries }]) => [tensor, entries.map(([at]) => at)]),
    );
    const found = await recordSteps(target, apprentice, goldenBatches[rows], settings, places);
    const differences = compareSteps(found, expected, settings);
    for (const [part, difference] of Object.entries(differences)) expect(difference, part).toBeLessThan(1e-3);
  });
});

it('has golden values for every system with weights', () => {
  expect(Object.keys(golden.systems).sort()).toEqual(['eagle', 'eagle3', 'hydra', 'medusa', 'sps']);
});
