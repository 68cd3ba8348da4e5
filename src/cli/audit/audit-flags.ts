/** The flag table of `mistletoe audit`. */
import type { AuditSettings, PresetName } from '../../audit/settings.js';
import { auditSettings, presets } from '../../audit/settings.js';
import { decimal, integer, omitSetting, oneOf, text } from '../../core/settings.js';
import * as common from '../common-flags.js';
import type { FlagsOf, Given } from '../flags.js';
import { flag, group, list, pickGiven, settingFlags, toggle } from '../flags.js';

const presetNames = Object.keys(presets) as PresetName[];

export const presetFlag = {
  preset: flag(
    'quick is a demonstration, thorough takes a night, paper is the published setting',
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
    ...common.workerFlags,
    ...common.queueFlag,
    dryRun: toggle('print what would run, the time and the memory; search nothing'),
  }),
  ...group('Gate, output and machine', {
    failIfDrop: flag(
      'exit code 100 if the accepted length along the same answer drops by this share, as 0.3',
      decimal({ above: 0, max: 1 }),
      'share',
    ),
    failIfAcceptedLengthBelow: flag(
      'exit code 100 if it is lower under attack',
      decimal({ min: 1 }),
      'length',
      {
        rare: true,
      },
    ),
    ...common.reportFormatFlag,
    ...common.progressFlag,
    ...common.machineFlags,
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
