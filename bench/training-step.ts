/**
 * One training step (the target's pass over a batch, the gradients, the update), taking turns with the same step (weights,
 * texts, loss) in eager PyTorch: EAGLE-3 with four levels, and the draft model. Equal losses show that both do the same
 * work; the tokens are random, so they say nothing about training.
 * Options: [TURNS [DRAFTER,...]]
 */
import { dirname } from 'node:path';
import { createRandom } from '../src/core/random.js';
import { bundledDrafterFolder, bundledTarget } from '../src/core/package-files.js';
import { loadDrafter } from '../src/draft/systems.js';
import { loadModel } from '../src/model/causal-model.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { adamDefaults } from '../src/train/loop/adamw.js';
import { readParameters } from '../src/train/loop/parameters.js';
import { defaultSettings } from '../src/train/settings.js';
import { Trainer } from '../src/train/loop/trainer.js';
import { wholeRows } from '../test/support/training-steps.js';
import { compareWithTorch } from './comparison.js';
import { printNote } from './stopwatch.js';

const threads = 2;
const turns = Number(process.argv[2] ?? 5);
const names = (process.argv[3] ?? 'eagle3,sps').split(',') as ('eagle3' | 'sps')[];
const shape = [8, 256] as const;
const [texts, length] = shape;

const runtime = createOnnxRuntime({ threads });
const target = await loadModel(bundledTarget, { runtime });
const random = createRandom(0, 'texts');
const tokens = Array.from({ length: texts }, () =>
  Array.from({ length }, () => 300 + Math.floor(random.next() * 3700)),
);
const weights = tokens.map((text) => text.map(() => 1));
const batch = {
  tokens: Int32Array.from(tokens.flat()),
  weights: Float32Array.from(weights.flat()),
  shape,
  texts: wholeRows(shape),
};
for (const name of names) await compareSteps(name);
await runtime.dispose();

async function compareSteps(name: 'eagle3' | 'sps'): Promise<void> {
  const drafter = await loadDrafter(bundledDrafterFolder(name), { target });
  const objective = defaultSettings(drafter);
  const { rate, weightDecay, clip, depth } = objective;
  const settings = { objective, adam: { ...adamDefaults, weightDecay, clip, rate } };
  const parameters = await readParameters(drafter);
  const trainer = await Trainer.create({ target, drafter }, parameters, { ...settings, seed: 0 });
  const losses: number[] = [];
  const step = async (): Promise<void> => {
    const turn = losses.length;
    const { loss } = await trainer.accumulate(batch, turn);
    await trainer.update(turn, rate);
    losses.push(loss);
  };
  const drafterName = name === 'sps' ? 'draft model' : `EAGLE-3, ${depth} levels`;
  const others = await compareWithTorch({
    title: `${drafterName}, ${texts} x ${length} tokens, ${threads} threads`,
    runtime,
    turns,
    parts: { step },
    script: 'training.py',
    settings: { models: dirname(bundledTarget), name, threads, tokens, weights, ...settings },
  });
  await trainer.dispose();
  const endsOf = (values: readonly number[]): string =>
    [values[0]!, values.at(-1)!].map((loss) => (loss / (texts * length)).toFixed(4)).join(' and ');
  const torchLosses = others.length === 0 ? '' : `; PyTorch ${endsOf(others)}`;
  printNote(`Losses of the first and last step: Mistletoe ${endsOf(losses)}${torchLosses}.`);
}
