/** The report of an audit: the verdict, its rows, charts and answers, and how the numbers came to be. */
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import {
  type AuditResult,
  type DrafterResult,
  type SearchTrace,
  type TransferMatrix,
  type UniversalResult,
  arms,
} from '../../audit/result.js';
import { countText, durationText, groupThousands, parameterText } from '../../core/number-text.js';
import {
  type Block,
  type Report,
  type Section,
  cardBlock,
  describeModel,
  describeSettings,
  factsBlock,
  limitsBlock,
  pictureBlock,
  section,
  sentencesBlock,
  tableBlock,
} from '../document.js';
import { fragment, showInvisible } from '../markup.js';
import { drawAnswers } from './answers.js';
import { drawCharts } from './audit-charts.js';
import {
  type RowColumn,
  auditTable,
  detailColumns,
  mainColumns,
  transferTable,
  universalTable,
} from './audit-tables.js';
import {
  armLabels,
  armPurposes,
  describeCounts,
  describeDrop,
  describeTests,
  findArm,
} from './audit-words.js';
import { describeOpening } from './audit-opening.js';
import { levelNames } from './evidence.js';
import { paperTable, phaseLegend, phaseTable } from './timing-summary.js';
import type { Verdict } from './verdict.js';

export function createAuditReport(result: AuditResult, timings: AuditTimings, verdict: Verdict): Report {
  const { target, preset, seed, version } = result.setup;
  return {
    title: `Mistletoe audit of ${target.name}: ${levelNames[verdict.level].toLowerCase()}`,
    brand: 'Mistletoe audit',
    subject: `${target.name}, ${parameterText(target.parameterCount)}, preset ${preset}, seed ${seed}`,
    opening: describeOpening(result, verdict),
    sections: [
      describeRows(result, timings, verdict),
      ...drawCharts(result),
      drawAnswers(result),
      ...(result.transfer === null ? [] : [describeTransfer(result.transfer)]),
      ...(result.universal.length === 0 ? [] : [describeUniversal(result.universal)]),
      describeSetup(result, timings),
    ],
    imprint: `Mistletoe ${version} · ${result.schema}`,
  };
}

function describeRows({ drafters }: AuditResult, timings: AuditTimings, verdict: Verdict): Section {
  const rows = (columns: readonly RowColumn[], label: string): Block =>
    tableBlock(auditTable(drafters, columns, timings), label);
  const evidence = drafters.map((result, index) => {
    const { drafter, summary } = result;
    const own = verdict.drafters[index]!;
    return own.audited
      ? `${drafter}, ${levelNames[own.level].toLowerCase()}: ${describeDrop(result)}; ${describeTests(summary, own)}; ${describeCounts(summary)}`
      : `${drafter}: ${describeCounts(summary)}`;
  });
  return section(
    ['rows', 'Attack and controls', 'Attack and controls'],
    'The attack counts only if it beats every row above it. The first columns hold the target to the clean answer, token by token: the words are the same in every row, and only the drafts differ. “Free-running” columns show what the target writes on its own. The level is that of the drop pooled over the steps of all prompts, so prompts with many steps weigh more than in a mean of prompts. Tests are one-sided paired Wilcoxon signed-rank tests over prompts. Intervals are t intervals from the jackknife over prompts.',
    cardBlock(
      undefined,
      rows(mainColumns, 'Attack and controls'),
      pictureBlock(fragment`<details class="more"><summary>More columns: ${detailColumns.map(({ name }) => name).join(', ')}</summary>
${rows(detailColumns, 'More columns').html}</details>`),
      sentencesBlock(evidence),
    ),
  );
}

function describeTransfer(transfer: TransferMatrix): Section {
  return section(
    ['transfer', 'Transfer', 'Transfer'],
    `Suffixes found on the drafter of a row, measured along the same clean answers on the drafter of a column: tokens per step, and the change against no suffix. Both are pooled over the ${countText(transfer.prompts.length, 'prompt')} that were audited on all drafters. Off the diagonal, the attacker did not need that drafter’s weights.`,
    cardBlock(undefined, tableBlock(transferTable(transfer), 'Transfer matrix')),
  );
}

function describeUniversal(universal: readonly UniversalResult[]): Section {
  return section(
    ['universal', 'Universal', 'One suffix for many prompts'],
    'Searched on the first set of prompts together, then measured along the clean answers of prompts it never saw. Prompts in which the tokenizer splits the suffix differently are counted separately.',
    ...universal.map((each) =>
      cardBlock(
        each.drafter,
        sentencesBlock([`Suffix: ${JSON.stringify(each.suffix)}`]),
        tableBlock(universalTable(each), `Universal suffix of ${each.drafter}`),
      ),
    ),
  );
}

function describeSetup(result: AuditResult, timings: AuditTimings): Section {
  const { setup, drafters } = result;
  const measured = arms.filter((arm) => drafters.some(({ summary }) => findArm(summary, arm) !== undefined));
  const tables = [
    {
      title: 'The columns of the paper',
      table: paperTable(result, timings),
      note: 'Speedup, accepted length, and tokens per second of the answers that the target gives by itself, without and with the suffix. Perplexity of those answers under the clean prompt. Same answer: the accepted length along the clean answer.',
    },
    {
      title: 'Where the time went',
      table: phaseTable(timings),
      note: `${phaseLegend}. Shares are of the whole run.`,
    },
  ];
  return section(
    ['setup', 'Setup', 'Setup and how to reproduce'],
    'The same seed on the same machine gives the same result.json, byte for byte; times differ from run to run.',
    cardBlock(
      'What each row is for',
      factsBlock(measured.map((arm) => [armLabels[arm], armPurposes[arm]])),
      sentencesBlock(drafters.flatMap(describeEffort)),
    ),
    ...tables.flatMap(({ title, table, note }) =>
      table === undefined ? [] : [cardBlock(title, tableBlock(table, title, [note]))],
    ),
    cardBlock(
      undefined,
      factsBlock([
        ['target', describeModel(setup.target)],
        ...setup.drafters.map(
          (each) => [`drafter ${each.id}`, `${each.system}, ${each.policy}, ${describeModel(each)}`] as const,
        ),
        ['prompts', String(setup.promptCount)],
        ['preset', setup.preset],
        ['options', describeSettings(setup.options)],
        ['seed', String(setup.seed)],
        ['software', `Mistletoe ${setup.version}, Node ${setup.node}`],
        ['machine', `${timings.machine}; the audit took ${durationText(timings.totalMs)}`],
      ]),
      commandBlock(setup.command),
    ),
    limitsBlock(limits),
  );
}

const commandBlock = (command: string): Block => ({
  html: fragment`<pre class="command"><code>${command}</code></pre>`,
  // Inside a fence only another fence could end it. One entry, so that nothing cuts the fence.
  print: () => [`\`\`\`sh\n${showInvisible(command.replace(/\s+/g, ' ')).replace(/```/g, "'''")}\n\`\`\``],
});

/** Whether the searches really were of equal effort. */
function describeEffort({ drafter, prompts }: DrafterResult): string[] {
  const traces = prompts.flatMap((prompt) => prompt.traces);
  const efforts = arms.flatMap((arm) => {
    const own = traces.filter((trace) => trace.arm === arm);
    const sum = (name: 'scoredCandidates' | 'decodedSuffixes'): string =>
      groupThousands(own.reduce((total, trace: SearchTrace) => total + trace[name], 0));
    return own.length === 0
      ? []
      : `${armLabels[arm]} ${sum('scoredCandidates')} scored and ${sum('decodedSuffixes')} decoded`;
  });
  if (efforts.length === 0) return [];
  return [`Effort on ${drafter}: suffixes over all prompts: ${efforts.join('; ')}.`];
}

const limits = [
  'It gives no upper bound: a longer or stronger search may find worse suffixes.',
  'It holds for these weights, this drafting policy, this sampling and these prompts. Another quantization or engine may behave differently.',
  'Along the clean answer we fix the words. The classes say whether the target writes them on its own; only “identical” is beyond argument, and no class judges meaning.',
  'Speedups are for this machine at batch size 1. Accepted lengths and passes carry over to other machines; times do not.',
  'Intervals cover prompts like the audited ones: a kind of prompt that is not among them is in no interval.',
  'A filter in front of the service may catch suffixes with a high perplexity. The audit does not assume one.',
];
