/** The options of `train` that are settings of a run, each with what it is set to where it is not given. */
import type { Command } from 'commander';
import { Option } from 'commander';
import { deepestDraft, mostNewTokens } from '../core/limits.js';
import type { TrainSettings } from '../train/settings.js';
import { defaultSettings } from '../train/settings.js';
import type { DrafterShape } from '../train/train-request.js';
import { trainableSystems } from '../train/systems/new-drafter.js';
import type { DownloadFlags, DrafterFlags, MachineFlags, TemplateFlags } from './common-options.js';
import { isGiven } from './long-runs.js';
import { byteSize, number, wholeNumber } from './option-values.js';
import type { ProgressMode } from './progress.js';

/** The sizes are there only where they were given, and so are the settings, under the names of their options. */
export interface TrainFlags extends DrafterShape, MachineFlags, TemplateFlags, DownloadFlags, DrafterFlags {
  readonly target: string;
  readonly system?: string;
  readonly from?: string;
  readonly data?: string;
  readonly limit?: number;
  readonly answers?: string;
  readonly out?: string;
  readonly resume?: string;
  readonly progress: ProgressMode;
  readonly format: 'text' | 'json' | 'markdown';
}

interface SettingFlag {
  readonly name: keyof TrainSettings;
  readonly flags: string;
  readonly text: string;
  /** In place of the value in brackets. */
  readonly usual?: string;
  readonly parse?: (text: string) => number;
  readonly choices?: readonly string[];
}

const count = wholeNumber(1);
const notNegative = number({ least: 0, expected: 'a number of 0 or more' });
const positive = number({ above: 0, expected: 'a number above 0' });
const share = number({ least: 0, most: 1, expected: 'a number from 0 to 1' });

const learning: readonly SettingFlag[] = [
  { name: 'steps', flags: '--steps <count>', text: 'updates of the weights', parse: count },
  {
    name: 'batchTokens',
    flags: '--batch-tokens <count>',
    text: 'tokens of a batch, padding among them',
    parse: count,
  },
  {
    name: 'rows',
    flags: '--rows <kind>',
    text: 'of a batch: one text and padding in each, or several texts one behind the other',
    choices: ['padded', 'packed'],
  },
  {
    name: 'accumulation',
    flags: '--accumulation <count>',
    text: 'batches whose gradients make one update',
    parse: count,
  },
  { name: 'rate', flags: '--learning-rate <number>', text: 'peak of the learning rate', parse: positive },
  {
    name: 'warmupSteps',
    flags: '--warmup <updates>',
    text: 'updates until that peak',
    usual: 'a twentieth of the steps',
    parse: wholeNumber(0),
  },
  {
    name: 'rateFloor',
    flags: '--rate-floor <share>',
    text: 'what is left of the peak at the end',
    parse: share,
  },
  { name: 'weightDecay', flags: '--weight-decay <number>', text: 'of AdamW', parse: notNegative },
  { name: 'clip', flags: '--clip <length>', text: 'longest gradient', parse: positive },
];

const objective: readonly SettingFlag[] = [
  {
    name: 'depth',
    flags: '--depth <levels>',
    text: 'levels of a draft that are trained',
    usual: '1; medusa and hydra: as many as heads; eagle3: 4',
    parse: wholeNumber(1, deepestDraft),
  },
  {
    name: 'labels',
    flags: '--labels <kind>',
    text: 'learn the target’s distribution, or the tokens of the text alone',
    choices: ['soft', 'tokens'],
  },
  {
    name: 'decay',
    flags: '--decay <share>',
    text: 'what a level counts beside the one before',
    parse: share,
  },
  {
    name: 'featureWeight',
    flags: '--feature-weight <number>',
    text: 'what the distance to the target’s features counts; of eagle alone',
    parse: notNegative,
  },
  {
    name: 'labelWeight',
    flags: '--label-weight <number>',
    text: 'what the labels count',
    parse: notNegative,
  },
  {
    name: 'noise',
    flags: '--noise <width>',
    text: 'width of the uniform noise on the features that are read',
    parse: notNegative,
  },
];

const texts: readonly SettingFlag[] = [
  {
    name: 'learn',
    flags: '--learn <tokens>',
    text: 'tokens that are foreseen: of the answers, or of the prompts as well',
    choices: ['answers', 'all'],
  },
  {
    name: 'freeze',
    flags: '--freeze <part>',
    text: 'what stays as it is: nothing, or embeddings and output',
    choices: ['none', 'vocabulary'],
  },
  {
    name: 'maxNewTokens',
    flags: '-n, --max-new-tokens <count>',
    text: 'longest answer that the target writes',
    parse: wholeNumber(1, mostNewTokens),
  },
  {
    name: 'temperature',
    flags: '--temperature <number>',
    text: 'of those answers; 0 is greedy',
    parse: notNegative,
  },
  { name: 'maxTokens', flags: '--max-tokens <count>', text: 'longer texts are cut', parse: wholeNumber(2) },
  {
    name: 'validation',
    flags: '--validation <share>',
    text: 'of the conversations that are held out; 0 holds out none',
    parse: number({ least: 0, most: 0.5, expected: 'a number from 0 to 0.5' }),
  },
  {
    name: 'validationTexts',
    flags: '--validation-texts <count>',
    text: 'held-out texts that are measured, at most',
    parse: count,
  },
  {
    name: 'chain',
    flags: '--chain <tokens>',
    text: 'length of the drafts whose accepted length is measured on them',
    usual: '4, or as many as heads',
    parse: wholeNumber(1, deepestDraft),
  },
  {
    name: 'validateEvery',
    flags: '--validate-every <updates>',
    text: 'updates between two measurements',
    parse: count,
  },
  {
    name: 'patience',
    flags: '--patience <count>',
    text: 'end after so many measurements without a better one; 0: never',
    parse: wholeNumber(0),
  },
  {
    name: 'saveEvery',
    flags: '--save-every <updates>',
    text: 'updates between two saved states',
    parse: count,
  },
  {
    name: 'keepStates',
    flags: '--keep-states <size>',
    text: 'keep what the target computes of each text on the disk, up to this size such as 20GB, for later epochs',
    usual: 'none are kept',
    parse: byteSize(1),
  },
  { name: 'seed', flags: '--seed <number>', text: 'of everything random', parse: wholeNumber(0) },
];

const settingFlags = [...learning, ...objective, ...texts];

export function addTrainSettings(command: Command): void {
  const add = ({ name, flags, text, usual = usualOf(name), parse, choices }: SettingFlag): void => {
    const option = new Option(flags, `${text} [${usual}]`);
    if (parse !== undefined) option.argParser(parse);
    if (choices !== undefined) option.choices(choices);
    command.addOption(option);
  };
  command.optionsGroup('How it learns (in brackets what is usual; it depends on the system):');
  learning.forEach(add);
  command.optionsGroup('What it learns:');
  objective.forEach(add);
  command.optionsGroup('Texts, answers and measurements:');
  command.option(
    '--no-generate',
    'learn from the answers in the data; without this the target writes all of them anew',
  );
  command.option(
    '--answers <run>',
    'take the answers that an earlier run of train or harden had the target write; what it did not ask is asked',
  );
  texts.forEach(add);
}

/** The value that most systems have, and those that have another. */
function usualOf(name: keyof TrainSettings): string {
  const values = trainableSystems.map((system) =>
    String(defaultSettings({ system, maximumDepth: Infinity })[name]),
  );
  const common = String(defaultSettings({ system: 'speculative-sampling', maximumDepth: Infinity })[name]);
  const others = trainableSystems.flatMap((system, index) =>
    values[index] === common ? [] : [`${system}: ${values[index]!}`],
  );
  return [common, ...others].join('; ');
}

/** The settings that were given, by their own names. */
export function readSettings(command: Command): Partial<TrainSettings> {
  const given = settingFlags.flatMap(({ name, flags }) => {
    const attribute = new Option(flags).attributeName();
    return isGiven(command, attribute) ? [[name, command.getOptionValue(attribute) as unknown] as const] : [];
  });
  return { ...Object.fromEntries(given), ...(isGiven(command, 'generate') ? { generate: false } : {}) };
}

const shapeNames = [
  ...(['heads', 'layers', 'hiddenSize', 'targetLayers', 'draftVocabulary', 'prefixLayer'] as const),
];

export function addShape(command: Command): void {
  command
    .optionsGroup('Sizes of a fresh drafter (by default those of published ones, or a part of the target’s):')
    .option('--heads <count>', 'of medusa and hydra', wholeNumber(1, deepestDraft))
    .option(
      '--layers <count>',
      'of a draft model, or blocks of each head of medusa and hydra',
      wholeNumber(1, 1024),
    )
    .option('--hidden-size <width>', 'of a draft model', wholeNumber(1, 2 ** 20))
    .option(
      '--target-layers <count>',
      'a draft model made of so many of the target’s own layers, as wide as the target, in place of a small fresh one',
      wholeNumber(1, 1024),
    )
    .option('--draft-vocabulary <tokens>', 'tokens that eagle3 can propose', wholeNumber(1))
    .option('--prefix-layer', 'hydra with a layer of its own before the heads: Hydra++');
}

export function shapeOf(flags: DrafterShape): DrafterShape {
  const given = shapeNames.filter((name) => flags[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, flags[name]]));
}
