import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { nameModel } from '../checkpoint/hub/hub-settings.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { makeFolderSync } from '../core/durable-files.js';
import { settleDevice } from '../decode/gpu-fit.js';
import { type BenchmarkResult, isFaulty } from '../measure/benchmark-summary.js';
import { describeMachine, findDevices, seatWorkers } from '../runs/run-device.js';
import { toSpecBenchFiles } from '../measure/spec-bench.js';
import { type BenchmarkSetting, formatBenchmark } from '../report/benchmark-table.js';
import { writeWhole } from '../report/document.js';
import { type BenchPlan, openBench, runBenchUnits } from '../runs/bench-units.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { chooseDevice, recordDevice } from '../runtime/device-choice.js';
import { maxNewTokensLimit } from '../core/limits.js';
import { integer, oneOf, text } from '../core/settings.js';
import { bundledDrafters } from '../core/package-files.js';
import { mainDevice } from './audit/audit-flags.js';
import { type Invocation, defineCommand } from './command.js';
import * as common from './common-flags.js';
import { type FlagsOf, flag, group, list } from './flags.js';
import { planDrafters } from './bench-systems.js';
import { exitCodes } from './failure.js';
import { createModelFinder, readPromptSets } from './model-source.js';
import { type Progress, createProgress } from './progress.js';
import type { Terminal } from './terminal.js';

const flags = {
  ...group('What to measure', {
    ...common.targetFlag,
    drafter: list(
      `folder or hub name of a drafter; ${bundledDrafters.join(', ')}; ngram[:MIN,MAX]; or several joined by +, as in ngram+eagle3`,
      text,
      'model',
      { short: 'd', shownDefault: 'the bundled drafters, ngram, and ngram+eagle3' },
    ),
    draft: list(
      'how much to draft: auto, chain:4, tree:mc_sim_7b_63, dynamic:60,5,10; or NAME=POLICY for one drafter',
      text,
      'policy',
      { shownDefault: 'auto; chain:4 with a temperature, int8, or int4' },
    ),
    ...common.tapsFlag,
    prompts: list('a .jsonl or .txt file, or mt-bench, humaneval, gsm8k', text, 'set', {
      short: 'p',
      shownDefault: 'a small bundled set',
    }),
    ...common.promptSetFlags,
    ...common.templateFlags,
    ...common.downloadFlag,
  }),
  ...group('How to measure', {
    maxNewTokens: flag('max tokens to generate', integer(1, maxNewTokensLimit), 'count', {
      short: 'n',
      default: 96,
    }),
    warmup: flag('answers per system and set that are not counted', integer(0, 1000), 'count', {
      default: 1,
      rare: true,
    }),
    concurrency: flag(
      'prompts answered at the same time; answers change only in int8 and int4',
      integer(1, 256),
      'count',
      {
        default: 1,
      },
    ),
    ...common.samplingFlags,
    seed: flag('of sampling', integer(0), 'number', { default: 0, rare: true }),
  }),
  ...group('Output and machine', {
    format: flag(
      'markdown prints tables; json one object; jsonl a line per answer while it runs, then the summaries',
      oneOf(['markdown', 'json', 'jsonl']),
      'format',
      { default: 'markdown' },
    ),
    specBench: flag('also write answer files for the tools of Spec-Bench', text, 'dir', {
      was: ['--answers'],
      rare: true,
    }),
    ...common.progressFlag,
    ...common.machineFlags,
    device: {
      ...common.devicesFlag.device,
      help: `${common.deviceFlags.device.help}; cuda:0,cuda:1 or cuda:all share the prompts, with one thread on each: several on one device would disturb each other’s times`,
    },
  }),
};
export type BenchFlags = FlagsOf<typeof flags>;

export const bench = defineCommand({
  name: 'bench',
  description:
    'Answers the same prompts by plain decoding and with each drafter, interleaved in one process, and compares mean accepted length, speed, and where the time goes.',
  flags,
  examples: [
    ['mistletoe bench', 'all bundled drafters on the small prompt set'],
    ['mistletoe bench --target ./my-model --drafter ./my-eagle3 --prompts my.jsonl --limit 20', ''],
    [
      'mistletoe bench -t meta-llama/Llama-3.1-8B-Instruct -d yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --download',
      '',
    ],
    ['mistletoe bench --prompts-dir ./data -p mt-bench -p humaneval -p gsm8k --limit 20', ''],
    ['mistletoe bench -d eagle --draft chain:4 --draft dynamic:60,5,10', 'two policies'],
    ['mistletoe bench --draft chain:4 --draft eagle3=chain:6', 'chain:4 for all but eagle3'],
  ],
  notes: 'Tables go to stdout, progress to stderr. Ctrl-C prints what is finished.',
  run: runBench,
});

async function runBench(flags: BenchFlags, { terminal }: Invocation): Promise<number> {
  const plans = planDrafters(flags);
  const promptSets = await readPromptSets(flags, terminal);
  if (flags.specBench !== undefined) createFolder(flags.specBench);
  const choice = await chooseDevice({ device: await mainDevice(flags), dtype: flags.dtype });
  const devices = await findDevices(flags.device);
  const findModel = createModelFinder(flags, terminal);
  const target = await findModel(flags.target);
  const drafters: BenchPlan['drafters'][number][] = [];
  for (const { name, source, policies } of plans)
    drafters.push({ name, source: await findModel(source), policies });
  const progress = createProgress(flags.progress, terminal.stderr);
  const folders = [target, ...drafters.map(({ source }) => source)];
  const settled = await settleDevice(choice, folders, progress.note);
  const device = recordDevice(settled);
  const { format, limit, maxNewTokens, seed, warmup, concurrency, threads = availableParallelism() } = flags;
  const sizes = { maxNewTokens, sampling: common.samplingOf(flags), seed, warmup, concurrency };
  const { taps, chatTemplate, date } = flags;
  const loading = { ...common.cacheOf(flags), taps, chatTemplate, date };
  const plan: BenchPlan = { target, drafters, promptSets, limit, ...sizes, ...loading };
  const setting = { target: nameModel(target), machine: describeMachine(device), threads, ...sizes };
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, terminal.closed]);
  const own = { format, specBench: flags.specBench, setting, terminal, progress, abort };
  if (devices !== undefined && devices.length > 1) {
    const seats = seatWorkers({ count: devices.length, devices }, device);
    progress.note(`One thread on each of ${devices.map(({ ordinal }) => `cuda:${ordinal}`).join(', ')}.`);
    return measure(own, (events) => runBenchUnits(plan, seats, events, signal));
  }
  const runtime = await openRuntime(settled, flags.threads);
  try {
    const runner = await openBench(plan, runtime, { onNotice: progress.note, signal });
    return await measure(own, (events) => runner.runAll(events));
  } finally {
    await runtime.dispose();
  }
}

interface Measurement {
  readonly format: BenchFlags['format'];
  readonly specBench: string | undefined;
  readonly setting: BenchmarkSetting;
  readonly terminal: Terminal;
  readonly progress: Progress;
  readonly abort: AbortController;
}

type RunEvents = Parameters<typeof runBenchUnits>[2];

async function measure(
  { format, specBench, setting, terminal, progress, abort }: Measurement,
  run: (events: RunEvents) => Promise<BenchmarkResult>,
): Promise<number> {
  const { stdout } = terminal;
  const writeLine = (value: object): void => {
    stdout.writeData(`${JSON.stringify(value)}\n`);
  };
  const stopListening = terminal.onInterrupt(() => {
    abort.abort();
  });
  let failures = 0;
  const events: RunEvents = {
    onNotice: progress.note,
    onStart(total) {
      if (format === 'jsonl') writeLine({ type: 'setting', ...setting });
      progress.start(total, 'bench');
    },
    onGeneration({ done, set, system }) {
      progress.update(done, { prompts: set, system });
    },
    onRecord(record) {
      if (format === 'jsonl') writeLine({ type: 'answer', ...record });
    },
    onFailure(unit, { message }) {
      failures += 1;
      progress.note(`${unit} failed and is left out: ${message}`);
    },
  };
  const result = await run(events).finally(() => {
    stopListening();
    progress.finish();
  });
  if (specBench !== undefined) await writeAnswers(specBench, result, setting.target);
  if (result.records.length === 0) {
    const reason =
      failures > 0 ? 'Every unit failed.' : 'Interrupted before one prompt was answered by every system.';
    terminal.stderr.write(`${reason}\n`);
    return failures > 0 ? exitCodes.failure : exitCodes.interrupted;
  }
  if (format === 'markdown') stdout.write(formatBenchmark(result, setting));
  else if (format === 'json') writeLine({ setting, ...result });
  else
    for (const summary of [...result.summaries, ...result.categories])
      writeLine({ type: 'summary', ...summary });
  if (failures > 0) return exitCodes.failure;
  if (abort.signal.aborted) return exitCodes.interrupted;
  // Whatever its speed.
  return result.summaries.some(isFaulty) ? exitCodes.failure : exitCodes.success;
}

async function writeAnswers(folder: string, { records }: BenchmarkResult, target: string): Promise<void> {
  for (const { set, modelId, answers } of toSpecBenchFiles(records, target, Date.now())) {
    const setFolder = join(folder, set.replace(/[^\w.-]+/g, '-').replace(/^[-.]+/, ''));
    createFolder(setFolder);
    const lines = answers.map((answer) => `${JSON.stringify(answer)}\n`).join('');
    await writeWhole(join(setFolder, `${modelId}.jsonl`), lines);
  }
}

function createFolder(path: string): void {
  try {
    makeFolderSync(path);
  } catch (cause) {
    throw new MistletoeError('usage', `The folder ${path} cannot be created: ${describeCause(cause)}`, {
      hint: 'Give --spec-bench a folder that can be written.',
      cause,
    });
  }
}
