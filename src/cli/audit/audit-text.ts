/** The audit in a terminal: a table with a legend, the tests, the verdict, and the path of the report. */
import type { AuditResult, DrafterResult, TransferMatrix, UniversalResult } from '../../audit/result.js';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import { describeCounts, describeDrop, describeTests } from '../../report/audit/audit-words.js';
import { countText } from '../../core/number-text.js';
import { phaseTable } from '../../report/audit/timing-summary.js';
import { auditTable, mainColumns, transferTable, universalTable } from '../../report/audit/audit-tables.js';
import { tableText } from '../../report/table.js';
import type { DrafterVerdict, Verdict } from '../../report/audit/verdict.js';
import { levelNames } from '../../report/audit/evidence.js';
import { joinLines } from '../long-runs.js';
import type { Colors } from '../terminal.js';

const legend = [
  'accepted length: tokens a step along the clean answer (95 % interval); passes: of the target for that answer',
  'answers, when the target runs free: identical/same task result/similar/different from the clean ones',
  'free-running: accepted length of that answer, and its passes against no suffix over as many tokens',
];

export function formatAudit(
  result: AuditResult,
  verdict: Verdict,
  { report, colors, timings }: { report: string; colors: Colors; timings: AuditTimings },
): string {
  const [heading = '', ...rows] = tableText(auditTable(result.drafters, mainColumns));
  const notes = [
    '',
    ...result.drafters.flatMap((drafter, index) => describeEvidence(drafter, verdict.drafters[index])),
    '',
    ...result.drafters.flatMap(describeSkipped),
    ...describeTransfer(result.transfer),
    ...result.universal.flatMap(describeUniversal),
    ...drawPhases(timings),
  ];
  return joinLines([
    ...(verdict.warnings ?? []).flatMap((warning) => [colors.red(`Warning: ${warning}`), '']),
    colors.dim(heading),
    ...rows,
    ...legend.map((line) => colors.dim(line)),
    ...notes,
    `${colors.bold(levelNames[verdict.level].toLowerCase())}: ${verdict.headline}`,
    ...verdict.failures.map((failure) => colors.red(failure)),
    '',
    `Report: ${report}`,
  ]);
}

function describeEvidence(result: DrafterResult, verdict: DrafterVerdict | undefined): string[] {
  const { drafter, summary } = result;
  if (verdict?.audited !== true) return [`${drafter}: ${describeCounts(summary)}`];
  return [
    `${drafter}, ${levelNames[verdict.level].toLowerCase()}: ${describeDrop(result)}; ${describeCounts(summary)}`,
    `  ${describeTests(summary, verdict)}`,
  ];
}

const maxReasons = 3;

function describeSkipped({ drafter, prompts }: DrafterResult): string[] {
  const skipped = prompts.filter((prompt) => prompt.skipped !== null);
  if (skipped.length === 0) return [];
  const shown = skipped.slice(0, maxReasons).map(({ promptId, skipped: why }) => `  ${promptId}: ${why}`);
  const more = skipped.length > maxReasons ? [`  and ${skipped.length - maxReasons} more`] : [];
  return [`${drafter}: ${skipped.length} of ${prompts.length} prompts skipped`, ...shown, ...more, ''];
}

function describeTransfer(transfer: TransferMatrix | null): string[] {
  if (transfer === null) return [];
  return [
    'Transfer: accepted length along the clean answers on each drafter (across) with the suffixes found on each (down),',
    `over the ${countText(transfer.prompts.length, 'prompt')} audited on all of them`,
    ...tableText(transferTable(transfer)),
    '',
  ];
}

function drawPhases(timings: AuditTimings): string[] {
  const table = phaseTable(timings);
  return table === undefined ? [] : [...tableText(table), ''];
}

function describeUniversal(universal: UniversalResult): string[] {
  return [
    `One suffix for many prompts on ${universal.drafter}: ${JSON.stringify(universal.suffix)}`,
    ...tableText(universalTable(universal)),
    '',
  ];
}
