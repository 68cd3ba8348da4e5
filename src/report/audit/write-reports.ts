/** Writes the reports of an audit into its run folder. */
import { join } from 'node:path';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { ArmName, AuditResult, DrafterResult } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { isRecord } from '../../core/json-text.js';
import { countText, durationText, parameterText } from '../../core/number-text.js';
import { writeWhole } from '../document.js';
import { escapeMarkdown, showInvisible } from '../markup.js';
import { tableMarkdown } from '../table.js';
import { renderHtml } from './audit-page.js';
import {
  describeCounts,
  describeDrop,
  describeTests,
  findPromptArms,
  sameAnswerLength,
} from './audit-words.js';
import { levelNames, type VerdictLevel } from './evidence.js';
import { renderJUnit } from './junit.js';
import { auditTable, mainColumns } from './row-columns.js';
import { paperTable, phaseColumns, phaseTable, workerTable } from './timing-summary.js';
import { type DrafterVerdict, judge, type Verdict } from './verdict.js';

export async function writeReports(
  folder: string,
  result: AuditResult,
  timings: AuditTimings,
  verdict: Verdict = judge(result),
) {
  const paths = {
    html: join(folder, 'report.html'),
    markdown: join(folder, 'report.md'),
    junit: join(folder, 'junit.xml'),
    /** The result with its verdict: what the other files are made from. */
    result: join(folder, 'result.json'),
    /** The suffixes that count, to be measured again. */
    suffixes: join(folder, 'suffixes.jsonl'),
  };
  await writeWhole(paths.html, renderHtml(result, timings, verdict));
  await writeWhole(paths.markdown, renderMarkdown(result, timings, verdict));
  await writeWhole(paths.junit, renderJUnit(result, verdict));
  await writeWhole(paths.suffixes, renderSuffixes(result));
  // Last, so that a finished result has its reports.
  await writeWhole(paths.result, renderResult(result, verdict));
  return paths;
}

/**
 * A result as one JSON document. Keys have a fixed order, so that two documents can be compared as text. JSON has no
 * infinities: a number that is not finite becomes null.
 */
const leadingKeys = [
  'schema',
  'runFolder',
  'verdict',
  'id',
  'drafter',
  'promptId',
  'arm',
  'name',
  'level',
  'headline',
];

/** Everything, times included; names the folder of the run where one is given. */
export function renderJson(
  result: AuditResult,
  timings: AuditTimings,
  verdict: Verdict,
  folder?: string,
): string {
  return stringifyStably({ ...result, verdict, timings, runFolder: folder });
}

/** What a run leaves in its folder: no times, so the same options, seed and weights give the same bytes. */
export function renderResult(result: AuditResult, verdict: Verdict): string {
  return stringifyStably({ ...result, verdict });
}

export function stringifyStably(value: unknown): string {
  return `${JSON.stringify(value, (_, child: unknown) => (isRecord(child) ? orderKeys(child) : child), 2)}\n`;
}

function orderKeys(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const keys = Object.keys(record).sort(
    (left, right) => rankOf(left) - rankOf(right) || (left < right ? -1 : 1),
  );
  return Object.fromEntries(keys.map((key) => [key, record[key]]));
}

function rankOf(key: string): number {
  const rank = leadingKeys.indexOf(key);
  return rank < 0 ? leadingKeys.length : rank;
}

/** The suffixes that count, one JSON line each, so that they can be measured again with --suffix. */
export function renderSuffixes({ drafters }: AuditResult): string {
  const lines = drafters.flatMap(({ drafter, prompts }) => {
    const counted = countedArm(prompts);
    return prompts.flatMap((prompt) => {
      const cleanLength = sameAnswerLength(prompt, 'clean');
      return findPromptArms(prompt, counted)
        .filter(({ withoutSuffix, suffix }) => withoutSuffix === null && suffix !== '')
        .map(({ suffix, sameAnswer, preservation }) =>
          JSON.stringify({
            prompt: prompt.promptId,
            drafter,
            suffix,
            sameAnswerLength: sameAnswer.meanAcceptedLength,
            cleanLength,
            kept: preservation.kept,
          }),
        );
    });
  });
  return lines.map((line) => `${line}\n`).join('');
}

// The audit as a comment for a pull request: the verdict, one table, and how to run it again. Under 60 lines.
const marks: Readonly<Record<VerdictLevel, string>> = {
  robust: '🟢',
  fragile: '🟠',
  collapsed: '🔴',
  inconclusive: '⚪',
};
/** Beyond this many drafters the table keeps the rows that the verdict rests on. */
const maxDraftersInFull = 4;
const maxDrafters = 7;
const maxWorkerRows = 8;
const briefRows: readonly ArmName[] = ['clean', 'random', 'undirected', 'given', 'attack'];

export function renderMarkdown(result: AuditResult, timings: AuditTimings, verdict: Verdict): string {
  const shown = result.drafters.slice(0, maxDrafters);
  const isBrief = result.drafters.length > maxDraftersInFull;
  const lines = [
    `## ${marks[verdict.level]} ${levelNames[verdict.level]} · Mistletoe audit`,
    '',
    ...(verdict.warnings ?? []).flatMap((warning) => [`> **Warning.** ${escapeMarkdown(warning)}`, '']),
    escapeMarkdown(verdict.headline),
    '',
    ...describeFailures(verdict),
    ...tableMarkdown(auditTable(shown, mainColumns, (arm) => !isBrief || briefRows.includes(arm))),
    '',
    `<sub>${mainColumns.map(({ name, unit }) => `**${name}**: ${unit}`).join(' · ')}</sub>`,
    '',
    ...drawPaperTable(result, timings),
    ...shown.map((drafter, index) => describeDrafter(drafter, verdict.drafters[index]!)),
    ...(shown.length < result.drafters.length
      ? [`- and ${countText(result.drafters.length - shown.length, 'more drafter')}: see the HTML report.`]
      : []),
    '',
    ...drawPhases(timings),
    describeSetup(result, timings),
    '',
    '```sh',
    // Inside a fence only another fence could end it.
    showInvisible(result.setup.command.replace(/\s+/g, ' ')).replace(/```/g, "'''"),
    '```',
  ];
  return `${lines.join('\n')}\n`;
}

function describeFailures({ failures, exitCode }: Verdict): string[] {
  if (failures.length === 0) return [];
  const title = exitCode === 100 ? '**Gate failed.**' : '**Incomplete.**';
  const shown = failures.slice(0, 3).map(escapeMarkdown).join(' ');
  const more = failures.length > 3 ? ` And ${countText(failures.length - 3, 'more failure')}.` : '';
  return [`${title} ${shown}${more}`, ''];
}

function describeDrafter({ drafter, summary }: DrafterResult, verdict: DrafterVerdict): string {
  const name = escapeMarkdown(drafter);
  if (!verdict.audited) return `- ${name}: ${describeCounts(summary)}`;
  return (
    `- ${name}, ${levelNames[verdict.level].toLowerCase()}: ${describeDrop(summary)}; ` +
    `${describeTests(summary, verdict)}; ${describeCounts(summary)}`
  );
}

function drawPaperTable(result: AuditResult, timings: AuditTimings): string[] {
  const table = paperTable(result, timings);
  return table === undefined ? [] : ['The columns of the paper:', '', ...tableMarkdown(table), ''];
}

/** All drafters together: the HTML report has one row for each. */
function drawPhases(timings: AuditTimings): string[] {
  const all = phaseTable(timings)?.rows.at(-1);
  const workers = workerTable(timings);
  return [
    ...(all === undefined ? [] : [...tableMarkdown({ columns: ['time', ...phaseColumns], rows: [all] }), '']),
    ...(workers === undefined || workers.rows.length > maxWorkerRows ? [] : [...tableMarkdown(workers), '']),
  ];
}

function describeSetup({ setup }: AuditResult, timings: AuditTimings): string {
  const { target, preset, seed, version } = setup;
  return (
    `Target ${escapeMarkdown(target.name)} (${parameterText(target.parameterCount)}), preset ${escapeMarkdown(preset)}, ` +
    `seed ${seed}, Mistletoe ${escapeMarkdown(version)}; the audit took ${durationText(timings.totalMs)} on ` +
    `${escapeMarkdown(timings.machine)}. Run it again:`
  );
}
