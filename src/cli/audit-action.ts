import { bundledPrompts } from '../decode/bundled-models.js';
import { relative } from 'node:path';
import { createRequest } from '../audit/create-request.js';
import { deviceOf } from '../runs/run-device.js';
import type { AuditRequest } from '../audit/audit-request.js';
import type { Effort } from '../audit/effort.js';
import type { AuditOptions, AuditOutcome } from '../audit/run-audit.js';
import { planAudit, resumeAudit, startAudit } from '../audit/run-audit.js';
import type { AuditSettings } from '../audit/settings.js';
import { auditSettings } from '../audit/settings.js';
import { MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/display-paths.js';
import { pushAll } from '../core/long-lists.js';
import { countGpuBytes } from '../decode/gpu-fit.js';
import { nameDevice } from '../runtime/device-choice.js';
import { renderJson } from '../report/audit/json.js';
import { renderMarkdown } from '../report/audit/audit-markdown.js';
import { countText, durationText } from '../core/number-text.js';
import { judge } from '../report/audit/verdict.js';
import { writeReports } from '../report/audit/write-reports.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { inlinePrompt, loadPrompts, promptSetFiles } from '../text/prompts/prompt-set.js';
import type { GivenSuffix } from '../text/prompts/suffix-list.js';
import { dropRepeated, parseSuffixes } from '../text/prompts/suffix-list.js';
import type { AuditFlags } from './command-flags.js';
import { createAuditProgress } from './audit-progress.js';
import { formatAudit } from './audit-text.js';
import { cacheOf } from './common-options.js';
import { exitCodes } from './failure.js';
import { refuseStray, runInterruptibly } from './long-runs.js';
import type { ModelFinder } from './model-source.js';
import { createModelFinder } from './model-source.js';
import { createNotice } from './notice.js';
import { createProgress } from './progress.js';
import type { Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';

export interface AuditInvocation {
  /** What the user typed, for the report. */
  readonly commandLine: string;
  /** An option that --resume cannot stand beside. */
  readonly strayBesideResume?: string | undefined;
}

export async function runAuditCommand(
  flags: AuditFlags,
  terminal: Terminal,
  invocation: AuditInvocation,
): Promise<number> {
  if (flags.dryRun === true) return describePlan(flags, terminal, invocation);
  const progress = createProgress(flags.progress, terminal.stderr);
  const start = await prepare(flags, invocation, {
    onNotice: progress.note,
    findModel: createModelFinder(flags, terminal),
  });
  // Until here Ctrl-C ends it at once: models that are fetched and hashed leave no step to finish.
  const events = createAuditProgress(progress, { now: () => performance.now() });
  const outcome = await runInterruptibly(terminal, progress, 'Finishing the current step', (signal) =>
    start({ events, signal, ...cacheOf(flags) }),
  );
  return finish(outcome, flags, terminal);
}

async function prepare(
  flags: AuditFlags,
  { commandLine, strayBesideResume }: AuditInvocation,
  reading: RequestOptions,
): Promise<(options: AuditOptions) => Promise<AuditOutcome>> {
  const { resume } = flags;
  if (resume !== undefined) {
    refuseStray(strayBesideResume, '--progress, --format, --cache-dir, --verify-cache and the gate');
    return (options) => resumeAudit(resume, options);
  }
  const request = await readRequest(flags, commandLine, reading);
  const name = [request.target.name, ...request.drafters.map(({ id }) => id), request.seed].join('-');
  return (options) => startAudit(flags.out ?? { parent: 'runs', name }, request, options);
}

interface RequestOptions {
  readonly onNotice: (message: string) => void;
  readonly findModel: ModelFinder;
}

async function readRequest(
  flags: AuditFlags,
  command: string,
  { onNotice, findModel }: RequestOptions,
): Promise<AuditRequest> {
  return createRequest({
    target: flags.target,
    drafters: flags.drafter,
    draft: flags.draft,
    taps: flags.taps,
    prompts: await readPrompts(flags),
    suffixes: dropRepeated(await readSuffixes(flags.suffix ?? []), onNotice),
    preset: flags.preset,
    settings: pickSettings(flags),
    seed: flags.seed,
    threads: flags.threads,
    device: flags.device,
    dtype: flags.dtype,
    transfer: flags.transfer,
    universal: flags.universal,
    chatTemplate: flags.chatTemplate,
    date: flags.date,
    command,
    cacheFolder: flags.cacheDir,
    findModel,
    onNotice,
  });
}

async function readSuffixes(given: readonly string[]): Promise<GivenSuffix[]> {
  const suffixes: GivenSuffix[] = [];
  for (const value of given) pushAll(suffixes, await parseSuffixes(value));
  return suffixes;
}

async function describePlan(
  flags: AuditFlags,
  terminal: Terminal,
  { commandLine }: AuditInvocation,
): Promise<number> {
  if (flags.resume !== undefined) {
    throw new MistletoeError('usage', '--dry-run and --resume were both given; one was expected.', {
      hint: 'Leave --dry-run out to go on with the run.',
    });
  }
  const onNotice = createNotice(terminal);
  const findModel = createModelFinder(flags, terminal);
  const request = await readRequest(flags, commandLine, { onNotice, findModel });
  const effort = await planAudit(request, {
    events: { onNotice },
    ...cacheOf(flags),
  });
  const { stdout } = terminal;
  if (flags.format === 'json')
    stdout.writeData(
      `${JSON.stringify({ ...effort, device: request.device, settings: request.settings }, undefined, 2)}\n`,
    );
  else stdout.write(formatPlan(request, effort, await describeMemory(request, effort)));
  return exitCodes.success;
}

function formatPlan(request: AuditRequest, effort: Effort, memory: string): string {
  const { settings, prompts, drafters, target, suffixes } = request;
  const what =
    suffixes.length > 0
      ? `measure ${countText(suffixes.length, 'given suffix')}`
      : `run ${countText(effort.searches, 'search')} of ${settings.steps} steps, which score ${effort.scoredCandidates} candidates`;
  return [
    `It would audit ${drafters.map(({ id, policy }) => `${id} (${policy})`).join(', ')} on ${target.name}, ${countText(prompts.length, 'prompt')}, preset ${request.preset}:`,
    `${what}, and decode some ${effort.decodedAnswers} answers of up to ${settings.maxNewTokens} tokens.`,
    `It would run on ${nameDevice(deviceOf(request))}.`,
    `Time: about ${durationText(effort.expectedMs)} on this machine. Memory: about ${memory}.`,
    `Settings: ${Object.entries(settings)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ')}.`,
    '',
  ]
    .map((line) => line.replace(/[\r\n]/g, ' '))
    .join('\n');
}

async function describeMemory(request: AuditRequest, { memoryBytes, mappedBytes }: Effort): Promise<string> {
  const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
  const { kind, dtype } = deviceOf(request);
  if (kind === 'cuda') {
    const folders = [request.targetFolder, ...request.drafters.map(({ folder }) => folder)];
    return `${mebibytes(await countGpuBytes(folders, dtype))} of the GPU’s, and what searches take beside that`;
  }
  if (mappedBytes === 0) return mebibytes(memoryBytes);
  return `${mebibytes(memoryBytes)}, and ${mebibytes(mappedBytes)} of weights mapped from the cache`;
}

async function readPrompts(flags: AuditFlags): Promise<readonly Prompt[]> {
  const { prompt, prompts, promptsDir, limit } = flags;
  if (prompt !== undefined && prompts !== undefined) {
    throw new MistletoeError('usage', '--prompt and --prompts were both given; one was expected.', {
      hint: 'Put the one prompt into the file, or audit it alone.',
    });
  }
  if (prompt !== undefined) return [inlinePrompt(prompt)];
  const source = prompts ?? bundledPrompts;
  if (!Object.hasOwn(promptSetFiles, source) && !/\.(jsonl|txt)$/.test(source)) {
    throw new MistletoeError(
      'usage',
      `--prompts is ${source}; a .jsonl or .txt file, or one of ${Object.keys(promptSetFiles).join(', ')} was expected.`,
      { hint: 'A text on the command line is given by --prompt.' },
    );
  }
  const loaded = await loadPrompts(source, promptsDir === undefined ? {} : { folder: promptsDir });
  return loaded.slice(0, limit);
}

function pickSettings(flags: AuditFlags): Partial<AuditSettings> {
  const names = Object.keys(auditSettings) as (keyof AuditSettings)[];
  const given = names.filter((name) => flags[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, flags[name]]));
}

async function finish(outcome: AuditOutcome, flags: AuditFlags, terminal: Terminal): Promise<number> {
  const { stdout, stderr } = terminal;
  const path = outcome.folder.path;
  if (outcome.status === 'interrupted') {
    stderr.write(
      `Interrupted. Go on with:\n  mistletoe audit --resume ${quoteWord(path)}${gateWords(flags)}\n`,
    );
    return exitCodes.interrupted;
  }
  const { result, timings } = outcome;
  const { failIfDrop, failIfAcceptedLengthBelow } = flags;
  const verdict = judge(result, { failIfDrop, failIfAcceptedLengthBelow });
  const reports = await writeReports(path, result, timings, verdict);
  switch (flags.format) {
    case 'text': {
      const report = relative('.', reports.html);
      stdout.write(formatAudit(result, verdict, { report, timings, colors: colorsFor(stdout, terminal) }));
      break;
    }
    case 'json':
      stdout.writeData(renderJson(result, timings, verdict, path));
      break;
    case 'markdown':
      stdout.write(renderMarkdown(result, timings, verdict));
      break;
  }
  return verdict.exitCode;
}

function gateWords({ failIfDrop, failIfAcceptedLengthBelow }: AuditFlags): string {
  return [
    failIfDrop === undefined ? '' : ` --fail-if-drop ${failIfDrop}`,
    failIfAcceptedLengthBelow === undefined
      ? ''
      : ` --fail-if-accepted-length-below ${failIfAcceptedLengthBelow}`,
  ].join('');
}
