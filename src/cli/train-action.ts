import { bundledTarget } from '../decode/bundled-models.js';
import { findDrafter } from '../decode/find-drafter.js';
import { MistletoeError } from '../core/errors.js';
import type { TrainSettings } from '../train/settings.js';
import { createTrainRequest } from '../train/train-request.js';
import { trainableSystems } from '../train/systems/new-drafter.js';
import type { TrainOptions, TrainOutcome } from '../train/train-run.js';
import { resumeTraining, startTraining } from '../train/train-run.js';
import { renderTrainingMarkdown } from '../report/training/training-markdown.js';
import { writeTrainingReports } from '../report/training/training-report.js';
import { cacheOf } from './common-options.js';
import { exitCodes } from './failure.js';
import { describeInterruption, followRun, refuseStray, requireData } from './long-runs.js';
import { createModelFinder } from './model-source.js';
import { createProgress } from './progress.js';
import type { Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';
import type { TrainFlags } from './train-flags.js';
import { shapeOf } from './train-flags.js';
import { createTrainProgress } from './train-progress.js';
import { formatTraining, typedPath } from './train-text.js';

export interface TrainInvocation {
  /** Those that were given. */
  readonly settings: Partial<TrainSettings>;
  /** An option that --resume cannot stand beside. */
  readonly strayBesideResume?: string | undefined;
}

export async function runTrain(
  flags: TrainFlags,
  terminal: Terminal,
  invocation: TrainInvocation,
): Promise<number> {
  const progress = createProgress(flags.progress, terminal.stderr);
  const start = await prepare(flags, terminal, invocation, progress.note);
  const events = createTrainProgress(progress, { now: () => performance.now() });
  // Until here Ctrl-C ends it at once: there is nothing to save yet.
  const { outcome, targetFolder = bundledTarget } = await followRun(terminal, progress, events, (options) =>
    start({ ...options, ...cacheOf(flags) }),
  );
  return finish(outcome, targetFolder, flags, terminal);
}

async function prepare(
  flags: TrainFlags,
  terminal: Terminal,
  { settings, strayBesideResume }: TrainInvocation,
  onNotice: (message: string) => void,
): Promise<(options: TrainOptions) => Promise<TrainOutcome>> {
  const { resume, out } = flags;
  if (resume !== undefined) {
    refuseStray(strayBesideResume);
    return (options) => resumeTraining(resume, options);
  }
  if (flags.from === undefined && flags.system === undefined) {
    throw new MistletoeError('usage', 'There is nothing to train: neither --system nor --from was given.', {
      hint: `Give --system with one of ${trainableSystems.join(', ')}, or --from with a drafter.`,
    });
  }
  const data = requireData(flags.data);
  const findModel = createModelFinder(flags, terminal);
  const request = await createTrainRequest({
    ...{ target: await findModel(flags.target), system: flags.system, shape: shapeOf(flags), data, settings },
    from: flags.from === undefined ? undefined : await findModel(findDrafter(flags.from)),
    taps: flags.taps,
    ...{ limit: flags.limit, answers: flags.answers, chatTemplate: flags.chatTemplate, date: flags.date },
    ...{ device: flags.device, dtype: flags.dtype, threads: flags.threads },
    ...{ cacheFolder: flags.cacheDir, onNotice },
  });
  return (options) => startTraining(out ?? { parent: 'runs', name: 'train' }, request, options);
}

async function finish(
  outcome: TrainOutcome,
  targetFolder: string,
  { format }: TrainFlags,
  terminal: Terminal,
): Promise<number> {
  const { stdout, stderr } = terminal;
  const { folder } = outcome;
  if (outcome.status === 'interrupted') {
    stderr.write(describeInterruption('train', folder));
    return exitCodes.interrupted;
  }
  const { result } = outcome;
  const { html } = await writeTrainingReports(folder, result);
  switch (format) {
    case 'text': {
      const target = targetFolder === bundledTarget ? undefined : targetFolder;
      const places = { folder, report: typedPath(html), target };
      stdout.write(formatTraining(result, { ...places, colors: colorsFor(stdout, terminal) }));
      break;
    }
    case 'json':
      stdout.writeData(`${JSON.stringify({ folder, ...result }, undefined, 2)}\n`);
      break;
    case 'markdown':
      stdout.write(renderTrainingMarkdown(result));
      break;
  }
  return exitCodes.success;
}
