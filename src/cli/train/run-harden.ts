/** Runs a hardening and prints its result. */
import { MistletoeError } from '../../core/errors.js';
import { bundledTarget } from '../../decode/bundled-models.js';
import { findDrafter } from '../../decode/find-drafter.js';
import { writeReports } from '../../report/audit/write-reports.js';
import { createHardenRequest } from '../../train/harden/harden-request.js';
import type { HardenOptions, HardenOutcome } from '../../train/harden/harden-run.js';
import { resumeHardening, startHardening } from '../../train/harden/harden-run.js';
import { renderHardeningMarkdown } from '../../report/harden/hardening-markdown.js';
import { writeHardeningReports } from '../../report/harden/hardening-report.js';
import { baselineNames } from '../../train/harden/hardening-settings.js';
import type { Invocation } from '../command.js';
import { cacheOf, resumable } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import {
  describeInterruption,
  followRun,
  printResult,
  readPromptSets,
  refuseChanges,
  requireData,
  typedPath,
} from '../long-runs.js';
import { createModelFinder } from '../model-source.js';
import { createPromptFinder } from '../prompt-source.js';
import { createProgress } from '../progress.js';
import type { Terminal } from '../terminal.js';
import type { HardenFlags } from './harden-flags.js';
import { givenAudit, givenHardening, givenHardenTraining } from './harden-flags.js';
import { createHardenProgress } from './harden-progress.js';
import { formatHardening } from './harden-text.js';

export async function runHarden(flags: HardenFlags, invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  const progress = createProgress(flags.progress, terminal.stderr);
  const start = await prepare(flags, invocation, progress.note);
  const events = createHardenProgress(progress, { now: () => performance.now() });
  // Until here Ctrl-C kills the process: there is nothing to save yet.
  const { outcome, targetFolder = bundledTarget } = await followRun(terminal, progress, events, (options) =>
    start({ ...options, ...cacheOf(flags), writeAuditReports: writeReports }),
  );
  return finish(outcome, targetFolder, flags, terminal);
}

async function prepare(
  flags: HardenFlags,
  invocation: Invocation,
  onNotice: (message: string) => void,
): Promise<(options: HardenOptions) => Promise<HardenOutcome>> {
  const { resume, drafter, out } = flags;
  if (resume !== undefined) {
    refuseChanges(invocation, resumable);
    return (options) => resumeHardening(resume, options);
  }
  if (drafter === undefined) {
    throw new MistletoeError('usage', '--drafter was not given, so there is nothing to harden.', {
      hint: 'Give the folder of a drafter, its hub name or a bundled name.',
    });
  }
  const data = requireData(flags.data);
  const findSet = createPromptFinder(flags, invocation.terminal);
  const prompts = await readPromptSets(flags.prompts, flags, findSet);
  const findModel = createModelFinder(flags, invocation.terminal);
  const request = await createHardenRequest({
    target: await findModel(flags.target),
    drafter: await findModel(findDrafter(drafter)),
    data,
    prompts,
    hardening: givenHardening(flags),
    training: givenHardenTraining(flags),
    audit: givenAudit(flags),
    preset: flags.preset,
    audits: flags.audits,
    strongerPrompts: flags.strongerPrompts,
    baselines:
      flags.baseline.length === 0
        ? ['random']
        : baselineNames.filter((name) => flags.baseline.includes(name)),
    taps: flags.taps,
    answers: flags.answers,
    chatTemplate: flags.chatTemplate,
    date: flags.date,
    device: flags.device,
    dtype: flags.dtype,
    threads: flags.threads,
    cacheFolder: flags.cacheDir,
    onNotice,
  });
  return (options) => startHardening(out ?? { parent: 'runs', name: 'harden' }, request, options);
}

async function finish(
  outcome: HardenOutcome,
  targetFolder: string,
  { format }: HardenFlags,
  terminal: Terminal,
): Promise<number> {
  const { folder } = outcome;
  if (outcome.status === 'interrupted') {
    terminal.stderr.write(describeInterruption('harden', folder));
    return exitCodes.interrupted;
  }
  const { result, hardened } = outcome;
  const { html } = await writeHardeningReports(folder, result);
  const target = targetFolder === bundledTarget ? undefined : targetFolder;
  printResult(format, terminal, {
    text: (colors) => formatHardening(result, { hardened, report: typedPath(html), target, colors }),
    json: () => `${JSON.stringify({ folder, hardened, ...result }, undefined, 2)}\n`,
    markdown: () => renderHardeningMarkdown(result),
  });
  const isAudited = result.audits[0]?.rows.every(({ promptsAudited }) => promptsAudited > 0) === true;
  return isAudited ? exitCodes.success : exitCodes.incomplete;
}
