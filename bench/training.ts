/**
 * What training reaches on the bundled target: an EAGLE-3 head and a draft model from fresh weights, draft models that
 * begin with two or three of the target's layers, on the questions of shared/data that the target answers itself, and the
 * bundled ones continued; then the accepted length of all of them on HumanEval and GSM8K, beside the bundled drafter of the
 * same system, prompt by prompt. Runs lie under out/training: a stopped one goes on, a finished one is only read. Other
 * settings want another --name.
 * Run: npm run bench:training [-- --systems speculative-sampling,eagle3 --per-set 40 --threads 2 --name usual
 *   --only FOLDER,FOLDER --answers RUN --data FILE]
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { configFile } from '../src/runs/run-units.js';
import { bundledDrafterFolder, bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { generateSpeculatively } from '../src/decode/speculative-text.js';
import type { Target } from '../src/decode/target.js';
import { openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import type { Interval, RequestCounts } from '../src/measure/bootstrap.js';
import { bootstrapInterval } from '../src/measure/bootstrap.js';
import { describeMachine } from '../src/measure/machine.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import type { TrainSettings } from '../src/train/settings.js';
import type { TrainPlan } from '../src/train/train-request.js';
import { createTrainRequest } from '../src/train/train-request.js';
import { resumeTraining, startTraining } from '../src/train/train-run.js';
import { writeTrainingReports } from '../src/report/training/training-report.js';
import type { TrainingResult } from '../src/train/training-result.js';
import { printTable } from './stopwatch.js';

const shared = join(packageRoot, '../shared/data');
const { values: given } = parseArgs({
  options: {
    systems: { type: 'string', default: 'speculative-sampling,eagle3' },
    'per-set': { type: 'string', default: '40' },
    threads: { type: 'string', default: '2' },
    name: { type: 'string', default: 'usual' },
    only: { type: 'string' },
    answers: { type: 'string' },
    data: { type: 'string', default: join(shared, 'train.jsonl') },
  },
});
const threads = Number(given.threads);
const chain = 4;
const maxNewTokens = 128;
const sets = ['humaneval', 'gsm8k'] as const;

interface TrainedDrafter {
  readonly weights: string;
  /** Folder under that of the bench. */
  readonly place: string;
  /** Of the run: the drafter to look at. */
  readonly kept: 'best' | 'last';
  readonly plan: Pick<TrainPlan, 'system' | 'from' | 'shape' | 'settings'>;
}

/**
 * What an hour on two cores has room for. The target reads prompts anyway: learning them costs nothing. A tenth of the
 * rate for weights that are trained already.
 */
const [batchTokens, keepStates, validateEvery] = [1024, 8e9, 250];
const continued = { steps: 400, batchTokens, rate: 1e-4 };
const all: Record<'speculative-sampling' | 'eagle3', readonly TrainedDrafter[]> = {
  'speculative-sampling': [
    fresh('speculative-sampling', { steps: 8000, rate: 3e-3 }),
    shorten(2, { steps: 2500 }, ['two layers of the target', 'layers']),
    shorten(2, { steps: 3000, freeze: 'vocabulary' }, ['the same, vocabulary kept', 'vocabulary']),
    shorten(3, { steps: 2400, freeze: 'vocabulary', validateEvery: 400 }, [
      'three layers, vocabulary kept',
      'three',
    ]),
    goOn('speculative-sampling', 'sps'),
  ],
  // Less than twice through the texts: states that are kept would hardly be read again.
  eagle3: [
    fresh('eagle3', { steps: 2000, rate: 1.5e-3, learn: 'all', keepStates: 0, validateEvery: 400 }),
    goOn('eagle3', 'eagle3'),
  ],
};
const bundled = { 'speculative-sampling': 'sps', eagle3: 'eagle3' } as const;
type System = keyof typeof all;

function fresh(
  system: System,
  settings: Partial<TrainSettings>,
  shape: TrainPlan['shape'] = {},
): TrainedDrafter {
  const plan = { system, shape, settings: { batchTokens, keepStates, validateEvery, ...settings } };
  return { weights: 'fresh weights', place: system, kept: 'best', plan };
}

/** A draft model of so many of the target's layers. */
function shorten(
  targetLayers: number,
  settings: Partial<TrainSettings>,
  [weights, name]: readonly [string, string],
): TrainedDrafter {
  const system = 'speculative-sampling';
  return {
    ...fresh(system, { rate: 1e-3, ...settings }, { targetLayers }),
    ...{ weights, place: `${system}-${name}` },
  };
}

function goOn(system: System, drafter: 'sps' | 'eagle3'): TrainedDrafter {
  const plan = { from: bundledDrafterFolder(drafter), settings: continued };
  return { weights: 'bundled, continued', place: `${system}-continued`, kept: 'last', plan };
}

const systems = given.systems.split(',').map((name) => {
  if (name in all) return name as System;
  throw new Error(`${name} is none of ${Object.keys(all).join(', ')}.`);
});
const only = given.only?.split(',');
const listRuns = (system: System): readonly TrainedDrafter[] =>
  all[system].filter(({ place }) => only?.includes(place) ?? true);
const folder = join(packageRoot, 'out/training', given.name);
const { processor, architecture } = describeMachine();
console.log(`${processor} (${architecture}), ${threads} threads\n`);
const runs: { readonly system: string; readonly run: string; readonly result: TrainingResult }[] = [];
let answers = given.answers;
for (const system of systems) {
  for (const { weights, place, plan } of listRuns(system)) {
    const whole = { ...plan, data: given.data, threads, device: 'cpu' as const, answers };
    runs.push({ system, run: weights, result: await train(join(folder, place), whole) });
    answers ??= join(folder, place);
  }
}
printRuns();
await printLengths();

async function train(place: string, plan: TrainPlan): Promise<TrainingResult> {
  const finished = join(place, 'result.json');
  if (existsSync(finished)) return JSON.parse(readFileSync(finished, 'utf8')) as TrainingResult;
  const began = performance.now();
  const events = {
    onLine(line: TrainingResult['log'][number]) {
      if (line.kind === 'length')
        process.stderr.write(`${place}: ${line.length.toFixed(3)} after ${line.update}\n`);
    },
  };
  const outcome = existsSync(join(place, configFile))
    ? await resumeTraining(place, { events })
    : await startTraining(place, await createTrainRequest(plan), { events });
  if (outcome.status === 'interrupted') throw new Error('The run was interrupted.');
  await writeTrainingReports(place, outcome.result);
  const minutes = (performance.now() - began) / 60_000;
  process.stderr.write(`${place}: ${minutes.toFixed(1)} minutes with answers, in this start\n`);
  return outcome.result;
}

function printRuns(): void {
  const minutes = (ms: number): string => (ms / 60_000).toFixed(1);
  printTable([
    ['drafter', 'weights', 'updates', 'minutes of training', 'loss, first and last tenth', 'held-out length'],
    ...runs.map(({ system, run, result }) => {
      const losses = result.log.flatMap((line) => (line.kind === 'update' ? [line.loss] : []));
      const tenth = Math.max(1, Math.floor(losses.length / 10));
      const [begin, end] = [losses.slice(0, tenth), losses.slice(-tenth)].map(mean);
      const { first, last } = result.lengths!;
      return [
        ...[system, run, String(result.updates), minutes(result.elapsedMs)],
        ...[
          `${begin!.toFixed(2)} to ${end!.toFixed(2)}`,
          `${first.length.toFixed(2)} to ${last.length.toFixed(2)}`,
        ],
      ];
    }),
  ]);
  console.log('');
}

async function printLengths(): Promise<void> {
  const runtime = createOnnxRuntime({ threads });
  const target = await openTarget(bundledTarget, { runtime });
  const rows = [['drafter', 'weights', ...sets.flatMap((set) => [set, 'of the bundled one'])]];
  for (const system of systems) {
    const before = await measure(target, bundledDrafterFolder(bundled[system]));
    const made = listRuns(system).map(
      ({ weights, place, kept }) => [weights, join(folder, place, kept)] as const,
    );
    for (const [weights, drafter] of [['bundled', undefined] as const, ...made]) {
      const now = drafter === undefined ? before : await measure(target, drafter);
      const cells = sets.flatMap((set) => [
        lengthOf(now[set]!).toFixed(2),
        show(ratio(now[set]!, before[set]!)),
      ]);
      rows.push([system, weights, ...cells]);
    }
  }
  await runtime.dispose();
  console.log(
    `Accepted length, chain:${chain}, greedy, first ${given['per-set']} prompts of a set, ${maxNewTokens} tokens; ratios with 95 % intervals from resampled prompts\n`,
  );
  printTable(rows);
}

/** [set] -> [prompt] */
async function measure(target: Target, drafterFolder: string): Promise<Record<string, RequestCounts[]>> {
  const { model, tokenizer } = target;
  const drafter = await loadDrafter(drafterFolder, { target: model, tokenizer });
  const counts: Record<string, RequestCounts[]> = {};
  for (const set of sets) {
    const prompts = await loadPrompts(set, { folder: shared });
    const found: RequestCounts[] = [];
    for (const { text } of prompts.slice(0, Number(given['per-set']))) {
      const options = { maxNewTokens, policy: `chain:${chain}` };
      const { acceptance } = await generateSpeculatively(target, drafter, text, options);
      found.push({ accepted: acceptance.accepted, steps: acceptance.steps });
    }
    counts[set] = found;
  }
  return counts;
}

function lengthOf(requests: readonly RequestCounts[]): number {
  const total = (name: keyof RequestCounts): number =>
    requests.reduce((sum, request) => sum + request[name], 0);
  return 1 + total('accepted') / total('steps');
}

/** Of the two pooled lengths, prompts resampled in pairs. */
function ratio(now: readonly RequestCounts[], before: readonly RequestCounts[]): Interval {
  const pairs = now.map((request, index) => [request, before[index]!] as const);
  const statistic = (chosen: readonly (typeof pairs)[number][]): number =>
    lengthOf(chosen.map(([request]) => request)) / lengthOf(chosen.map(([, request]) => request));
  return bootstrapInterval(pairs, statistic, { seed: 0 });
}

function show({ estimate, low, high }: Interval): string {
  const percent = (share: number): string => (100 * share).toFixed(0);
  return `${percent(estimate)} % [${percent(low)}, ${percent(high)}]`;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
