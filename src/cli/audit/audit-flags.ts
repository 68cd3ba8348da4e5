import {
  applyPreset,
  type AuditSettings,
  auditSettings,
  type PresetName,
  presets,
} from '../../audit/settings.js';
import { MistletoeError } from '../../core/errors.js';
import { countText } from '../../core/number-text.js';
import { decimal, integer, omitSetting, oneOf, text } from '../../core/settings.js';
import { findDevices, type WorkerPlan } from '../../runs/run-device.js';
import * as common from '../common-flags.js';
import { flag, type FlagsOf, type Given, group, list, pickGiven, settingFlags, toggle } from '../flags.js';
import type { Terminal } from '../terminal.js';

const presetNames = Object.keys(presets) as PresetName[];

export const presetFlag = {
  preset: flag(
    'quick is a demonstration, thorough takes a night, paper follows the paper where it is known, with bounds of ours',
    oneOf(presetNames),
    'name',
    { default: 'standard' },
  ),
};

const searchSettings = omitSetting(auditSettings, 'chat');
/** In brackets: the value of every preset, or the one value that they share. */
export const auditSettingFlags = settingFlags(searchSettings, (name) => {
  const values = presetNames.map((preset) => String(presets[preset][name]));
  const isShared = new Set(values).size === 1;
  return isShared ? values[0]! : presetNames.map((preset, index) => `${preset} ${values[index]!}`).join(', ');
});

export const auditFlags = {
  ...group('What to audit', {
    ...common.targetFlag,
    drafter: list('folder, hub name or bundled name of a drafter, or ngram[:MIN,MAX]', text, 'model', {
      short: 'd',
      shownDefault: 'the bundled eagle3',
    }),
    draft: flag('chain:4, tree:mc_sim_7b_63, dynamic:60,5,10', text, 'policy', {
      shownDefault: 'chain:4, or as deep as the drafter has heads',
      rare: true,
    }),
    ...common.tapsFlag,
    prompts: list('a .jsonl or .txt file, or mt-bench, humaneval, gsm8k', text, 'set', {
      short: 'p',
      conflicts: 'prompt',
      shownDefault: 'a small bundled set',
    }),
    prompt: flag('one prompt; {suffix} marks the place of the suffix, else it is appended', text, 'text'),
    ...common.promptSetFlags,
    raw: toggle('send prompts without the chat template', { rare: true }),
    chat: toggle('apply the chat template (default)', { conflicts: 'raw', rare: true }),
    ...common.templateFlags,
    ...common.downloadFlag,
  }),
  ...group('How to search', {
    ...presetFlag,
    ...auditSettingFlags,
    suffix: list(
      'measure this suffix, or those of a .txt or .jsonl file, instead of searching',
      text,
      'text|file',
    ),
    universal: toggle('also search one suffix for many prompts and measure it on held-out ones', {
      rare: true,
    }),
    transfer: toggle('also measure the suffixes found on each drafter on the others', { rare: true }),
  }),
  ...group('Run', {
    seed: flag('random seed', integer(0), 'number', { default: 0 }),
    ...common.runFlags,
    verify: flag('check that a run folder is unchanged since it was written; runs nothing', text, 'dir', {
      rare: true,
    }),
    workers: { ...common.workerFlags.workers, shownDefault: 'one for each device; up to 8 on one GPU' },
    ...common.queueFlag,
    dryRun: toggle('print what would run, the time and the memory; search nothing'),
  }),
  ...group('Gate, output and machine', {
    failIfDrop: flag(
      'exit code 100 if the accepted length along the same answer drops by this share, as 0.3; 4 if undecided',
      decimal({ above: 0, max: 1 }),
      'share',
    ),
    failIfAcceptedLengthBelow: flag(
      'exit code 100 if it is lower under attack; 4 if undecided',
      decimal({ min: 1 }),
      'length',
      { rare: true },
    ),
    ...common.reportFormatFlag,
    ...common.progressFlag,
    ...common.machineFlags,
    ...common.runThreadsFlag,
    ...common.devicesFlag,
  }),
};
export type AuditFlags = FlagsOf<typeof auditFlags>;

/** The settings that were given; the preset has the others. */
export const givenSettings = (
  flags: Given<AuditSettings> & { readonly raw?: true | undefined },
): Partial<AuditSettings> => ({
  ...pickGiven(searchSettings, flags),
  ...(flags.raw === true ? { chat: false } : {}),
});

// Where the units of an audit run: flags to workers and queues.
type PlacedFlags = Pick<AuditFlags, 'workers' | 'device' | 'resume'>;

/** The device of the run itself: the first of several. */
export async function mainDevice({ device }: Pick<PlacedFlags, 'device'>): Promise<string | undefined> {
  const [first] = (await findDevices(device)) ?? [];
  return first === undefined ? device : `cuda:${first.ordinal}`;
}

/** Undefined if neither workers nor several devices are asked for. */
export async function planWorkers({ workers, device, resume }: PlacedFlags): Promise<WorkerPlan | undefined> {
  const devices = await findDevices(device);
  if (resume !== undefined && device !== undefined && devices === undefined) {
    throw new MistletoeError('usage', '--device cannot be changed when a run is resumed.', {
      hint: 'With several GPUs of the same kind, cuda:0,cuda:1 or cuda:all places workers on them.',
    });
  }
  const count = workers ?? devices?.length ?? 1;
  return workers === undefined && count === 1 ? undefined : { count, devices };
}

/** A password in the environment does not show in lists of processes. */
export function queueOf(
  { queue }: { readonly queue?: string | undefined },
  { environment }: Terminal,
): string | undefined {
  const url = queue ?? environment.MISTLETOE_QUEUE ?? '';
  return url === '' ? undefined : url;
}

/** Of prompts that are not here yet, as many as --limit says. */
export function describeUnits(flags: AuditFlags): string {
  const { repeats, controlSearches } = applyPreset(flags.preset, givenSettings(flags));
  const drafters = Math.max(1, flags.drafter.length);
  const perPrompt = 2 * repeats + (controlSearches ? 2 : 0);
  if (flags.limit === undefined) return `Each prompt has ${countText(drafters * perPrompt, 'search')}.`;
  const prompts = Math.max(1, flags.prompts.length) * flags.limit;
  const [searches, units] = [prompts * drafters * perPrompt, prompts * drafters * (1 + perPrompt)];
  return `${countText(prompts, 'prompt')} or fewer: ${countText(searches, 'search')} in ${countText(units, 'unit')}.`;
}
