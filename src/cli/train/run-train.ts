/** Runs a training and prints its result. */
import { bundledTarget } from '../../decode/bundled-models.js';
import { findDrafter } from '../../decode/find-drafter.js';
import { MistletoeError } from '../../core/errors.js';
import { createTrainRequest } from '../../train/train-request.js';
import { trainableSystems } from '../../draft/fresh/new-drafter.js';
import type { TrainOptions, TrainOutcome } from '../../train/train-run.js';
import { resumeTraining, startTraining } from '../../train/train-run.js';
import { renderTrainingMarkdown } from '../../report/training/training-markdown.js';
import { writeTrainingReports } from '../../report/training/training-report.js';
import type { Invocation } from '../command.js';
import { cacheOf, resumable } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import {
  describeInterruption,
  followRun,
  printResult,
  refuseChanges,
  requireData,
  typedPath,
} from '../long-runs.js';
import { createModelFinder } from '../model-source.js';
import { createProgress } from '../progress.js';
import type { Terminal } from '../terminal.js';
import type { TrainFlags } from './train-flags.js';
import { givenShape, givenTraining } from './train-flags.js';
import { createTrainProgress } from './train-progress.js';
import { formatTraining } from './train-text.js';

export async function runTrain(flags: TrainFlags, invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  const progress = createProgress(flags.progress, terminal.stderr);
  const start = await prepare(flags, invocation, progress.note);
  const events = createTrainProgress(progress, { now: () => performance.now() });
  // Until here Ctrl-C kills the process: there is nothing to save yet.
  const { outcome, targetFolder = bundledTarget } = await followRun(terminal, progress, events, (options) =>
    start({ ...options, ...cacheOf(flags) }),
  );
  return finish(outcome, targetFolder, flags, terminal);
}

async function prepare(
  flags: TrainFlags,
  invocation: Invocation,
  onNotice: (message: string) => void,
): Promise<(options: TrainOptions) => Promise<TrainOutcome>> {
  const { resume, out } = flags;
  if (resume !== undefined) {
    refuseChanges(invocation, resumable);
    return (options) => resumeTraining(resume, options);
  }
  if (flags.from === undefined && flags.system === undefined) {
    throw new MistletoeError(
      'usage',
      'Neither --system nor --from was given, so there is nothing to train.',
      {
        hint: `Give --system with one of ${trainableSystems.join(', ')}, or --from with a drafter.`,
      },
    );
  }
  const data = requireData(flags.data);
  const findModel = createModelFinder(flags, invocation.terminal);
  const request = await createTrainRequest({
    target: await findModel(flags.target),
    system: flags.system,
    shape: givenShape(flags),
    data,
    settings: givenTraining(flags),
    from: flags.from === undefined ? undefined : await findModel(findDrafter(flags.from)),
    taps: flags.taps,
    limit: flags.limit,
    answers: flags.answers,
    chatTemplate: flags.chatTemplate,
    date: flags.date,
    device: flags.device,
    dtype: flags.dtype,
    threads: flags.threads,
    cacheFolder: flags.cacheDir,
    onNotice,
  });
  return (options) => startTraining(out ?? { parent: 'runs', name: 'train' }, request, options);
}

async function finish(
  outcome: TrainOutcome,
  targetFolder: string,
  { format }: TrainFlags,
  terminal: Terminal,
): Promise<number> {
  const { folder } = outcome;
  if (outcome.status === 'interrupted') {
    terminal.stderr.write(describeInterruption('train', folder));
    return exitCodes.interrupted;
  }
  const { result } = outcome;
  const { html } = await writeTrainingReports(folder, result);
  const target = targetFolder === bundledTarget ? undefined : targetFolder;
  printResult(format, terminal, {
    text: (colors) => formatTraining(result, { folder, report: typedPath(html), target, colors }),
    json: () => `${JSON.stringify({ folder, ...result }, undefined, 2)}\n`,
    markdown: () => renderTrainingMarkdown(result),
  });
  return exitCodes.success;
}
