/** `mistletoe audit`. */
import { relative } from 'node:path';
import { createRequest } from '../../audit/create-request.js';
import { deviceOf } from '../../runs/run-device.js';
import type { AuditRequest } from '../../audit/audit-request.js';
import type { Effort } from '../../audit/effort.js';
import type { AuditOptions, AuditOutcome } from '../../audit/run-audit.js';
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
import { applyPreset } from '../../audit/settings.js';
import type { Invocation } from '../command.js';
import { defineCommand } from '../command.js';
import { cacheOf, resumable, targetFlag } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { joinLines, printResult, readPromptSets, refuseChanges, runInterruptibly } from '../long-runs.js';
import type { ModelFinder } from '../model-source.js';
import { createModelFinder } from '../model-source.js';
import { createProgress } from '../progress.js';
import type { PromptFinder } from '../prompt-source.js';
import { createPromptFinder } from '../prompt-source.js';
import { asOneLine } from '../safe-text.js';
import type { Output, Terminal } from '../terminal.js';
import { createNotice } from '../terminal.js';
import type { AuditFlags } from './audit-flags.js';
import { auditFlags, givenSettings } from './audit-flags.js';
import { createAuditProgress } from './audit-progress.js';
import { describeUnits, mainDevice, planWorkers, queueOf } from './audit-workers.js';
import { createFleetProgress } from './fleet-progress.js';
import { formatDownloads, planDownloads, predictTime } from './planned-downloads.js';
import { formatAudit } from './audit-text.js';

export const audit = defineCommand({
  name: 'audit',
  description:
    'Searches, with the weights of target and drafter, for suffixes that make drafts fail while the answer stays the same. Measures them against controls of equal effort, and writes a report.',
  flags: auditFlags,
  examples: [
    ['mistletoe audit --drafter sps --preset quick', 'the bundled draft model, small prompt set'],
    ['mistletoe audit -d sps -d eagle3 --transfer', 'two drafters, and what transfers'],
    ['mistletoe audit -d ngram --search random', 'prompt lookup, which has no gradient'],
    [
      'mistletoe audit --target ./my-model --drafter ./my-eagle3 -p my.jsonl --limit 8 --fail-if-drop 0.3',
      '',
    ],
    ['mistletoe audit --suffix runs/target-eagle3-0-1/suffixes.jsonl', 'measure suffixes of an earlier run'],
    ['mistletoe audit --config audit.yaml --show-config', 'settings from a file'],
    ['mistletoe audit -d sps -d eagle3 --workers 4', 'four processes; --queue for several machines'],
    ['mistletoe audit --resume runs/target-eagle3-0-1', 'continue after Ctrl-C or a crash'],
  ],
  notes:
    'It audits models whose weights you have, on your machine. The run folder has report.html, report.md, junit.xml, result.json and suffixes.jsonl; mistletoe compare compares two runs.\n\nExit codes: 0 passed, 1 failure, 2 invalid input, 3 nothing audited, 100 a gate failed, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  complete: (flags) => ({
    ...flags,
    ...applyPreset(flags.preset, givenSettings(flags)),
    chat: undefined,
    target: flags.target === targetFlag.target.default ? undefined : flags.target,
  }),
  async run(flags, invocation) {
    if (flags.verify === undefined) return runAudit(flags, invocation);
    invocation.allowOnly(
      ['verify', 'format'],
      (name) =>
        new MistletoeError('usage', `${name} has no effect on --verify, which runs nothing.`, {
          hint: 'Leave it out; only --format may be given.',
        }),
    );
    return runVerify(flags.verify, flags.format, invocation.terminal.stdout);
  },
});

async function runAudit(flags: AuditFlags, invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  if (flags.dryRun === true) return describePlan(flags, invocation);
  const progress = createProgress(flags.progress, terminal.stderr);
  const start = await prepare(flags, invocation, {
    onNotice: progress.note,
    findModel: createModelFinder(flags, terminal),
    findSet: createPromptFinder(flags, terminal),
  });
  // Until here Ctrl-C kills the process: there is nothing to save yet.
  const [workers, queue] = [await planWorkers(flags), queueOf(flags, terminal)];
  const createEvents =
    workers === undefined && queue === undefined ? createAuditProgress : createFleetProgress;
  const events = createEvents(progress, { now: () => performance.now() });
  const outcome = await runInterruptibly(terminal, progress, 'Finishing the current step', (signal) =>
    start({ events, signal, workers, queue, ...cacheOf(flags) }),
  );
  return finish(outcome, flags, terminal);
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
    device: await mainDevice(flags),
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
  const { stdout } = terminal;
  const downloads = await planDownloads(flags, terminal);
  if (downloads !== undefined) {
    const effort = await predictTime(flags, downloads);
    if (flags.format === 'json') stdout.writeData(`${JSON.stringify({ downloads, effort }, undefined, 2)}\n`);
    else stdout.write(joinLines([...formatDownloads(downloads, effort), describeUnits(flags)]));
    return exitCodes.success;
  }
  const onNotice = createNotice(terminal);
  const findModel = createModelFinder(flags, terminal);
  const findSet = createPromptFinder(flags, terminal);
  const request = await readRequest(flags, formatCommandLine(invocation), { onNotice, findModel, findSet });
  const effort = await planAudit(request, {
    events: { onNotice },
    ...cacheOf(flags),
  });
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

function formatPlan(request: AuditRequest, effort: Effort, memory: string, workers: number): string {
  const { settings, prompts, drafters, target, suffixes } = request;
  const units = countText(prompts.length * drafters.length + effort.searches, 'unit');
  const what =
    suffixes.length > 0
      ? `measure ${countText(suffixes.length, 'given suffix')}`
      : `run ${countText(effort.searches, 'search')} of ${settings.steps} steps, which score ${effort.scoredCandidates} candidates`;
  return joinLines([
    `It would audit ${drafters.map(({ id, policy }) => `${id} (${policy})`).join(', ')} on ${target.name}, ${countText(prompts.length, 'prompt')}, preset ${request.preset}:`,
    `${what}, and decode some ${effort.decodedAnswers} answers of up to ${settings.maxNewTokens} tokens, in ${units}.`,
    `It would run on ${nameDevice(deviceOf(request))}${workers === 1 ? '' : ` with ${workers} workers`}.`,
    `Time: about ${durationText(effort.expectedMs / workers)} on this machine. Memory: about ${memory}${workers === 1 ? '' : ' for each worker'}.`,
    `Settings: ${Object.entries(settings)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ')}.`,
  ]);
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
async function runVerify(folder: string, format: string, stdout: Output): Promise<number> {
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
  return joinLines([
    asOneLine(`${folder}: config.json, ${counts} are unchanged.`),
    results[result],
    `sha256 ${sha256}`,
  ]);
}
