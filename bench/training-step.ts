/**
 * One training step (the target's pass over a batch, the gradients, the update), taking turns with the same step (weights,
 * texts, loss) in eager PyTorch: EAGLE-3 with four levels, and the draft model. Equal losses show that both do the same
 * work; the tokens are random, so they say nothing about training.
 * Options: [TURNS [DRAFTER,...]]
 */
import { dirname } from 'node:path';
import { createRandom } from '../src/core/random.js';
import { bundledDrafterFolder, bundledTarget } from '../src/decode/bundled-models.js';
import { loadDrafter } from '../src/draft/systems.js';
import { loadModel } from '../src/model/causal-model.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { adamDefaults } from '../src/train/loop/adamw.js';
import { readParameters } from '../src/train/loop/parameters.js';
import { defaultSettings } from '../src/train/settings.js';
import { Trainer } from '../src/train/loop/trainer.js';
import { wholeRows } from '../test/support/training-steps.js';
import { type Side, describeProducts, formatSpeedup, measurePeaks } from './comparison.js';
import { median, printNote, printTable } from './stopwatch.js';
import { startTorch } from './torch-process.js';

const threads = 2;
const turns = Number(process.argv[2] ?? 5);
const names = (process.argv[3] ?? 'eagle3,sps').split(',') as ('eagle3' | 'sps')[];
const shape = [8, 256] as const;
const [texts, length] = shape;

interface Step {
  readonly ms: number;
  readonly loss: number;
}

const runtime = createOnnxRuntime({ threads });
const own: Side = { name: 'Mistletoe', gigaflops: (await measurePeaks(runtime)).gigaflops };
const target = await loadModel(bundledTarget, { runtime });
const random = createRandom(0, 'texts');
const tokens = Array.from({ length: texts }, () =>
  Array.from({ length }, () => 300 + Math.floor(random.next() * 3700)),
);
const rows = [['drafter', 'step', 'best', 'median', 'first loss', 'last loss', 'speed against PyTorch']];
for (const name of names) await compareSteps(name);
await runtime.dispose();
printTable(rows, `${texts} x ${length} tokens, ${threads} threads, ${turns} turns`);

async function compareSteps(name: 'eagle3' | 'sps'): Promise<void> {
  const drafter = await loadDrafter(bundledDrafterFolder(name), { target });
  const defaults = defaultSettings(drafter);
  const { rate, weightDecay, clip } = defaults;
  const settings = { objective: defaults, adam: { ...adamDefaults, weightDecay, clip, rate } };
  const trainer = await Trainer.create({ target, drafter }, await readParameters(drafter), {
    ...settings,
    seed: 0,
  });
  const request = { models: dirname(bundledTarget), name, threads, tokens, ...settings };
  const torch = await startTorch('training_step.py', request);
  const [ours, theirs]: [Step[], Step[]] = [[], []];
  // The first turn warms both sides up.
  for (let turn = 0; turn <= turns; turn++) {
    ours.push(await runStep(trainer, turn, rate));
    if (torch !== undefined) theirs.push(await torch.run<Step>('step'));
  }
  torch?.end();
  await trainer.dispose();
  const title = name === 'sps' ? 'draft model' : `EAGLE-3, ${settings.objective.depth} levels`;
  rows.push([title, 'Mistletoe', ...cellsOf(ours), '']);
  if (torch === undefined) return;
  rows.push([title, torch.name, ...cellsOf(theirs), formatSpeedup(own, bestOf(ours), torch, bestOf(theirs))]);
  printNote(describeProducts(own, torch));
}

async function runStep(trainer: Trainer, turn: number, rate: number): Promise<Step> {
  const start = performance.now();
  const batch = {
    tokens: Int32Array.from(tokens.flat()),
    weights: new Float32Array(texts * length).fill(1),
    shape,
    texts: wholeRows(shape),
  };
  const { loss } = await trainer.accumulate(batch, turn);
  await trainer.update(turn, rate);
  return { ms: performance.now() - start, loss };
}

function bestOf(steps: readonly Step[]): number {
  return Math.min(...steps.slice(1).map(({ ms }) => ms));
}

function cellsOf(steps: readonly Step[]): string[] {
  const losses = [steps[0]!, steps.at(-1)!].map(({ loss }) => (loss / (texts * length)).toFixed(4));
  const middle = median(steps.slice(1).map(({ ms }) => ms));
  return [`${bestOf(steps).toFixed(0)} ms`, `${middle.toFixed(0)} ms`, ...losses];
}
