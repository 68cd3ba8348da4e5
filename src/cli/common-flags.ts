/** Flags that several commands share; each means the same everywhere. */
import { maxThreads, maxWorkers } from '../core/limits.js';
import type { SamplingOptions } from '../core/sampling.js';
import { decimal, integer, oneOf, text, textOf } from '../core/settings.js';
import { bundledTarget } from '../core/package-files.js';
import { tapConventions } from '../draft/draft-system.js';
import { readDeviceList } from '../runs/run-device.js';
import { computeTypes, deviceForm, deviceForms } from '../runtime/device-choice.js';
import { quantizedTypes } from '../runtime/weights.js';
import { builtInTemplateNames } from '../text/template/built-in-templates.js';
import { parseDay } from '../text/template/calendar-day.js';
import { type FlagsOf, flag, toggle } from './flags.js';

export const targetFlag = {
  target: flag('model folder, GGUF file, or ORG/NAME[@REVISION] on the Hugging Face hub', text, 'model', {
    short: 't',
    default: bundledTarget,
    shownDefault: 'the bundled model',
  }),
};

export const tapsFlag = {
  taps: flag(
    'meaning of the layer ids in the config.json of an EAGLE-3 head; `mistletoe inspect` explains',
    oneOf(tapConventions),
    'meaning',
    { rare: true, shownDefault: 'set by its trainer, if the file names one' },
  ),
};

export const draftFlag = {
  draft: flag(
    'how much to draft per step: auto, chain:4, tree:mc_sim_7b_63, tree:FILE.json, dynamic:60,5,10',
    text,
    'policy',
    { shownDefault: 'auto; chain:4 with a temperature, int8, or int4' },
  ),
};

export const downloadFlag = {
  download: toggle('download ORG/NAME models from the Hugging Face hub; otherwise only its cache is used', {
    rare: true,
  }),
};
export type DownloadFlags = Partial<FlagsOf<typeof downloadFlag>>;

export const templateFlags = {
  chatTemplate: flag(
    `replaces the model’s own: ${builtInTemplateNames.join(', ')}, or a file with a Jinja template`,
    text,
    'name',
    { conflicts: 'raw', rare: true },
  ),
  date: flag(
    'date for chat templates that use it, as 2024-07-26',
    textOf('a date such as 2024-07-26', (given) => parseDay(given, '--date')),
    'day',
    { rare: true, shownDefault: 'today' },
  ),
};

export const promptSetFlags = {
  promptsDir: flag('folder with mt_bench.jsonl, humaneval.jsonl and gsm8k.jsonl', text, 'dir', {
    rare: true,
  }),
  limit: flag('use only the first prompts of each set', integer(1), 'count', { shownDefault: 'all' }),
};

export const samplingFlags = {
  temperature: flag(
    '0 always takes the most likely token; higher values vary more',
    decimal({ min: 0 }),
    'number',
    { default: 0 },
  ),
  topP: flag(
    'sample from the most likely tokens that together reach this probability',
    decimal({ above: 0, max: 1 }),
    'number',
    { rare: true },
  ),
  topK: flag('sample from this many of the most likely tokens', integer(1), 'count', { rare: true }),
};
export type SamplingFlags = FlagsOf<typeof samplingFlags>;

export const progressModes = ['auto', 'bar', 'plain', 'json', 'none'] as const;

export const progressFlag = {
  progress: flag(
    'on stderr; auto is a bar on a terminal and a few lines elsewhere',
    oneOf(progressModes),
    'mode',
    { default: 'auto', rare: true },
  ),
};

export const deviceFlags = {
  device: flag(
    'cpu, cuda for the first GPU, cuda:1 for the second; auto takes the first usable GPU with enough memory, else the CPU',
    textOf(deviceForms, (given) => (deviceForm.test(given) ? given : undefined)),
    'name',
    { shownDefault: '$MISTLETOE_DEVICE or auto' },
  ),
  dtype: flag(
    'compute type: float32, bfloat16 or float16 on a GPU; float32 on the CPU, which decodes faster and less exactly with weights in int8 or int4',
    oneOf([...computeTypes, ...quantizedTypes]),
    'type',
    { rare: true, shownDefault: 'bfloat16 on a GPU, float32 on the CPU' },
  ),
};

export const cacheFolderFlag = {
  cacheFolder: flag('folder for converted weights', text, 'dir', {
    flag: 'cache-dir',
    rare: true,
    shownDefault: '$MISTLETOE_CACHE or the system’s',
  }),
};

export const machineFlags = {
  ...deviceFlags,
  threads: flag('CPU threads', integer(1, maxThreads), 'count', { rare: true, shownDefault: 'all' }),
  ...cacheFolderFlag,
  verifyCache: toggle('check the converted weights for disk errors before use', { rare: true }),
};
export type MachineFlags = FlagsOf<typeof machineFlags>;

/** Flags of audit, train and harden about the run itself. */
export const runFlags = {
  out: flag('run folder', text, 'dir', { shownDefault: 'a new one in runs/' }),
  resume: flag('continue an interrupted run', text, 'dir'),
};

export const queueFlag = {
  queue: flag('redis://HOST:6379 or rediss:// of the queue whose workers run the units', text, 'url', {
    shownDefault: '$MISTLETOE_QUEUE or none',
    rare: true,
  }),
};

/** For runs that record them and give them to every worker. */
export const runThreadsFlag = {
  threads: {
    ...machineFlags.threads,
    help: 'CPU threads of each process; results depend on them',
    shownDefault: 'all cores, divided by --workers',
  },
};

/** For commands whose units can run in several processes or threads. */
export const workerFlags = {
  workers: flag(
    'workers on this machine: threads on a GPU, processes on the CPU; one that dies is replaced',
    integer(1, maxWorkers),
    'count',
    { shownDefault: 'one for each device', rare: true },
  ),
};

export const devicesFlag = {
  device: {
    ...deviceFlags.device,
    help: `${deviceFlags.device.help}; cuda:0,cuda:1 or cuda:all for workers on several`,
    type: textOf(`${deviceForms}, cuda:all or several separated by commas`, readDeviceList),
  },
};

export const reportFormatFlag = {
  format: flag(
    'of stdout; reports are files in the run folder',
    oneOf(['text', 'json', 'markdown']),
    'format',
    { default: 'text' },
  ),
};

export const formatFlag = {
  format: flag('text for people, json for programs', oneOf(['text', 'json']), 'format', { default: 'text' }),
};

/** What --resume may be combined with: everything else is in the run's folder. */
export const resumable = ['resume', 'progress', 'format', 'cacheFolder', 'verifyCache'];

export const samplingOf = ({ temperature, topK, topP }: SamplingFlags): SamplingOptions => ({
  temperature,
  topK,
  topP,
});

export const cacheOf = ({ cacheFolder, verifyCache }: Partial<MachineFlags>) => ({
  cacheFolder,
  verifyCache,
});
