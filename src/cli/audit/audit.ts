import { relative } from 'node:path';
import { createRequest, type AuditRequest } from '../../audit/audit-request.js';
import { type AuditOutcome, resumeAudit, startAudit } from '../../audit/run-audit.js';
import type { AuditOptions } from '../../audit/units/executors.js';
import { MistletoeError } from '../../core/errors.js';
import { quoteWord, shortenPath } from '../../core/files.js';
import { createAuditReport } from '../../report/audit/audit-report.js';
import { renderJson, writeReports } from '../../report/audit/write-reports.js';
import { printReport } from '../../report/document.js';
import { countText } from '../../core/number-text.js';
import { judge } from '../../report/audit/verdict.js';
import { inlinePrompt } from '../../text/prompts/prompt-set.js';
import { dropRepeated, parseSuffixes } from '../../text/prompts/suffix-list.js';
import { type RunVerification, verifyFinishedRun } from '../../report/audit/verify-run.js';
import { applyPreset } from '../../audit/settings.js';
import { type Invocation, defineCommand } from '../command.js';
import { cacheOf, resumable } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { joinLines, printResult, refuseChanges, runWithProgress } from '../long-runs.js';
import { createModelFinder, joinPromptSets, readPromptSets } from '../model-source.js';
import { createProgress } from '../progress.js';
import { asOneLine, type Terminal } from '../terminal.js';
import {
  type AuditFlags,
  auditFlags,
  givenSettings,
  mainDevice,
  planWorkers,
  queueOf,
} from './audit-flags.js';
import { printPlan } from './audit-plan.js';
import { createAuditProgress } from './audit-progress.js';
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
    [
      'mistletoe audit -d sps -d eagle3 --workers 4',
      'four processes, or threads on a GPU; --queue for several machines',
    ],
    ['mistletoe audit --resume runs/target-eagle3-0-1', 'continue after Ctrl-C or a crash'],
  ],
  notes:
    'It audits models whose weights you have, on your machine. The run folder has report.html, report.md, junit.xml, result.json and suffixes.jsonl; mistletoe compare compares two runs.\n\nExit codes: 0 passed, 1 failure, 2 invalid input, 3 nothing audited, 4 a gate is undecided, 100 a gate failed, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  complete: (flags) => ({
    ...flags,
    ...applyPreset(flags.preset, givenSettings(flags)),
    chat: undefined,
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
    const verified = await verifyFinishedRun(flags.verify); // throws if anything was changed
    printResult(flags.format === 'json' ? 'json' : 'text', invocation.terminal, {
      json: () => verified,
      text: () => describeVerified(verified),
    });
    return exitCodes.success;
  },
});

async function runAudit(flags: AuditFlags, invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  if (flags.dryRun === true) {
    await printPlan(flags, terminal, (onNotice) => readRequest(flags, invocation, onNotice));
    return exitCodes.success;
  }
  const progress = createProgress(flags.progress, terminal.stderr);
  const start = await prepare(flags, invocation, progress.note);
  // Until here Ctrl-C kills the process: there is nothing to save yet.
  const [workers, queue] = [await planWorkers(flags), queueOf(flags, terminal)];
  const events = createAuditProgress(progress);
  const outcome = await runWithProgress(terminal, progress, 'Finishing the current step', (signal) =>
    start({ events, signal, workers, queue, ...cacheOf(flags) }),
  );
  return finish(outcome, flags, terminal);
}

async function prepare(
  flags: AuditFlags,
  invocation: Invocation,
  onNotice: (message: string) => void,
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
  const request = await readRequest(flags, invocation, onNotice);
  const name = [request.target.name, ...request.drafters.map(({ id }) => id), request.seed].join('-');
  return (options) => startAudit(flags.out ?? { parent: 'runs', name }, request, options);
}

async function readRequest(
  flags: AuditFlags,
  { commandLine, terminal }: Invocation,
  onNotice: (message: string) => void,
): Promise<AuditRequest> {
  const { prompt } = flags;
  const suffixes = await Promise.all(flags.suffix.map(parseSuffixes));
  return createRequest({
    ...flags,
    drafters: flags.drafter,
    prompts:
      prompt === undefined
        ? joinPromptSets(await readPromptSets(flags, terminal), flags.limit)
        : [inlinePrompt(prompt)],
    suffixes: dropRepeated(suffixes.flat(), onNotice),
    settings: givenSettings(flags),
    device: await mainDevice(flags),
    command: commandLine(irrelevant, shownValues),
    findModel: createModelFinder(flags, terminal),
    onNotice,
  });
}

/** Flags that do not change the result. */
const irrelevant = [
  'out',
  'progress',
  'format',
  'cacheFolder',
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
    markdown: () => printReport(createAuditReport(result, timings, verdict), 'markdown'),
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
