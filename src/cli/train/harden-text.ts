/** A finished hardening run in a terminal: a table for each audit, the outcome, and commands to try. */
import { describeTimes } from '../../report/harden/hardening-markdown.js';
import type { AuditComparison, HardeningResult } from '../../train/harden/hardening-result.js';
import {
  auditTitles,
  describeAudit,
  describeComparison,
  describeOutcome,
  listRows,
  resultColumns,
  resultLegend,
} from '../../report/harden/hardening-words.js';
import { alignRows, describeNext, typedPath } from '../long-runs.js';
import type { Colors } from '../terminal.js';

export interface HardenTextOptions {
  /** Folder of the hardened drafter. */
  readonly hardened: string;
  readonly report: string;
  /** Folder of the target, unless it is the bundled one. */
  readonly target: string | undefined;
  readonly colors: Colors;
}

export function formatHardening(
  result: HardeningResult,
  { hardened, report, target, colors }: HardenTextOptions,
): string {
  const lines = [
    ...result.audits.flatMap((comparison) => drawAudit(comparison, colors)),
    ...resultLegend.map((line) => colors.dim(line)),
    '',
    `${colors.bold(describeOutcome(result))}, after ${describeTimes(result)}.`,
    '',
    `${colors.bold('hardened')}  ${typedPath(hardened)}`,
    '',
    ...describeNext(typedPath(hardened), target === undefined ? undefined : typedPath(target)),
    '',
    `Report: ${report}`,
  ];
  return `${lines.map((line) => line.replace(/[\r\n]/g, ' ')).join('\n')}\n`;
}

function drawAudit(comparison: AuditComparison, colors: Colors): string[] {
  const [heading = '', ...rows] = alignRows([resultColumns, ...listRows(comparison)]);
  return [
    `${colors.bold(auditTitles[comparison.audit])}: ${describeAudit(comparison)}`,
    ...[colors.dim(heading), ...rows, ...describeComparison(comparison), ''],
  ];
}
