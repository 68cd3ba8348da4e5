/** The flag table of `mistletoe harden`. Flags shared with `train` and `audit` have the same names. */
import { type AuditSettings, auditSettings } from '../../audit/settings.js';
import { integer, oneOf, text, textOf } from '../../core/settings.js';
import type { HardeningSettings } from '../../train/harden/hardening-settings.js';
import {
  auditNames,
  baselineNames,
  hardeningDefaults,
  hardeningPace,
  hardeningRate,
  hardeningSettings,
} from '../../train/harden/hardening-settings.js';
import { learningSettings, objectiveSettings, textSettings } from '../../train/settings.js';
import { auditSettingFlags, presetFlag } from '../audit/audit-flags.js';
import * as common from '../common-flags.js';
import { type FlagsOf, type FlagTable, flag, group, list, pickGiven, settingFlags } from '../flags.js';
import { conversationFlags } from './train.js';

function pick<Table extends FlagTable, Name extends keyof Table & string>(
  table: Table,
  names: readonly Name[],
): Pick<Table, Name> {
  return Object.fromEntries(names.map((name) => [name, { ...table[name], rare: true }])) as unknown as Pick<
    Table,
    Name
  >;
}

const trainingFlags = settingFlags(
  { ...learningSettings, ...objectiveSettings, ...textSettings },
  () => 'as in train',
);

/** Settings of `train` that keep their meaning here; the number of updates does not. */
const sharedTraining = {
  ...pick(trainingFlags, ['batchTokens', 'rows', 'accumulation', 'rateFloor', 'weightDecay', 'clip']),
  ...pick(trainingFlags, ['depth', 'maxNewTokens', 'maxTokens', 'validation', 'validationTexts', 'chain']),
  ...settingFlags(
    {
      rate: learningSettings.rate,
      warmupSteps: { ...learningSettings.warmupSteps, shownDefault: 'a tenth of the updates of a round' },
      validateEvery: textSettings.validateEvery,
      saveEvery: textSettings.saveEvery,
    },
    (name) => String(name === 'rate' ? hardeningRate : hardeningPace),
  ),
};

/** Settings of `audit` that keep their meaning here. */
export const sharedAudit = pick(auditSettingFlags, [
  'suffixLength',
  'window',
  'shortestAnswer',
  'epsilon',
  'keep',
  'candidates',
  'topTokens',
  'starts',
  'finalists',
  'repeats',
  'randomDraws',
  'draftDepth',
  'allowNonAscii',
]);

export const hardenFlags = {
  ...group('What to harden', {
    ...common.targetFlag,
    drafter: flag('a folder, a hub name or a bundled name', text, 'model', { short: 'd' }),
    data: conversationFlags.data,
    answers: { ...conversationFlags.answers, rare: true },
    prompts: list(
      'what is audited: .jsonl or .txt files, or mt-bench, humaneval, gsm8k from --prompts-dir; none may be in the data',
      text,
      'set',
      { short: 'p', shownDefault: 'a small bundled set', variadic: true },
    ),
    ...common.promptSetFlags,
    ...common.tapsFlag,
    ...common.templateFlags,
    ...common.downloadFlag,
  }),
  ...group('Attack and training [default]', {
    ...settingFlags(hardeningSettings, (name) => [hardeningDefaults[name]].flat().join(', ')),
    baseline: list(
      'what hardening must beat, trained with as many updates: random suffixes, clean texts alone, or none',
      oneOf([...baselineNames, 'none']),
      'name',
      { shownDefault: 'random' },
    ),
    ...sharedTraining,
  }),
  ...group('Audits at the end (searches in training use the same bounds)', {
    ...presetFlag,
    audits: list(
      `of ${auditNames.join(', ')}; fresh always runs`,
      textOf(`one of ${auditNames.join(', ')}`, (given) => auditNames.find((name) => name === given)),
      'name',
      { shownDefault: 'fresh' },
    ),
    strongerPrompts: flag('prompts of the stronger audit', integer(1), 'count', { default: 4, rare: true }),
    auditSteps: flag('steps of the audits’ searches', auditSettings.steps.type, 'count', { rare: true }),
    auditObjective: flag('what they maximize', auditSettings.objective.type, 'name', {
      rare: true,
      shownDefault: 'margin; paper: surprisal',
    }),
    auditNewTokens: flag(
      'max length of the answers that they measure',
      auditSettings.maxNewTokens.type,
      'count',
      { rare: true },
    ),
    ...sharedAudit,
  }),
  ...group('Run', {
    ...common.runFlags,
    ...common.workerFlags,
    ...common.reportFormatFlag,
    ...common.progressFlag,
    ...common.machineFlags,
    ...common.runThreadsFlag,
    ...common.devicesFlag,
  }),
};
export type HardenFlags = FlagsOf<typeof hardenFlags>;

export const givenHardening = (flags: HardenFlags): Partial<HardeningSettings> =>
  pickGiven(hardeningSettings, flags);

/** Settings of the audits; three have other names here. */
export function givenAudit(flags: HardenFlags): Partial<AuditSettings> {
  const renamed = {
    steps: flags.auditSteps,
    objective: flags.auditObjective,
    maxNewTokens: flags.auditNewTokens,
  };
  return { ...pickGiven(sharedAudit, flags), ...pickGiven(renamed, renamed) };
}
