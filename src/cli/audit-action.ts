import { relative } from 'node:path';
import { createRequest } from '../audit/create-request.js';
import type { AuditEvents } from '../audit/drafter-audit.js';
import type { AuditOptions, AuditOutcome } from '../audit/run-audit.js';
import { resumeAudit, startAudit } from '../audit/run-audit.js';
import { chooseRunFolder } from '../audit/run-folder.js';
import type { AuditSettings } from '../audit/settings.js';
import { settingsSchema } from '../audit/settings.js';
import { MistletoeError } from '../core/errors.js';
import { renderJson } from '../report/json.js';
import { renderMarkdown } from '../report/markdown.js';
import { judge } from '../report/verdict.js';
import { writeReports } from '../report/write-reports.js';
import type { Prompt } from '../text/prompt-set.js';
import { inlinePrompt, loadPrompts, promptSetFiles } from '../text/prompt-set.js';
import type { AuditFlags } from './audit-command.js';
import { createAuditProgress } from './audit-progress.js';
import { formatAudit } from './audit-text.js';
import { bundledPrompts } from './bench-command.js';
import { exitCodes } from './failure.js';
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
  const progress = createProgress(flags.progress, terminal.stderr);
  const abort = new AbortController();
  const stopListening = terminal.onInterrupt(() => {
    progress.note('Finishing the current step; Ctrl-C again stops at once.');
    abort.abort();
  });
  const outcome = await begin(flags, invocation, {
    events: createAuditProgress(progress, { now: () => performance.now() }),
    signal: abort.signal,
    ...(flags.cacheDir === undefined ? {} : { cacheFolder: flags.cacheDir }),
  }).finally(() => {
    stopListening();
    progress.finish();
  });
  return finish(outcome, flags, terminal);
}

async function begin(
  flags: AuditFlags,
  { commandLine, strayBesideResume }: AuditInvocation,
  options: AuditOptions & { readonly events: AuditEvents },
): Promise<AuditOutcome> {
  if (flags.resume !== undefined) {
    if (strayBesideResume !== undefined) {
      throw new MistletoeError('usage', `${strayBesideResume} cannot be changed when a run is resumed.`, {
        hint: 'Leave it out; --progress, --format, --cache-dir and the gate may be given.',
      });
    }
    return resumeAudit(flags.resume, options);
  }
  const request = await createRequest({
    target: flags.target,
    drafters: flags.drafter,
    draft: flags.draft,
    prompts: await readPrompts(flags),
    preset: flags.preset,
    settings: pickSettings(flags),
    seed: flags.seed,
    threads: flags.threads,
    transfer: flags.transfer,
    universal: flags.universal,
    command: commandLine,
    cacheFolder: flags.cacheDir,
  });
  const names = [request.target.name, ...request.drafters.map(({ id }) => id), request.seed];
  const path = flags.out ?? chooseRunFolder('runs', names.join('-'));
  return startAudit(path, request, options);
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
  const names = Object.keys(settingsSchema.shape) as (keyof AuditSettings)[];
  const given = names.filter((name) => flags[name] !== undefined && name !== 'controlSearches');
  return {
    ...Object.fromEntries(given.map((name) => [name, flags[name]])),
    ...(flags.controlSearches === false ? { controlSearches: false } : {}),
  };
}

async function finish(outcome: AuditOutcome, flags: AuditFlags, terminal: Terminal): Promise<number> {
  const { stdout, stderr } = terminal;
  const path = outcome.folder.path;
  if (outcome.status === 'interrupted') {
    stderr.write(`Interrupted. Go on with:\n  mistletoe audit --resume ${path}${gateWords(flags)}\n`);
    return exitCodes.interrupted;
  }
  const { result, timings } = outcome;
  const { failIfDrop, failIfAcceptedLengthBelow } = flags;
  const verdict = judge(result, { failIfDrop, failIfAcceptedLengthBelow });
  const reports = await writeReports(path, result, timings, verdict);
  switch (flags.format) {
    case 'text': {
      const report = relative('.', reports.html);
      stdout.write(formatAudit(result, verdict, { report, colors: colorsFor(stdout, terminal) }));
      break;
    }
    case 'json':
      stdout.write(renderJson(result, timings, verdict));
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
