import { applyPreset } from '../../audit/settings.js';
import { MistletoeError } from '../../core/errors.js';
import { smallest } from '../../core/vector.js';
import { countText } from '../../core/number-text.js';
import { findDrafter } from '../../decode/find-drafter.js';
import { writeReports } from '../../report/audit/write-reports.js';
import { printReport } from '../../report/document.js';
import {
  createHardeningReport,
  describeTimes,
  writeHardeningReports,
} from '../../report/harden/hardening-report.js';
import * as words from '../../report/harden/hardening-words.js';
import { auditTitles, roleNames } from '../../report/harden/hardening-words.js';
import { tableText } from '../../report/table.js';
import { createHardenRequest } from '../../train/harden/harden-request.js';
import {
  type HardenEvents,
  type HardenOptions,
  type HardenOutcome,
  resumeHardening,
  startHardening,
} from '../../train/harden/harden-run.js';
import type { AuditComparison, HardeningResult } from '../../train/harden/hardening-result.js';
import {
  baselineNames,
  completeHardening,
  hardeningPace,
  hardeningRate,
} from '../../train/harden/hardening-settings.js';
import { mainDevice, planWorkers } from '../audit/audit-flags.js';
import { createAuditProgress } from '../audit/audit-progress.js';
import { defineCommand, type Invocation } from '../command.js';
import { exitCodes } from '../failure.js';
import { describeNext, joinLines, requireData, runInFolder, typedPath } from '../long-runs.js';
import { createModelFinder, joinPromptSets, readPromptSets } from '../model-source.js';
import type { Progress } from '../progress.js';
import type { Colors } from '../terminal.js';
import { givenAudit, givenHardening, type HardenFlags, hardenFlags, sharedAudit } from './harden-flags.js';
import { givenTraining } from './train.js';
import { createTrainProgress } from './train-progress.js';

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
    ['mistletoe harden -d sps --data questions.jsonl --workers 4', 'four searches or audits at once'],
    ['mistletoe harden --resume runs/hard', 'continue after Ctrl-C or a crash'],
  ],
  notes:
    'The run folder has hardened/round-N/last, which are drafters for --drafter, audits/, report.html, report.md and result.json.\n\nExit codes: 0 done, 1 failure, 2 invalid input, 3 nothing audited, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  complete(flags) {
    const { steps, objective, maxNewTokens, ...audit } = applyPreset(flags.preset, givenAudit(flags));
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
    };
  },
  run: (flags, invocation) =>
    runInFolder(flags, invocation, {
      command: 'harden',
      resumable: ['workers', 'device'],
      createEvents: createHardenProgress,
      prepare: (onNotice) => prepare(flags, invocation, onNotice),
      resume: async (folder, options) => {
        const workers = await planWorkers(flags);
        return resumeHardening(folder, { ...options, workers, writeAuditReports: writeReports });
      },
      async finish({ folder, result, hardened }, target) {
        const { html } = await writeHardeningReports(folder, result);
        const isAudited = result.audits[0]?.rows.every(({ promptsAudited }) => promptsAudited > 0) === true;
        return {
          exitCode: isAudited ? exitCodes.success : exitCodes.incomplete,
          text: (colors) => formatHardening(result, hardened, typedPath(html), target, colors),
          json: () => ({ folder, hardened, ...result }),
          markdown: () => printReport(createHardeningReport(result), 'markdown'),
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
  const prompts = joinPromptSets(await readPromptSets(flags, terminal), flags.limit);
  const findModel = createModelFinder(flags, terminal);
  const request = await createHardenRequest({
    ...flags,
    target: await findModel(flags.target),
    drafter: await findModel(findDrafter(drafter)),
    data,
    prompts,
    hardening: givenHardening(flags),
    training: givenTraining({ ...flags, seed: undefined }),
    audit: givenAudit(flags),
    baselines: baseline.length === 0 ? ['random'] : baselineNames.filter((name) => baseline.includes(name)),
    device: await mainDevice(flags),
    onNotice,
  });
  const place = flags.out ?? { parent: 'runs', name: 'harden' };
  const workers = await planWorkers(flags);
  return (options) =>
    startHardening(place, request, { ...options, workers, writeAuditReports: writeReports });
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

// The progress of a hardening run: answers, then searches and training round by round, then audits.
function createHardenProgress(progress: Progress): HardenEvents {
  let accepted: number | undefined;
  return {
    onNotice: progress.note,
    onAnswers: createTrainProgress(progress).onAnswers!,
    onOpen({ folder, request }) {
      const { from, system, target, hardening, baselines } = request;
      const beside = baselines.map((name) => ` and as many with ${roleNames[name]}`).join('');
      progress.note(
        `harden: ${from.name} (${system}) for ${target.name}, ${countText(hardening.rounds, 'round')}${beside}, run folder ${typedPath(folder)}`,
        { folder, drafter: from.name, target: target.name },
      );
    },
    onPhase({ role, round, rounds }, kind, done, total) {
      accepted = undefined;
      if (done === total) return;
      const name = role === 'hardened' ? '' : `${roleNames[role]}, `;
      progress.start(total, `${name}round ${round}/${rounds}, ${kind}`);
      progress.update(done);
    },
    onHunt(_place, { prompt, objective, texts }, done) {
      const lengths = texts.flatMap(({ length }) => length ?? []);
      const shortest = lengths.length === 0 ? undefined : smallest(lengths);
      progress.update(done, { prompt, objective, suffixes: texts.length, accepted: shortest });
    },
    onLine(_, line) {
      if (line.kind === 'length') accepted = line.length;
      progress.update(line.update, { loss: line.kind === 'update' ? line.loss : undefined, accepted });
    },
    onAudit(name) {
      progress.note(`harden: ${auditTitles[name].toLowerCase()}`, { audit: name });
    },
    audit: createAuditProgress(progress),
  };
}
