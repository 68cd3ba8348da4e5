/** `mistletoe harden`. */
import type { AuditSettings } from '../../audit/settings.js';
import { applyPreset, auditSettings } from '../../audit/settings.js';
import { MistletoeError } from '../../core/errors.js';
import { integer, oneOf, text, textOf } from '../../core/settings.js';
import { findDrafter } from '../../decode/find-drafter.js';
import { writeReports } from '../../report/audit/write-reports.js';
import { renderReportMarkdown } from '../../report/document.js';
import {
  createHardeningReport,
  describeTimes,
  writeHardeningReports,
} from '../../report/harden/hardening-report.js';
import * as words from '../../report/harden/hardening-words.js';
import { tableText } from '../../report/table.js';
import { createHardenRequest } from '../../train/harden/harden-request.js';
import type { HardenOptions, HardenOutcome } from '../../train/harden/harden-run.js';
import { resumeHardening, startHardening } from '../../train/harden/harden-run.js';
import type { AuditComparison, HardeningResult } from '../../train/harden/hardening-result.js';
import type { HardeningSettings } from '../../train/harden/hardening-settings.js';
import {
  auditNames,
  baselineNames,
  completeHardening,
  hardeningDefaults,
  hardeningPace,
  hardeningRate,
  hardeningSettings,
} from '../../train/harden/hardening-settings.js';
import { learningSettings, objectiveSettings, textSettings } from '../../train/settings.js';
import { auditSettingFlags, presetFlag } from '../audit/audit-flags.js';
import type { Invocation } from '../command.js';
import { defineCommand } from '../command.js';
import * as common from '../common-flags.js';
import { exitCodes } from '../failure.js';
import type { FlagsOf, FlagTable } from '../flags.js';
import { flag, group, list, pickGiven, settingFlags } from '../flags.js';
import {
  describeNext,
  joinLines,
  readPromptSets,
  requireData,
  runInFolder,
  typedPath,
} from '../long-runs.js';
import { createModelFinder, createPromptFinder } from '../model-source.js';
import type { Colors } from '../terminal.js';
import { createHardenProgress } from './train-progress.js';
import { conversationFlags, givenTraining } from './train.js';

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
const sharedAudit = pick(auditSettingFlags, [
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

const hardenFlags = {
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
      'what hardening must beat, trained with equal effort: random suffixes, or none',
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
    ...common.reportFormatFlag,
    ...common.progressFlag,
    ...common.machineFlags,
  }),
};
type HardenFlags = FlagsOf<typeof hardenFlags>;

/** The settings that were given. */
const givenHardening = (flags: HardenFlags): Partial<HardeningSettings> =>
  pickGiven(hardeningSettings, flags);

/** Settings of the audits; three have other names here. */
function givenAudit(flags: HardenFlags): Partial<AuditSettings> {
  const renamed = {
    steps: flags.auditSteps,
    objective: flags.auditObjective,
    maxNewTokens: flags.auditNewTokens,
  };
  return { ...pickGiven(sharedAudit, flags), ...pickGiven(renamed, renamed) };
}

const givenHardenTraining = (flags: HardenFlags): ReturnType<typeof givenTraining> =>
  givenTraining({ ...flags, seed: undefined });

export const harden = defineCommand({
  name: 'harden',
  description:
    'In rounds: searches suffixes against a drafter on the prompts of your data, generates the target’s answers to them, and trains the drafter on these texts. Then audits it next to the original, on prompts, seeds and a suffix length that training never saw.',
  flags: hardenFlags,
  examples: [
    ['mistletoe harden --drafter eagle3 --data questions.jsonl', 'the bundled head, small prompt set'],
    [
      'mistletoe harden -t ./my-model -d ./my-eagle3 --data chats.jsonl -p my-audit.jsonl --out runs/hard',
      '',
    ],
    ['mistletoe harden -d sps --data questions.jsonl --audits other-objective --audits stronger', ''],
    ['mistletoe harden --show-config', 'all settings, as YAML for --config'],
    ['mistletoe harden --resume runs/hard', 'continue after Ctrl-C or a crash'],
  ],
  notes:
    'The run folder has hardened/round-N/last, which are drafters for --drafter, audits/, report.html, report.md and result.json.\n\nExit codes: 0 done, 1 failure, 2 invalid input, 3 nothing audited, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  complete(flags) {
    const { steps, objective, maxNewTokens, ...audit } = applyPreset(flags.preset, givenAudit(flags));
    const target = flags.target === common.targetFlag.target.default ? undefined : flags.target;
    return {
      ...audit,
      ...flags,
      ...Object.fromEntries(Object.entries(audit).filter(([name]) => name in sharedAudit)),
      ...completeHardening(givenHardening(flags)),
      rate: flags.rate ?? hardeningRate,
      validateEvery: flags.validateEvery ?? hardeningPace,
      saveEvery: flags.saveEvery ?? hardeningPace,
      auditSteps: steps,
      auditObjective: objective,
      auditNewTokens: maxNewTokens,
      target,
    };
  },
  run: (flags, invocation) =>
    runInFolder(flags, invocation, {
      command: 'harden',
      createEvents: createHardenProgress,
      prepare: (onNotice) => prepare(flags, invocation, onNotice),
      resume: (folder, options) => resumeHardening(folder, { ...options, writeAuditReports: writeReports }),
      async finish({ folder, result, hardened }, target) {
        const { html } = await writeHardeningReports(folder, result);
        const isAudited = result.audits[0]?.rows.every(({ promptsAudited }) => promptsAudited > 0) === true;
        return {
          exitCode: isAudited ? exitCodes.success : exitCodes.incomplete,
          text: (colors) => formatHardening(result, hardened, typedPath(html), target, colors),
          json: () => `${JSON.stringify({ folder, hardened, ...result }, undefined, 2)}\n`,
          markdown: () => renderReportMarkdown(createHardeningReport(result)),
        };
      },
    }),
});

async function prepare(
  flags: HardenFlags,
  { terminal }: Invocation,
  onNotice: (message: string) => void,
): Promise<(options: HardenOptions) => Promise<HardenOutcome>> {
  const { drafter, baseline } = flags;
  if (drafter === undefined) {
    throw new MistletoeError('usage', '--drafter was not given, so there is nothing to harden.', {
      hint: 'Give the folder of a drafter, its hub name or a bundled name.',
    });
  }
  const data = requireData(flags.data);
  const findSet = createPromptFinder(flags, terminal);
  const prompts = await readPromptSets(flags.prompts, flags, findSet);
  const findModel = createModelFinder(flags, terminal);
  const request = await createHardenRequest({
    target: await findModel(flags.target),
    drafter: await findModel(findDrafter(drafter)),
    data,
    prompts,
    hardening: givenHardening(flags),
    training: givenHardenTraining(flags),
    audit: givenAudit(flags),
    preset: flags.preset,
    audits: flags.audits,
    strongerPrompts: flags.strongerPrompts,
    baselines: baseline.length === 0 ? ['random'] : baselineNames.filter((name) => baseline.includes(name)),
    taps: flags.taps,
    answers: flags.answers,
    chatTemplate: flags.chatTemplate,
    date: flags.date,
    device: flags.device,
    dtype: flags.dtype,
    threads: flags.threads,
    cacheFolder: flags.cacheDir,
    onNotice,
  });
  const place = flags.out ?? { parent: 'runs', name: 'harden' };
  return (options) => startHardening(place, request, { ...options, writeAuditReports: writeReports });
}

function formatHardening(
  result: HardeningResult,
  hardened: string,
  report: string,
  target: string | undefined,
  colors: Colors,
): string {
  return joinLines([
    ...result.audits.flatMap((comparison) => drawAudit(comparison, colors)),
    ...words.resultLegend.map((line) => colors.dim(line)),
    '',
    colors.bold(words.describeOutcome(result)),
    `It took ${describeTimes(result)}.`,
    '',
    `${colors.bold('hardened')}  ${typedPath(hardened)}`,
    '',
    ...describeNext(typedPath(hardened), target),
    '',
    `Report: ${report}`,
  ]);
}

function drawAudit(comparison: AuditComparison, colors: Colors): string[] {
  const [heading = '', ...rows] = tableText(words.auditTable(comparison));
  return [
    `${colors.bold(words.auditTitles[comparison.audit])}: ${words.describeAudit(comparison)}`,
    ...[colors.dim(heading), ...rows, ...words.describeComparison(comparison), ''],
  ];
}
