/**
 * One training step, which is the target's pass over a batch, the gradients and the update, and the same step (weights,
 * texts, loss) in eager PyTorch, by turns in the same run: EAGLE-3 with four levels, and the draft model. Losses show that
 * both do the same, no more: tokens are drawn, and what the target says of such texts is nearly one token everywhere.
 * Run: npm run bench:training-step [-- TURNS]
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { createRandom } from '../src/core/random.js';
import { bundledDrafterFolder, bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { describeMachine } from '../src/measure/machine.js';
import { loadModel } from '../src/model/causal-model.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { adamDefaults } from '../src/train/loop/adamw.js';
import { readParameters } from '../src/train/loop/parameters.js';
import { defaultSettings, objectiveOf } from '../src/train/settings.js';
import { Trainer } from '../src/train/loop/trainer.js';
import type { StepSettings } from '../test/support/training-steps.js';
import { wholeRows } from '../test/support/training-steps.js';
import { measurePeaks } from './peaks.js';
import { median, printTable } from './stopwatch.js';

const threads = 2;
const turns = Number(process.argv[2] ?? 7);
const shape = [8, 256] as const;
const [texts, length] = shape;

const { processor, architecture } = describeMachine();
console.log(
  `${processor} (${architecture}), ${threads} threads, ${texts} x ${length} tokens, ${turns} turns\n`,
);
const runtime = createOnnxRuntime({ threads });
const peaks = await measurePeaks(runtime);
const target = await loadModel(bundledTarget, { runtime });
const random = createRandom(0, 'texts');
const tokens = Array.from({ length: texts }, () =>
  Array.from({ length }, () => 300 + Math.floor(random.next() * 3700)),
);
const rows = [['drafter', 'step', 'best', 'median', 'loss of the first step', 'of the last', 'speed']];
for (const name of ['eagle3', 'sps'] as const) rows.push(...(await compareSteps(name)));
await runtime.dispose();
printTable(rows);
console.log(`\nMistletoe's runtime multiplies matrices at ${peaks.gigaflops.toFixed(0)} GFLOP/s here.`);

interface Step {
  readonly ms: number;
  readonly loss: number;
}

async function compareSteps(name: 'eagle3' | 'sps'): Promise<string[][]> {
  const drafter = await loadDrafter(bundledDrafterFolder(name), { target });
  const usual = defaultSettings(drafter);
  const { rate, weightDecay, clip } = usual;
  const settings = { objective: objectiveOf(usual), adam: { ...adamDefaults, weightDecay, clip, rate } };
  const trainer = await Trainer.create({ target, drafter }, await readParameters(drafter), {
    ...settings,
    seed: 0,
  });
  const torch = await startTorch(name, settings);
  const steps: { own: Step; other: Step | undefined }[] = [];
  // The first turn warms both sides up.
  for (let turn = 0; turn <= turns; turn++) {
    steps.push({ own: await step(trainer, turn, rate), other: await torch?.step() });
  }
  torch?.end();
  await trainer.dispose();
  const own = describe(steps.map(({ own }) => own));
  const others = steps.flatMap(({ other }) => other ?? []);
  const title = name === 'sps' ? 'draft model' : `EAGLE-3, ${settings.objective.depth} levels`;
  if (torch === undefined || others.length === 0)
    return [
      [title, 'Mistletoe', ...own.cells, '1.00'],
      [title, 'PyTorch is not installed', '', '', '', '', ''],
    ];
  const other = describe(others);
  const product = `product ${torch.gigaflops.toFixed(0)} GFLOP/s`;
  return [
    [title, 'Mistletoe', ...own.cells, '1.00'],
    [title, `PyTorch ${torch.version}, ${product}`, ...other.cells, (own.best / other.best).toFixed(2)],
  ];
}

async function step(trainer: Trainer, turn: number, rate: number): Promise<Step> {
  const start = performance.now();
  const batch = {
    tokens: Int32Array.from(tokens.flat()),
    weights: new Float32Array(texts * length).fill(1),
    ...{ shape, texts: wholeRows(shape) },
  };
  const { loss } = await trainer.accumulate(batch, turn);
  await trainer.update(turn, rate);
  return { ms: performance.now() - start, loss };
}

function describe(steps: readonly Step[]): { best: number; cells: string[] } {
  const times = steps.slice(1).map(({ ms }) => ms);
  const best = Math.min(...times);
  const losses = [steps[0]!, steps.at(-1)!].map(({ loss }) => (loss / (texts * length)).toFixed(4));
  return { best, cells: [`${best.toFixed(0)} ms`, `${median(times).toFixed(0)} ms`, ...losses] };
}

/** A process that makes a step whenever it is asked; undefined where there is no PyTorch. */
async function startTorch(name: string, settings: StepSettings) {
  const script = join(packageRoot, 'bench/torch/training_step.py');
  const python = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';
  const child = spawn(python, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.on('error', () => undefined); // it ends early where PyTorch is missing
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async <T>(line: string): Promise<T | undefined> => {
    child.stdin.write(`${line}\n`);
    const answer = await lines.next();
    return answer.done === true ? undefined : (JSON.parse(answer.value) as T);
  };
  const request = { models: dirname(bundledTarget), name, threads, tokens, ...settings };
  const started = await ask<{ version: string; gigaflops: number }>(JSON.stringify(request));
  if (started === undefined) return undefined;
  return {
    ...started,
    step: () => ask<Step>('step'),
    end() {
      child.stdin.end();
    },
  };
}
