/** The options of `harden`: its own, and those that it shares with `train` and `audit`, under the same names. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { objectiveNames } from '../audit/search/objectives.js';
import type { AuditSettings } from '../audit/settings.js';
import type { Baseline, HardeningAudit, HardeningSettings } from '../train/harden/hardening-settings.js';
import {
  auditNames,
  baselineNames,
  hardeningDefaults,
  hardeningPace,
  hardeningRate,
} from '../train/harden/hardening-settings.js';
import { addSettings } from './audit-settings.js';
import type { DownloadFlags, DrafterFlags, MachineFlags, TemplateFlags } from './common-options.js';
import { isGiven } from './long-runs.js';
import { number, wholeNumber } from './option-values.js';
import type { ProgressMode } from './progress.js';
import { addTrainSettings } from './train-flags.js';

export interface HardenFlags extends MachineFlags, DownloadFlags, TemplateFlags, DrafterFlags {
  readonly target: string;
  readonly drafter?: string;
  readonly data?: string;
  readonly answers?: string;
  readonly prompts?: readonly string[];
  readonly promptsDir?: string;
  readonly limit?: number;
  /** False where there shall be none. */
  readonly baseline: readonly Baseline[] | false;
  readonly preset: string;
  readonly audits: readonly HardeningAudit[];
  readonly strongerPrompts: number;
  readonly out?: string;
  readonly resume?: string;
  readonly progress: ProgressMode;
  readonly format: 'text' | 'json' | 'markdown';
}

const count = wholeNumber(1);
const countOrNone = wholeNumber(0);
const shown = (value: number | readonly (string | number)[]): string =>
  typeof value === 'number' ? String(value) : value.join(', ');

const own: readonly (readonly [keyof HardeningSettings, string, string, (text: string) => unknown])[] = [
  ['rounds', '--rounds <count>', 'rounds of attack and training', count],
  ['promptsPerRound', '--prompts-per-round <count>', 'prompts of the data attacked in a round', count],
  ['suffixesPerPrompt', '--suffixes-per-prompt <count>', 'suffixes that are kept of each search', count],
  ['randomPerPrompt', '--random-per-prompt <count>', 'random suffixes trained on beside them', countOrNone],
  ['spread', '--spread <count>', 'other questions of the data that each suffix is put behind', countOrNone],
  ['searchSteps', '--search-steps <count>', 'steps of a search in the first round', count],
  [
    'searchGrowth',
    '--search-growth <factor>',
    'by how much each further round searches longer',
    number({ least: 1, expected: 'a number of 1 or more' }),
  ],
  ['objectives', '--objective <names...>', 'what searches drive up, in turn from prompt to prompt', String],
  ['suffixLengths', '--train-suffix-lengths <tokens>', 'of the suffixes in training, as 12,24', listCounts],
  ['stepsPerRound', '--steps-per-round <count>', 'updates of the weights in a round', count],
  [
    'suffixedShare',
    '--suffixed-share <share>',
    'of the texts that carry suffixes; the others are clean',
    number({ least: 0, most: 1, expected: 'a number from 0 to 1' }),
  ],
  ['replayRounds', '--replay-rounds <count>', 'rounds whose suffixes are still trained on', count],
];

/** Those of `train` that stay what they are there, and what is usual here where that differs. */
const ofTraining: Readonly<Record<string, string | undefined>> = {
  ...{ learningRate: String(hardeningRate), batchTokens: undefined, rows: undefined },
  accumulation: undefined,
  ...{ warmup: 'a tenth of the updates of a round', rateFloor: undefined, weightDecay: undefined },
  ...{ clip: undefined, depth: undefined, answers: undefined },
  ...{ maxNewTokens: undefined, maxTokens: undefined },
  ...{ validation: undefined, validationTexts: undefined, chain: undefined },
  ...{ validateEvery: String(hardeningPace), saveEvery: String(hardeningPace) },
};

/** Those of `audit` that stay what they are there. */
const ofAudit = [
  ...['preset', 'suffixLength', 'window', 'shortestAnswer', 'epsilon', 'keep', 'candidates', 'topTokens'],
  ...['starts', 'finalists', 'repeats', 'randomDraws', 'draftDepth', 'allowNonAscii'],
];
/** Those whose names mean something else here. */
const renamed = {
  auditSteps: 'steps',
  auditObjective: 'objective',
  auditNewTokens: 'maxNewTokens',
} as const satisfies Record<string, keyof AuditSettings>;

export function addHardening(command: Command): void {
  command.optionsGroup('Attack and training (in brackets what is usual):');
  for (const [name, flags, text, parse] of own) {
    const option = new Option(flags, `${text} [${shown(hardeningDefaults[name])}]`);
    // Of a list, commander collects the words itself.
    command.addOption(option.variadic ? option.choices(objectiveNames) : option.argParser(parse));
  }
  command
    .addOption(
      new Option(
        '--baseline <names>',
        'what hardening must beat, trained with equal effort: random (suffixes), or none',
      )
        .argParser(listBaselines)
        .default(['random'], 'random'),
    )
    .option('--no-baseline', 'the same as --baseline none');
  const training = new Command();
  addTrainSettings(training);
  for (const option of training.options) {
    const name = option.attributeName();
    if (!Object.hasOwn(ofTraining, name)) continue;
    const usual = ofTraining[name];
    if (usual !== undefined) option.description = option.description.replace(/\[.*\]$/, `[${usual}]`);
    command.addOption(option);
  }
}

export function addAudits(command: Command): void {
  command
    .optionsGroup('Audits at the end (as of mistletoe audit; searches in training keep to the same bounds):')
    .addOption(
      new Option('--audits <names>', `of ${auditNames.join(', ')}, as fresh,stronger; fresh is always run`)
        .argParser(listAudits)
        .default(['fresh'], 'fresh'),
    )
    .option('--stronger-prompts <count>', 'prompts of the stronger audit', count, 4)
    .option('--audit-steps <count>', 'steps of a search of the audits', count)
    .addOption(
      new Option('--audit-objective <name>', 'what they drive up [margin; paper: surprisal]').choices(
        objectiveNames,
      ),
    )
    .option('--audit-new-tokens <count>', 'length of the answers that they measure', count);
  const audit = new Command();
  addSettings(audit);
  for (const option of audit.options) if (ofAudit.includes(option.attributeName())) command.addOption(option);
}

function readGiven(command: Command, names: Iterable<readonly [string, string]>): Record<string, unknown> {
  return Object.fromEntries(
    [...names].flatMap(([attribute, name]) =>
      isGiven(command, attribute) ? [[name, command.getOptionValue(attribute) as unknown]] : [],
    ),
  );
}

/** The settings that were given, by their own names. */
export function readHardening(command: Command): Partial<HardeningSettings> {
  const names = own.map(([name, flags]) => [new Option(flags).attributeName(), name] as const);
  return readGiven(command, [...names, ['seed', 'seed']]);
}

export function readAuditSettings(command: Command): Partial<AuditSettings> {
  const same = ofAudit.filter((name) => name !== 'preset').map((name) => [name, name] as const);
  return readGiven(command, [...same, ...Object.entries(renamed)]);
}

function listCounts(text: string): readonly number[] {
  return text.split(',').map((part) => wholeNumber(1, 1024)(part.trim()));
}

const listAudits = (text: string): readonly HardeningAudit[] => listNames(text, auditNames);

const listBaselines = (text: string): readonly Baseline[] =>
  text.trim() === 'none' ? [] : listNames(text, baselineNames, ', or none');

function listNames<Name extends string>(text: string, names: readonly Name[], others = ''): readonly Name[] {
  return text.split(',').map((part) => {
    const found = names.find((name) => name === part.trim());
    if (found === undefined) throw new InvalidArgumentError(`Expected some of ${names.join(', ')}${others}.`);
    return found;
  });
}
