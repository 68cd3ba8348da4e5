/** The audit in a terminal: one table, the verdict, and where the report is. */
import type { AuditResult, DrafterResult, TransferMatrix, UniversalResult } from '../audit/result.js';
import { armLabels } from '../report/arm-names.js';
import { acceptedLengthText, divergenceText, percentText, pValueText } from '../report/number-text.js';
import type { Verdict } from '../report/verdict.js';
import type { Colors } from './terminal.js';
import { withoutControls } from './terminal.js';

export interface AuditTextOptions {
  readonly report: string;
  readonly colors: Colors;
}

type Row = readonly string[];

export function formatAudit(
  result: AuditResult,
  verdict: Verdict,
  { report, colors }: AuditTextOptions,
): string {
  const lines = [
    ...alignColumns([
      ['drafter', 'row', 'accepted length', '95 % interval', 'KL', 'answer kept', 'n'],
      ...result.drafters.flatMap(drawRows),
    ]),
    '',
    ...result.drafters.flatMap(describeSkipped),
    ...describeTransfer(result.transfer),
    ...result.universal.flatMap(describeUniversal),
    // Ids of prompts and names of folders come from outside; colours are our own.
  ].map(withoutControls);
  const closing = [
    `${colors.bold(verdict.level)}: ${withoutControls(verdict.headline)}`,
    ...verdict.failures.map((failure) => colors.red(withoutControls(failure))),
    '',
    `Report: ${withoutControls(report)}`,
  ];
  return `${[colors.dim(lines[0] ?? ''), ...lines.slice(1), ...closing].join('\n')}\n`;
}

function drawRows({ drafter, summary }: DrafterResult): Row[] {
  if (summary.arms.length === 0) return [[drafter, 'nothing audited', '–', '–', '–', '–', '0']];
  return summary.arms.map(({ arm, meanAcceptedLength, divergence, editSimilarity }) => {
    const { estimate, low, high, n } = meanAcceptedLength;
    const isClean = arm === 'clean';
    return [
      drafter,
      armLabels[arm],
      acceptedLengthText(estimate),
      `${acceptedLengthText(low)} to ${acceptedLengthText(high)}`,
      isClean ? '–' : divergenceText(divergence),
      isClean ? '–' : percentText(editSimilarity),
      String(n),
    ];
  });
}

/** The first two columns to the left, numbers to the right. */
function alignColumns(rows: readonly Row[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (column < 2 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd(),
  );
}

const mostReasons = 3;

function describeSkipped({ drafter, prompts }: DrafterResult): string[] {
  const skipped = prompts.filter((prompt) => prompt.skipped !== null);
  if (skipped.length === 0) return [];
  const shown = skipped.slice(0, mostReasons).map(({ promptId, skipped: why }) => `  ${promptId}: ${why}`);
  const more = skipped.length > mostReasons ? [`  and ${skipped.length - mostReasons} more`] : [];
  return [`${drafter}: ${skipped.length} of ${prompts.length} prompts skipped`, ...shown, ...more, ''];
}

function describeTransfer(transfer: TransferMatrix | null): string[] {
  if (transfer === null) return [];
  const { drafters, attacked, clean } = transfer;
  const rows = attacked.map((row, index) => [drafters[index]!, '', ...row.map(acceptedLengthText)]);
  return [
    'Transfer: accepted length on each drafter (across) with the suffixes found on each (down)',
    ...alignColumns([['', '', ...drafters], ['no suffix', '', ...clean.map(acceptedLengthText)], ...rows]),
    '',
  ];
}

function describeUniversal({ drafter, suffix, trained, heldOut }: UniversalResult): string[] {
  const describe = (split: typeof trained): string =>
    `${acceptedLengthText(split.cleanAcceptedLength)} to ${acceptedLengthText(split.attackedAcceptedLength)} ` +
    `(n = ${split.n}, ${pValueText(split.pValue)}, KL ${divergenceText(split.divergence)})`;
  const held = heldOut === null ? 'no prompt was held out' : `held out ${describe(heldOut)}`;
  return [
    `One suffix for many prompts on ${drafter}: ${JSON.stringify(suffix)}`,
    `  searched on ${describe(trained)}, ${held}`,
    '',
  ];
}
