/** Options that several commands have, declared once: they mean the same everywhere. */
import type { Command } from 'commander';
import { Option } from 'commander';
import { maxThreads } from '../core/limits.js';
import type { CacheOptions } from '../checkpoint/cache/weight-cache.js';
import type { SamplingOptions } from '../core/sampling.js';
import { bundledTarget } from '../decode/bundled-models.js';
import type { ReadingOptions, TapConvention } from '../draft/draft-system.js';
import { tapConventions } from '../draft/draft-system.js';
import type { ComputeType } from '../runtime/device-choice.js';
import { computeTypes } from '../runtime/device-choice.js';
import { builtInTemplateNames } from '../text/template/built-in-templates.js';
import { parseDay } from '../text/template/calendar-day.js';
import type { TemplateOptions } from '../text/template/chat-template.js';
import { deviceName, number, wholeNumber } from './option-values.js';
import type { ProgressMode } from './progress.js';

export interface SamplingFlags {
  readonly temperature: number;
  readonly topP?: number;
  readonly topK?: number;
}

export interface DeviceFlags {
  readonly device?: string;
  readonly dtype?: ComputeType;
}

export interface MachineFlags extends DeviceFlags {
  readonly threads?: number;
  readonly cacheDir?: string;
  readonly verifyCache?: true;
}

/** Beside every option that names a drafter. */
export interface DrafterFlags {
  readonly taps?: TapConvention;
}

/** Beside every option that names a model. */
export interface DownloadFlags {
  readonly download?: true;
}

export interface TemplateFlags {
  readonly chatTemplate?: string;
  readonly date?: string;
}

export function createTargetOption(): Option {
  return new Option(
    '-t, --target <model>',
    'folder of the model, or its name on the Hugging Face hub, as ORG/NAME[@REVISION]',
  ).default(bundledTarget, 'the bundled model');
}

export function addTaps(command: Command): Command {
  return command.addOption(
    new Option(
      '--taps <meaning>',
      'what the layer ids in the config.json of an EAGLE-3 head are: inputs or outputs of these layers (default: what its trainer means by them, where the file tells; `mistletoe inspect` explains)',
    ).choices(tapConventions),
  );
}

export function tapsOf({ taps }: DrafterFlags): ReadingOptions {
  return taps === undefined ? {} : { taps };
}

export function addDownload(command: Command): Command {
  return command.option(
    '--download',
    'fetch models that are named ORG/NAME from the Hugging Face hub into its cache; without this the cache alone is used, and no network',
  );
}

export function addTemplate(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--chat-template <name>',
        `in place of the model’s own: ${builtInTemplateNames.join(', ')} or a file with a Jinja template`,
      ).conflicts('raw'),
    )
    .option(
      '--date <day>',
      'what a chat template is told that asks for the date, as 2024-07-26 (default: today)',
      (text) => parseDay(text, '--date'),
    );
}

export function templateOf({ chatTemplate, date }: TemplateFlags): TemplateOptions {
  return {
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
    ...(date === undefined ? {} : { date }),
  };
}

/** Of every prompt set, or of the conversations to train on. */
export function addLimit(command: Command): Command {
  return command.option(
    '--limit <count>',
    'only the first prompts of each set (default: all)',
    wholeNumber(1),
  );
}

export function addSampling(command: Command): Command {
  return command
    .optionsGroup('How to choose tokens:')
    .option(
      '--temperature <number>',
      '0 always takes the most likely token; higher is more varied',
      number({ least: 0, expected: 'a number of 0 or more' }),
      0,
    )
    .option(
      '--top-p <number>',
      'draw from the most likely tokens that together reach this probability',
      number({ above: 0, most: 1, expected: 'a number above 0 and up to 1' }),
    )
    .option('--top-k <count>', 'draw from this many of the most likely tokens', wholeNumber(1));
}

export function samplingOf({ temperature, topK, topP }: SamplingFlags): SamplingOptions {
  return {
    temperature,
    ...(topK === undefined ? {} : { topK }),
    ...(topP === undefined ? {} : { topP }),
  };
}

export function addProgress(command: Command): Command {
  return command.addOption(
    new Option('--progress <mode>', 'on stderr; auto is a bar on a terminal and a few lines elsewhere')
      .choices(['auto', 'bar', 'plain', 'json', 'none'] satisfies ProgressMode[])
      .default('auto'),
  );
}

export function addDevice(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--device <name>',
        'cpu, cuda for the first GPU, cuda:1 for the second; auto takes the first GPU that can be used and has room, else the CPU (default: $MISTLETOE_DEVICE or auto)',
      ).argParser(deviceName),
    )
    .addOption(
      new Option(
        '--dtype <type>',
        'in which products are computed on a GPU (default: bfloat16); the CPU has float32 alone',
      ).choices(computeTypes),
    );
}

export function addMachine(command: Command): Command {
  return addCacheFolder(
    addDevice(command).option(
      '--threads <count>',
      'processor threads (default: all)',
      wholeNumber(1, maxThreads),
    ),
  ).option(
    '--verify-cache',
    'read all of the converted weights before they are used, against damage of the disk itself',
  );
}

export function addCacheFolder(command: Command): Command {
  return command.option(
    '--cache-dir <dir>',
    'where converted weights are kept (default: $MISTLETOE_CACHE or the system’s)',
  );
}

export function cacheOf({
  cacheDir,
  verifyCache,
}: MachineFlags): Pick<CacheOptions, 'cacheFolder' | 'verifyCache'> {
  return {
    ...(cacheDir === undefined ? {} : { cacheFolder: cacheDir }),
    ...(verifyCache === undefined ? {} : { verifyCache }),
  };
}
