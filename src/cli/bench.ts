/** `mistletoe bench`. */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { nameModel } from '../checkpoint/hub/hub-cache.js';
import { makeFolderSync } from '../core/files.js';
import { settleDevice } from '../decode/gpu-fit.js';
import { createPolicy, defaultDraftPolicy } from '../decode/speculative-text.js';
import { openTarget } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import { loadDrafter } from '../draft/systems.js';
import { formatDraftPolicy } from '../draft/tree/policy.js';
import type { BenchmarkOptions, BenchmarkResult, BenchmarkSystem, PromptSet } from '../measure/benchmark.js';
import { runBenchmark } from '../measure/benchmark.js';
import { describeMachine } from '../measure/machine.js';
import { toSpecBenchFiles } from '../measure/spec-bench.js';
import type { BenchmarkSetting } from '../report/benchmark-table.js';
import { formatBenchmark } from '../report/benchmark-table.js';
import { writeWhole } from '../report/document.js';
import { openRuntime } from '../runtime/create-runtime.js';
import type { RecordedDevice } from '../runtime/device-choice.js';
import { chooseDevice, recordDevice } from '../runtime/device-choice.js';
import { loadPrompts } from '../text/prompts/prompt-set.js';
import { maxNewTokensLimit } from '../core/limits.js';
import { integer, oneOf, text } from '../core/settings.js';
import { bundledDrafters } from '../decode/bundled-models.js';
import type { Invocation } from './command.js';
import { defineCommand } from './command.js';
import * as common from './common-flags.js';
import type { FlagsOf } from './flags.js';
import { flag, group, list } from './flags.js';
import type { DrafterPlan } from './bench-systems.js';
import { planDrafters, planPromptSets } from './bench-systems.js';
import { exitCodes } from './failure.js';
import { createModelFinder, createPromptFinder } from './model-source.js';
import type { PromptFinder } from './model-source.js';
import type { Progress } from './progress.js';
import { createProgress } from './progress.js';
import type { Terminal } from './terminal.js';

const flags = {
  ...group('What to measure', {
    ...common.targetFlag,
    drafter: list(
      `folder or hub name of a drafter; ${bundledDrafters.join(', ')}; ngram[:MIN,MAX]; or both, as in ngram+eagle3`,
      text,
      'model',
      { short: 'd', shownDefault: 'the bundled drafters, ngram, and ngram+eagle3' },
    ),
    draft: list(
      'how much to draft: auto, chain:4, tree:mc_sim_7b_63, dynamic:60,5,10; or NAME=POLICY for one drafter',
      text,
      'policy',
      { shownDefault: 'auto; chain:4 with a temperature' },
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
    concurrency: flag('prompts answered at the same time; answers do not change', integer(1, 256), 'count', {
      default: 1,
    }),
    ...common.samplingFlags,
    seed: flag('of sampling and of the bootstrap', integer(0), 'number', { default: 0, rare: true }),
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

async function runBench(given: BenchFlags, { terminal }: Invocation): Promise<number> {
  const plans = planDrafters(given);
  const promptSets = await readPromptSets(given, createPromptFinder(given, terminal));
  if (given.specBench !== undefined) makeFolderSync(given.specBench);
  const choice = await chooseDevice(given);
  const findModel = createModelFinder(given, terminal);
  const flags = { ...given, target: await findModel(given.target) };
  const sources: string[] = [];
  for (const { source } of plans) sources.push(await findModel(source));
  const progress = createProgress(flags.progress, terminal.stderr);
  const settled = await settleDevice(choice, [flags.target, ...sources], progress.note);
  const runtime = await openRuntime(settled, flags.threads);
  const loading = { onNotice: progress.note, ...common.cacheOf(flags), ...common.tapsOf(flags) };
  try {
    const target = await openTarget(flags.target, { runtime, ...loading, ...common.templateOf(flags) });
    const systems: BenchmarkSystem[] = [];
    for (const [index, plan] of plans.entries()) {
      const { model, tokenizer } = target;
      const drafter = await loadDrafter(sources[index]!, { target: model, tokenizer, ...loading });
      systems.push(...systemsOf(plan, drafter, flags));
    }
    const setting = settingOf(flags, recordDevice(settled));
    return await measure(flags, terminal, progress, setting, { target, systems, promptSets });
  } finally {
    await runtime.dispose();
  }
}

async function readPromptSets(flags: BenchFlags, findSet: PromptFinder): Promise<readonly PromptSet[]> {
  const sets: PromptSet[] = [];
  for (const { name, source } of planPromptSets(flags))
    sets.push({ name, prompts: await loadPrompts(await findSet(source), { folder: flags.promptsDir }) });
  return sets;
}

function systemsOf({ name, policies }: DrafterPlan, drafter: Drafter, flags: BenchFlags): BenchmarkSystem[] {
  const chosen = policies.length > 0 ? policies : [defaultDraftPolicy(drafter, common.samplingOf(flags))];
  // Refuses a policy that does not fit the drafter before anything is measured.
  for (const policy of chosen) createPolicy(policy, drafter);
  return chosen.map((policy) => ({
    name,
    policy: formatDraftPolicy(policy),
    drafter,
    createPolicy: () => createPolicy(policy, drafter),
  }));
}

async function measure(
  flags: BenchFlags,
  terminal: Terminal,
  progress: Progress,
  setting: BenchmarkSetting,
  subjects: Pick<BenchmarkOptions, 'target' | 'systems' | 'promptSets'>,
): Promise<number> {
  const { stdout } = terminal;
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
      ...subjects,
      maxNewTokens,
      sampling,
      seed,
      warmup,
      concurrency,
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
  if (flags.specBench !== undefined) await writeAnswers(flags.specBench, result, setting.target);
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
  // A benchmark with answers that differ from plain decoding has failed, whatever its speed.
  const isLossless = summaries.every(({ speculation }) => (speculation?.differingAnswers ?? 0) === 0);
  return isLossless ? exitCodes.success : exitCodes.failure;
}

function settingOf(flags: BenchFlags, device: RecordedDevice): BenchmarkSetting {
  const { maxNewTokens, seed, warmup, concurrency } = flags;
  return {
    target: nameModel(flags.target),
    machine: describeMachine(device),
    threads: flags.threads ?? availableParallelism(),
    maxNewTokens,
    sampling: common.samplingOf(flags),
    seed,
    warmup,
    concurrency,
  };
}

async function writeAnswers(folder: string, { records }: BenchmarkResult, target: string): Promise<void> {
  for (const { set, modelId, answers } of toSpecBenchFiles(records, target, Date.now())) {
    const setFolder = join(folder, set.replace(/[^\w.-]+/g, '-').replace(/^[-.]+/, ''));
    makeFolderSync(setFolder);
    const lines = answers.map((answer) => `${JSON.stringify(answer)}\n`).join('');
    await writeWhole(join(setFolder, `${modelId}.jsonl`), lines);
  }
}
