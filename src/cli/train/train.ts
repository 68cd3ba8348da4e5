import { join } from 'node:path';
import { MistletoeError } from '../../core/errors.js';
import { durationText } from '../../core/number-text.js';
import { omitSetting, text } from '../../core/settings.js';
import { findDrafter } from '../../decode/find-drafter.js';
import { findTrainable, trainableSystems } from '../../draft/systems.js';
import { drafterSizes } from '../../draft/draft-system.js';
import { printReport } from '../../report/document.js';
import { tableText } from '../../report/table.js';
import {
  createTrainingReport,
  describeEnd,
  describeTexts,
  lengthTable,
  writeTrainingReports,
} from '../../report/training/training-report.js';
import type { TrainSettings } from '../../train/settings.js';
import {
  commonSettings,
  defaultSettings,
  learningSettings,
  objectiveSettings,
  textSettings,
  trainSettings,
} from '../../train/settings.js';
import { createTrainRequest } from '../../train/train-request.js';
import type { TrainingResult, TrainOptions, TrainOutcome } from '../../train/train-run.js';
import { resumeTraining, startTraining } from '../../train/train-run.js';
import { type Invocation, defineCommand } from '../command.js';
import * as common from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { type FlagsOf, type Given, flag, group, pickGiven, settingFlags, toggle } from '../flags.js';
import { describeNext, joinLines, requireData, runInFolder, typedPath } from '../long-runs.js';
import { createModelFinder, createPromptFinder } from '../model-source.js';
import type { Colors } from '../terminal.js';
import { createTrainProgress } from './train-progress.js';

/** The value that most systems have, and the exceptions. */
function describeDefault(name: keyof TrainSettings): string {
  const valueOf = (system: string): string => {
    const value = defaultSettings({ system, maximumDepth: Infinity })[name];
    return value === Infinity ? 'one per head' : String(value);
  };
  const common = String(commonSettings[name]);
  const others = trainableSystems.filter((system) => valueOf(system) !== common);
  return [common, ...others.map((system) => `${system}: ${valueOf(system)}`)].join('; ');
}

export const conversationFlags = {
  data: flag(
    'one conversation a line: {"prompt": …}, {"messages": …}, {"turns": …} or {"conversations": …}',
    text,
    'file',
  ),
  answers: flag(
    'reuse the answers that the target generated in an earlier run of train or harden; missing answers are generated',
    text,
    'run',
  ),
};

const otherTextSettings = omitSetting(textSettings, 'generate');

const shapeFlags = settingFlags(drafterSizes, (size) =>
  trainableSystems.filter((name) => findTrainable(name)!.training.sizes.includes(size)).join(', '),
);

const trainFlags = {
  ...group('What to train', {
    ...common.targetFlag,
    system: flag(`start with fresh weights: ${trainableSystems.join(', ')}`, text, 'name'),
    from: flag('start from this drafter: a folder, a hub name or a bundled name', text, 'model'),
    ...conversationFlags,
    limit: { ...common.promptSetFlags.limit, help: 'use only the first conversations' },
    ...common.tapsFlag,
    ...common.templateFlags,
    ...common.downloadFlag,
  }),
  ...group('Size of a fresh drafter [of these systems] (default: as published)', shapeFlags),
  ...group('How it learns [default]', {
    ...settingFlags(learningSettings, describeDefault),
    ...settingFlags(objectiveSettings, describeDefault),
  }),
  ...group('Texts, answers and measurements [default]', {
    noGenerate: toggle('learn from the answers in the data instead of generating them', { rare: true }),
    ...settingFlags(otherTextSettings, describeDefault),
  }),
  ...group('Run', {
    ...common.runFlags,
    ...common.reportFormatFlag,
    ...common.progressFlag,
    ...common.machineFlags,
  }),
};
type TrainFlags = FlagsOf<typeof trainFlags>;

export const givenTraining = (
  flags: Given<TrainSettings> & { readonly noGenerate?: true | undefined },
): Partial<TrainSettings> => ({
  ...pickGiven(trainSettings, flags),
  ...(flags.noGenerate === true ? { generate: false } : {}),
});

export const train = defineCommand({
  name: 'train',
  description:
    'The target answers your questions, a drafter learns to predict these answers, and its accepted length is measured on held-out texts. The drafter is a folder in the published layout of its system.',
  flags: trainFlags,
  examples: [
    ['mistletoe train --system eagle3 --data questions.jsonl --steps 500', 'for the bundled model'],
    ['mistletoe train -t ./my-model --system medusa --heads 3 --data chats.jsonl --out runs/medusa', ''],
    ['mistletoe train -t ./my-model --from ./my-eagle3 --data chats.jsonl --learning-rate 1e-4', ''],
    ['mistletoe train --system eagle3 --show-config', 'all settings, as YAML for --config'],
    ['mistletoe train --resume runs/medusa', 'continue after Ctrl-C or a crash'],
  ],
  notes:
    'The run folder has best/ and last/, which are drafters for --drafter, and report.html, report.md, result.json, log.jsonl.\n\nExit codes: 0 done, 1 failure, 2 invalid input, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  complete(flags) {
    const system = flags.system ?? 'speculative-sampling';
    const maximumDepth = flags.heads ?? Infinity;
    const defaults = { ...defaultSettings({ system, maximumDepth }), generate: undefined };
    const given = givenTraining({ ...flags, noGenerate: undefined });
    const warmupSteps = Math.ceil((given.steps ?? defaults.steps) / 20);
    const settings = { ...defaults, warmupSteps, ...given };
    const finite = Object.fromEntries(
      Object.entries(settings).filter(([, value]) => value !== Infinity && value !== undefined),
    );
    return { ...flags, ...finite };
  },
  run: (flags, invocation) =>
    runInFolder(flags, invocation, {
      command: 'train',
      createEvents: createTrainProgress,
      prepare: (onNotice) => prepare(flags, invocation, onNotice),
      resume: resumeTraining,
      async finish({ folder, result }, target) {
        const { html } = await writeTrainingReports(folder, result);
        return {
          exitCode: exitCodes.success,
          text: (colors) => formatTraining(result, folder, typedPath(html), target, colors),
          json: () => ({ folder, ...result }),
          markdown: () => printReport(createTrainingReport(result), 'markdown'),
        };
      },
    }),
});

async function prepare(
  flags: TrainFlags,
  { terminal }: Invocation,
  onNotice: (message: string) => void,
): Promise<(options: TrainOptions) => Promise<TrainOutcome>> {
  if (flags.from === undefined && flags.system === undefined) {
    throw new MistletoeError(
      'usage',
      'Neither --system nor --from was given, so there is nothing to train.',
      { hint: `Give --system with one of ${trainableSystems.join(', ')}, or --from with a drafter.` },
    );
  }
  const data = await createPromptFinder(flags, terminal)(requireData(flags.data));
  const findModel = createModelFinder(flags, terminal);
  const request = await createTrainRequest({
    ...flags,
    target: await findModel(flags.target),
    shape: pickGiven(shapeFlags, flags),
    data,
    settings: givenTraining(flags),
    from: flags.from === undefined ? undefined : await findModel(findDrafter(flags.from)),
    onNotice,
  });
  return (options) => startTraining(flags.out ?? { parent: 'runs', name: 'train' }, request, options);
}

function formatTraining(
  result: TrainingResult,
  folder: string,
  report: string,
  target: string | undefined,
  colors: Colors,
): string {
  const best = typedPath(join(folder, 'best'));
  return joinLines([
    ...drawLengths(result, colors),
    `${describeEnd(result)}, in ${durationText(result.elapsedMs)}`,
    describeTexts(result),
    '',
    `${colors.bold('best')}  ${best}`,
    `${colors.bold('last')}  ${typedPath(join(folder, 'last'))}`,
    '',
    ...describeNext(best, target),
    '',
    `Report: ${report}`,
  ]);
}

function drawLengths(result: TrainingResult, colors: Colors): string[] {
  const table = lengthTable(result);
  if (table === undefined)
    return ['No text was held out; run `mistletoe bench` to measure the accepted length.'];
  const [heading = '', ...rows] = tableText({
    columns: table.columns.slice(0, 4),
    rows: table.rows.map(({ cells }) => ({ cells: cells.slice(0, 4) })),
  });
  const legend = `accepted length: tokens a step on held-out texts, with drafts of ${result.settings.chain}`;
  return [colors.dim(heading), ...rows, colors.dim(legend), ''];
}
