import { basename, extname } from 'node:path';
import type { AuditSettings } from '../audit/settings.js';
import { MistletoeError } from '../core/errors.js';
import { pushAll } from '../core/long-lists.js';
import { bundledPrompts, bundledTarget } from '../decode/bundled-models.js';
import { findDrafter } from '../decode/find-drafter.js';
import { writeReports } from '../report/audit/write-reports.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { loadPrompts, promptSetFiles } from '../text/prompts/prompt-set.js';
import { createHardenRequest } from '../train/harden/harden-request.js';
import type { HardenOptions, HardenOutcome } from '../train/harden/harden-run.js';
import { resumeHardening, startHardening } from '../train/harden/harden-run.js';
import { renderHardeningMarkdown } from '../report/harden/hardening-markdown.js';
import { writeHardeningReports } from '../report/harden/hardening-report.js';
import type { HardeningSettings } from '../train/harden/hardening-settings.js';
import type { TrainSettings } from '../train/settings.js';
import { cacheOf } from './common-options.js';
import { exitCodes } from './failure.js';
import type { HardenFlags } from './harden-flags.js';
import { createHardenProgress } from './harden-progress.js';
import { formatHardening } from './harden-text.js';
import { describeInterruption, followRun, refuseStray, requireData } from './long-runs.js';
import { createModelFinder } from './model-source.js';
import { createProgress } from './progress.js';
import type { Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';
import { typedPath } from './train-text.js';

/** Settings are those that were given. */
export interface HardenInvocation {
  readonly hardening: Partial<HardeningSettings>;
  readonly training: Partial<TrainSettings>;
  readonly audit: Partial<AuditSettings>;
  /** An option that --resume cannot stand beside. */
  readonly strayBesideResume?: string | undefined;
}

export async function runHarden(
  flags: HardenFlags,
  terminal: Terminal,
  invocation: HardenInvocation,
): Promise<number> {
  const progress = createProgress(flags.progress, terminal.stderr);
  const start = await prepare(flags, terminal, invocation, progress.note);
  const events = createHardenProgress(progress, { now: () => performance.now() });
  // Until here Ctrl-C ends it at once: there is nothing to save yet.
  const { outcome, targetFolder = bundledTarget } = await followRun(terminal, progress, events, (options) =>
    start({ ...options, ...cacheOf(flags), writeAuditReports: writeReports }),
  );
  return finish(outcome, targetFolder, flags, terminal);
}

async function prepare(
  flags: HardenFlags,
  terminal: Terminal,
  { hardening, training, audit, strayBesideResume }: HardenInvocation,
  onNotice: (message: string) => void,
): Promise<(options: HardenOptions) => Promise<HardenOutcome>> {
  const { resume, drafter, out } = flags;
  if (resume !== undefined) {
    refuseStray(strayBesideResume);
    return (options) => resumeHardening(resume, options);
  }
  if (drafter === undefined) {
    throw new MistletoeError('usage', 'There is nothing to harden: --drafter was not given.', {
      hint: 'Give the folder of a drafter, its name on the hub or a bundled name.',
    });
  }
  const data = requireData(flags.data);
  const prompts = await readPrompts(flags);
  const findModel = createModelFinder(flags, terminal);
  const { preset, audits, strongerPrompts, device, dtype, threads } = flags;
  const baselines = flags.baseline === false ? [] : flags.baseline;
  const request = await createHardenRequest({
    ...{ target: await findModel(flags.target), drafter: await findModel(findDrafter(drafter)), data },
    ...{ prompts, hardening, training, audit, preset, audits, strongerPrompts, baselines },
    taps: flags.taps,
    ...{ answers: flags.answers, chatTemplate: flags.chatTemplate, date: flags.date },
    ...{ device, dtype, threads, cacheFolder: flags.cacheDir, onNotice },
  });
  return (options) => startHardening(out ?? { parent: 'runs', name: 'harden' }, request, options);
}

async function readPrompts({ prompts, promptsDir, limit }: HardenFlags): Promise<readonly Prompt[]> {
  const read: Prompt[] = [];
  const sources = prompts ?? [bundledPrompts];
  for (const source of sources) {
    if (!Object.hasOwn(promptSetFiles, source) && !/\.(jsonl|txt)$/.test(source)) {
      throw new MistletoeError(
        'usage',
        `--prompts is ${source}; .jsonl or .txt files, or some of ${Object.keys(promptSetFiles).join(', ')} were expected.`,
        { hint: 'Put the prompts into a file.' },
      );
    }
    const loaded = await loadPrompts(source, promptsDir === undefined ? {} : { folder: promptsDir });
    // Sets count their prompts alike: ids are told apart by the set's name.
    const name = sources.length === 1 ? '' : `${basename(source, extname(source))}-`;
    pushAll(
      read,
      loaded.slice(0, limit).map((prompt) => ({ ...prompt, id: `${name}${prompt.id}` })),
    );
  }
  return read;
}

async function finish(
  outcome: HardenOutcome,
  targetFolder: string,
  { format }: HardenFlags,
  terminal: Terminal,
): Promise<number> {
  const { stdout, stderr } = terminal;
  const { folder } = outcome;
  if (outcome.status === 'interrupted') {
    stderr.write(describeInterruption('harden', folder));
    return exitCodes.interrupted;
  }
  const { result, hardened } = outcome;
  const { html } = await writeHardeningReports(folder, result);
  switch (format) {
    case 'text': {
      const target = targetFolder === bundledTarget ? undefined : targetFolder;
      const places = { hardened, report: typedPath(html), target };
      stdout.write(formatHardening(result, { ...places, colors: colorsFor(stdout, terminal) }));
      break;
    }
    case 'json':
      stdout.writeData(`${JSON.stringify({ folder, hardened, ...result }, undefined, 2)}\n`);
      break;
    case 'markdown':
      stdout.write(renderHardeningMarkdown(result));
      break;
  }
  const isAudited = result.audits[0]?.rows.every(({ promptsAudited }) => promptsAudited > 0) === true;
  return isAudited ? exitCodes.success : exitCodes.incomplete;
}
