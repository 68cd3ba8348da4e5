import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { nameModel } from '../checkpoint/hub/hub-cache.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { makeFolderSync } from '../core/files.js';
import { settleDevice } from '../decode/gpu-fit.js';
import { createPolicy, defaultDraftPolicy } from '../decode/speculative-text.js';
import type { Target } from '../decode/target.js';
import { openTarget } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import { loadDrafter } from '../draft/load-drafter.js';
import { formatDraftPolicy } from '../draft/tree/policy.js';
import type { BenchmarkResult, BenchmarkSystem, PromptSet } from '../measure/benchmark.js';
import { runBenchmark } from '../measure/benchmark.js';
import { describeMachine } from '../measure/machine.js';
import { toSpecBenchFiles } from '../measure/spec-bench.js';
import type { BenchmarkSetting } from '../report/benchmark-table.js';
import { formatBenchmark } from '../report/benchmark-table.js';
import { writeWhole } from '../report/audit/write-reports.js';
import { openRuntime } from '../runtime/create-runtime.js';
import type { RecordedDevice } from '../runtime/device-choice.js';
import { chooseDevice, recordDevice } from '../runtime/device-choice.js';
import { loadPrompts } from '../text/prompts/prompt-set.js';
import { cacheOf, samplingOf, tapsOf, templateOf } from './common-options.js';
import type { BenchFlags } from './command-flags.js';
import type { DrafterPlan } from './bench-systems.js';
import { planDrafters, planPromptSets } from './bench-systems.js';
import { exitCodes } from './failure.js';
import { createModelFinder } from './model-source.js';
import type { Progress } from './progress.js';
import { createProgress } from './progress.js';
import type { Terminal } from './terminal.js';

export async function runBench(given: BenchFlags, terminal: Terminal): Promise<number> {
  const plans = planDrafters(given);
  const promptSets = await readPromptSets(given);
  if (given.answers !== undefined) createFolder(given.answers);
  const choice = await chooseDevice(given);
  const findModel = createModelFinder(given, terminal);
  const flags = { ...given, target: await findModel(given.target) };
  const sources: string[] = [];
  for (const { source } of plans) sources.push(await findModel(source));
  const progress = createProgress(flags.progress, terminal.stderr);
  const settled = await settleDevice(choice, [flags.target, ...sources], progress.note);
  const runtime = await openRuntime(settled, flags.threads);
  const loading = { onNotice: progress.note, ...cacheOf(flags), ...tapsOf(flags) };
  try {
    const target = await openTarget(flags.target, { runtime, ...loading, ...templateOf(flags) });
    const systems: BenchmarkSystem[] = [];
    for (const [index, plan] of plans.entries()) {
      const { model, tokenizer } = target;
      const drafter = await loadDrafter(sources[index]!, { target: model, tokenizer, ...loading });
      systems.push(...systemsOf(plan, drafter, flags));
    }
    const device = recordDevice(settled);
    return await measure({ flags, device, terminal, progress, target, systems, promptSets });
  } finally {
    await runtime.dispose();
  }
}

async function readPromptSets(flags: BenchFlags): Promise<readonly PromptSet[]> {
  const options = flags.promptsDir === undefined ? {} : { folder: flags.promptsDir };
  return Promise.all(
    planPromptSets(flags).map(async ({ name, source }) => ({
      name,
      prompts: await loadPrompts(source, options),
    })),
  );
}

function systemsOf({ name, policies }: DrafterPlan, drafter: Drafter, flags: BenchFlags): BenchmarkSystem[] {
  const chosen = policies.length > 0 ? policies : [defaultDraftPolicy(drafter, flags)];
  // A policy that does not fit the drafter is refused here, before anything is measured.
  for (const policy of chosen) createPolicy(policy, drafter);
  return chosen.map((policy) => ({
    name,
    policy: formatDraftPolicy(policy),
    drafter,
    createPolicy: () => createPolicy(policy, drafter),
  }));
}

interface Measurement {
  readonly flags: BenchFlags;
  readonly device: RecordedDevice;
  readonly terminal: Terminal;
  readonly progress: Progress;
  readonly target: Target;
  readonly systems: readonly BenchmarkSystem[];
  readonly promptSets: readonly PromptSet[];
}

async function measure({
  flags,
  device,
  terminal,
  progress,
  target,
  systems,
  promptSets,
}: Measurement): Promise<number> {
  const { stdout } = terminal;
  const setting = settingOf(flags, device);
  const { maxNewTokens, sampling, seed, warmup, concurrency } = setting;
  const writeLine = (value: object): void => {
    stdout.writeData(`${JSON.stringify(value)}\n`);
  };
  const abort = new AbortController();
  const stopListening = terminal.onInterrupt(() => {
    abort.abort();
  });
  if (flags.format === 'jsonl') writeLine({ type: 'setting', ...setting });
  const result = await runBenchmark(
    {
      ...{ target, systems, promptSets, maxNewTokens, sampling, seed, warmup, concurrency },
      limit: flags.limit,
      signal: AbortSignal.any([abort.signal, terminal.closed]),
    },
    {
      onNotice: progress.note,
      onStart(total) {
        progress.start(total, 'bench');
      },
      onGeneration({ done, set, system }) {
        progress.update(done, { prompts: set, system });
      },
      onRecord(record) {
        if (flags.format === 'jsonl') writeLine({ type: 'answer', ...record });
      },
    },
  ).finally(() => {
    stopListening();
    progress.finish();
  });
  if (flags.answers !== undefined) await writeAnswers(flags.answers, result, setting.target);
  if (result.records.length === 0) {
    terminal.stderr.write('Interrupted before one prompt was answered by every system.\n');
    return exitCodes.interrupted;
  }
  if (flags.format === 'markdown') stdout.write(formatBenchmark(result, setting));
  else if (flags.format === 'json') writeLine({ setting, ...result });
  else
    for (const summary of [...result.summaries, ...result.categories])
      writeLine({ type: 'summary', ...summary });
  return exitCodeOf(result, abort.signal);
}

function exitCodeOf({ summaries }: BenchmarkResult, interrupted: AbortSignal): number {
  if (interrupted.aborted) return exitCodes.interrupted;
  // Lossless is a promise: a benchmark in which it is broken has not succeeded, whatever its speed.
  const isLossless = summaries.every(({ speculation }) => (speculation?.differingAnswers ?? 0) === 0);
  return isLossless ? exitCodes.success : exitCodes.failure;
}

function settingOf(flags: BenchFlags, device: RecordedDevice): BenchmarkSetting {
  const { maxNewTokens, seed, warmup, concurrency } = flags;
  const sampling = samplingOf(flags);
  const threads = flags.threads ?? availableParallelism();
  return {
    target: nameModel(flags.target),
    machine: describeMachine(device),
    threads,
    maxNewTokens,
    sampling,
    seed,
    warmup,
    concurrency,
  };
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
      hint: 'Give --answers a folder that can be written.',
      cause,
    });
  }
}
