/** Runs an audit and prints its result. */
import { relative } from 'node:path';
import { createRequest } from '../../audit/create-request.js';
import { applyPreset } from '../../audit/settings.js';
import { deviceOf } from '../../runs/run-device.js';
import { findDevices } from '../../runs/worker-devices.js';
import type { AuditRequest } from '../../audit/audit-request.js';
import type { Effort } from '../../audit/effort.js';
import type { AuditOptions, AuditOutcome } from '../../audit/run-audit.js';
import type { WorkerPlan } from '../../audit/units/executors.js';
import { planAudit, resumeAudit, startAudit } from '../../audit/run-audit.js';
import { MistletoeError } from '../../core/errors.js';
import { quoteWord, shortenPath } from '../../core/display-paths.js';
import { pushAll } from '../../core/long-lists.js';
import { countGpuBytes } from '../../decode/gpu-fit.js';
import { nameDevice } from '../../runtime/device-choice.js';
import { renderJson } from '../../report/audit/json.js';
import { renderMarkdown } from '../../report/audit/audit-markdown.js';
import { countText, durationText } from '../../core/number-text.js';
import { judge } from '../../report/audit/verdict.js';
import { writeReports } from '../../report/audit/write-reports.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import { inlinePrompt } from '../../text/prompts/prompt-set.js';
import type { GivenSuffix } from '../../text/prompts/suffix-list.js';
import { dropRepeated, parseSuffixes } from '../../text/prompts/suffix-list.js';
import type { RunVerification } from '../../report/audit/verify-run.js';
import { verifyFinishedRun } from '../../report/audit/verify-run.js';
import type { Invocation } from '../command.js';
import { cacheOf, resumable } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { printResult, readPromptSets, refuseChanges, runInterruptibly } from '../long-runs.js';
import type { ModelFinder } from '../model-source.js';
import { createModelFinder } from '../model-source.js';
import { createProgress } from '../progress.js';
import type { PromptFinder } from '../prompt-source.js';
import { createPromptFinder } from '../prompt-source.js';
import { asOneLine } from '../safe-text.js';
import type { Output, Terminal } from '../terminal.js';
import { createNotice } from '../terminal.js';
import type { AuditFlags } from './audit-flags.js';
import { givenSettings } from './audit-flags.js';
import { createAuditProgress } from './audit-progress.js';
import { formatDownloads, planDownloads } from './planned-downloads.js';
import { createFleetProgress } from './fleet-progress.js';
import { formatAudit } from './audit-text.js';

export async function runAudit(flags: AuditFlags, invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  if (flags.dryRun === true) return describePlan(flags, invocation);
  const progress = createProgress(flags.progress, terminal.stderr);
  const start = await prepare(flags, invocation, {
    onNotice: progress.note,
    findModel: createModelFinder(flags, terminal),
    findSet: createPromptFinder(flags, terminal),
  });
  // Until here Ctrl-C kills the process: there is nothing to save yet.
  const workers = await planWorkers(flags);
  const queue = queueOf(flags, terminal);
  const createEvents =
    workers === undefined && queue === undefined ? createAuditProgress : createFleetProgress;
  const events = createEvents(progress, { now: () => performance.now() });
  const outcome = await runInterruptibly(terminal, progress, 'Finishing the current step', (signal) =>
    start({ events, signal, ...cacheOf(flags), ...givenOnly({ workers, queue }) }),
  );
  return finish(outcome, flags, terminal);
}

/** Undefined for a run in this process. */
async function planWorkers({ workers, device, resume }: AuditFlags): Promise<WorkerPlan | undefined> {
  const devices = await findDevices(device);
  if (resume !== undefined && device !== undefined && devices === undefined) throw fixedDevice();
  const count = workers ?? devices?.length ?? 1;
  if (count === 1 && (devices?.length ?? 1) === 1) return undefined;
  return { count, devices };
}

/** A password in the environment does not show in lists of processes. */
export function queueOf(
  { queue }: { readonly queue?: string | undefined },
  { environment }: Terminal,
): string | undefined {
  const url = queue ?? environment.MISTLETOE_QUEUE ?? '';
  return url === '' ? undefined : url;
}

/** For options that must be absent rather than undefined. */
function givenOnly<Options extends object>(
  options: Options,
): { [Name in keyof Options]?: NonNullable<Options[Name]> } {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as ReturnType<typeof givenOnly<Options>>;
}

function fixedDevice(): MistletoeError {
  return new MistletoeError('usage', '--device cannot be changed when a run is resumed.', {
    hint: 'With several GPUs of the same kind, cuda:0,cuda:1 or cuda:all places workers on them.',
  });
}

async function prepare(
  flags: AuditFlags,
  invocation: Invocation,
  reading: RequestOptions,
): Promise<(options: AuditOptions) => Promise<AuditOutcome>> {
  const { resume } = flags;
  if (resume !== undefined) {
    const gate = ['failIfDrop', 'failIfAcceptedLengthBelow'];
    refuseChanges(
      invocation,
      [...resumable, ...gate, 'workers', 'queue', 'device'],
      '--progress, --format, --cache-dir, --verify-cache, --workers, --queue, --device for workers and the gate',
    );
    return (options) => resumeAudit(resume, options);
  }
  const request = await readRequest(flags, formatCommandLine(invocation), reading);
  const name = [request.target.name, ...request.drafters.map(({ id }) => id), request.seed].join('-');
  return (options) => startAudit(flags.out ?? { parent: 'runs', name }, request, options);
}

interface RequestOptions {
  readonly onNotice: (message: string) => void;
  readonly findModel: ModelFinder;
  readonly findSet: PromptFinder;
}

async function readRequest(
  flags: AuditFlags,
  command: string,
  { onNotice, findModel, findSet }: RequestOptions,
): Promise<AuditRequest> {
  return createRequest({
    target: flags.target,
    drafters: flags.drafter,
    draft: flags.draft,
    taps: flags.taps,
    prompts: await readPrompts(flags, findSet),
    suffixes: dropRepeated(await readSuffixes(flags.suffix), onNotice),
    preset: flags.preset,
    settings: givenSettings(flags),
    seed: flags.seed,
    threads: flags.threads,
    device: (await findDevices(flags.device)) === undefined ? flags.device : 'cuda',
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

async function describePlan(flags: AuditFlags, invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  if (flags.resume !== undefined) {
    throw new MistletoeError('usage', '--dry-run and --resume were both given; one was expected.', {
      hint: 'Leave --dry-run out to resume the run.',
    });
  }
  const onNotice = createNotice(terminal);
  const downloads = await planDownloads(flags, terminal);
  if (downloads !== undefined) {
    const { stdout } = terminal;
    if (flags.format === 'json') stdout.writeData(`${JSON.stringify({ downloads }, undefined, 2)}\n`);
    else stdout.write(`${[...formatDownloads(downloads), describeUnits(flags)].join('\n')}\n`);
    return exitCodes.success;
  }
  const findModel = createModelFinder(flags, terminal);
  const findSet = createPromptFinder(flags, terminal);
  const request = await readRequest(flags, formatCommandLine(invocation), { onNotice, findModel, findSet });
  const effort = await planAudit(request, {
    events: { onNotice },
    ...cacheOf(flags),
  });
  const { stdout } = terminal;
  if (flags.format === 'json')
    stdout.writeData(
      `${JSON.stringify({ ...effort, device: request.device, settings: request.settings }, undefined, 2)}\n`,
    );
  else {
    const workers = (await planWorkers(flags))?.count ?? 1;
    stdout.write(formatPlan(request, effort, await describeMemory(request, effort), workers));
  }
  return exitCodes.success;
}

/** Of prompts that are not here yet, as many as --limit says. */
function describeUnits(flags: AuditFlags): string {
  const { repeats, controlSearches } = applyPreset(flags.preset, givenSettings(flags));
  const drafters = Math.max(1, flags.drafter.length);
  const perPrompt = 2 * repeats + (controlSearches ? 2 : 0);
  const sets = Math.max(1, flags.prompts.length);
  if (flags.limit === undefined) return `Each prompt has ${countText(drafters * perPrompt, 'search')}.`;
  const searches = sets * flags.limit * drafters * perPrompt;
  return `${countText(sets * flags.limit, 'prompt')} or fewer: ${countText(searches, 'search')} in ${countText(sets * flags.limit * drafters * (1 + perPrompt), 'unit')}.`;
}

function formatPlan(request: AuditRequest, effort: Effort, memory: string, workers: number): string {
  const { settings, prompts, drafters, target, suffixes } = request;
  const units = prompts.length * drafters.length + effort.searches;
  const what =
    suffixes.length > 0
      ? `measure ${countText(suffixes.length, 'given suffix')}`
      : `run ${countText(effort.searches, 'search')} of ${settings.steps} steps, which score ${effort.scoredCandidates} candidates`;
  return [
    `It would audit ${drafters.map(({ id, policy }) => `${id} (${policy})`).join(', ')} on ${target.name}, ${countText(prompts.length, 'prompt')}, preset ${request.preset}:`,
    `${what}, and decode some ${effort.decodedAnswers} answers of up to ${settings.maxNewTokens} tokens.`,
    `It would run on ${nameDevice(deviceOf(request))}${workers === 1 ? '' : ` with ${workers} workers`}, in ${countText(units, 'unit')}.`,
    `Time: about ${durationText(effort.expectedMs / workers)} on this machine. Memory: about ${memory}${workers === 1 ? '' : ' for each worker'}.`,
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
    return `${mebibytes(await countGpuBytes(folders, dtype))} of GPU memory, plus what searches need`;
  }
  if (mappedBytes === 0) return mebibytes(memoryBytes);
  return `${mebibytes(memoryBytes)}, and ${mebibytes(mappedBytes)} of weights mapped from the cache`;
}

async function readPrompts(
  { prompt, prompts, ...flags }: AuditFlags,
  findSet: PromptFinder,
): Promise<readonly Prompt[]> {
  if (prompt !== undefined) return [inlinePrompt(prompt)];
  return readPromptSets(prompts, flags, findSet);
}

/** Flags that do not change the result. */
const irrelevant = [
  'out',
  'progress',
  'format',
  'cacheDir',
  'verifyCache',
  'dryRun',
  'download',
  'workers',
  'queue',
];

/** Reports are shared, so the command line in them shows no folders. */
const shownValues: Readonly<Record<string, (value: string) => string>> = {
  target: shortenPath,
  drafter: shortenPath,
  prompts: shortenPath,
  promptsDir: shortenPath,
  chatTemplate: shortenPath,
  draft: (policy) => policy.replace(/(?<=^tree:).*/s, shortenPath),
  suffix: (text) => (/\.(txt|jsonl)$/.test(text) ? shortenPath(text) : text),
};

const formatCommandLine = ({ commandLine }: Invocation): string => commandLine(irrelevant, shownValues);

async function finish(outcome: AuditOutcome, flags: AuditFlags, terminal: Terminal): Promise<number> {
  const path = outcome.folder.path;
  if (outcome.status === 'interrupted') {
    terminal.stderr.write(
      `Interrupted. Resume with:\n  mistletoe audit --resume ${quoteWord(path)}${gateWords(flags)}\n`,
    );
    return exitCodes.interrupted;
  }
  const { result, timings } = outcome;
  const { failIfDrop, failIfAcceptedLengthBelow } = flags;
  const verdict = judge(result, { failIfDrop, failIfAcceptedLengthBelow });
  const reports = await writeReports(path, result, timings, verdict);
  const report = relative('.', reports.html);
  printResult(flags.format, terminal, {
    text: (colors) => formatAudit(result, verdict, { report, timings, colors }),
    json: () => renderJson(result, timings, verdict, path),
    markdown: () => renderMarkdown(result, timings, verdict),
  });
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

/** Throws if anything was changed since it was written. */
export async function runVerify(folder: string, format: string, stdout: Output): Promise<number> {
  const verified = await verifyFinishedRun(folder);
  if (format === 'json') stdout.writeData(`${JSON.stringify(verified, undefined, 2)}\n`);
  else stdout.write(describeVerified(verified));
  return exitCodes.success;
}

function describeVerified({ folder, version, units, steps, sha256, result }: RunVerification): string {
  const results: Readonly<Record<RunVerification['result'], string>> = {
    follows: 'result.json and suffixes.jsonl follow from them.',
    unfinished: 'The run is not finished: there is no result.json.',
    'other-version': `result.json was written by Mistletoe ${version} and was not recomputed.`,
  };
  const counts = `${countText(units, 'unit')} and ${countText(steps, 'step')}`;
  return [
    asOneLine(`${folder}: config.json, ${counts} are unchanged.`),
    asOneLine(results[result]),
    `sha256 ${sha256}`,
    '',
  ].join('\n');
}
