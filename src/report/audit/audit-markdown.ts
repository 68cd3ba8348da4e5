/** The audit as a comment for a pull request: the verdict, one table, and how to run it again. Under 60 lines. */
import type { ArmName, AuditResult, DrafterResult } from '../../audit/result.js';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import { escapeMarkdown, showInvisible } from '../markup.js';
import type { VerdictLevel } from './evidence.js';
import { levelNames } from './evidence.js';
import { countText, durationText, parameterText } from '../../core/number-text.js';
import { tableMarkdown } from '../table.js';
import { paperTable, phaseColumns, phaseTable, workerTable } from './timing-summary.js';
import { auditTable, mainColumns } from './row-columns.js';
import { describeCounts, describeDrop, describeTests } from './audit-words.js';
import type { DrafterVerdict, Verdict } from './verdict.js';

const marks: Readonly<Record<VerdictLevel, string>> = {
  robust: '🟢',
  fragile: '🟠',
  collapsed: '🔴',
  inconclusive: '⚪',
};
/** Beyond this many drafters the table keeps the rows that the verdict rests on. */
const maxDraftersInFull = 4;
const mostDrafters = 7;
const maxWorkerRows = 8;
const briefRows: readonly ArmName[] = ['clean', 'random', 'undirected', 'given', 'attack'];

export function renderMarkdown(result: AuditResult, timings: AuditTimings, verdict: Verdict): string {
  const shown = result.drafters.slice(0, mostDrafters);
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
    oneLine(result.setup.command),
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

/** Inside a fence only another fence could end it. */
function oneLine(command: string): string {
  return showInvisible(command.replace(/\s+/g, ' ')).replace(/```/g, "'''");
}
