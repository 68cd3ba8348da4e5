/** A comparison in a terminal. */
import {
  describeDifference,
  describeDrafter,
  describeUnpaired,
  nameDrafter,
  rowCells,
  rowTitles,
} from './comparison-cells.js';
import { largest } from '../../core/long-lists.js';
import type { Comparison, DrafterComparison, RunDescription } from './comparison-record.js';

export function renderComparisonText(comparison: Comparison): string {
  const { runs, differences, drafters, gate } = comparison;
  const lines = [
    ...alignColumns([
      ['before', runs.before.name, describeRun(runs.before)],
      ['after', runs.after.name, describeRun(runs.after)],
    ]),
    '',
    ...(differences.length === 0
      ? ['Both were set up alike.']
      : ['Set up differently:', ...differences.map((each) => `  ${describeDifference(each)}`)]),
    ...describeUnpaired(comparison),
    ...drafters.flatMap(describe),
    ...(gate === null ? [] : ['', ...(gate.failures.length === 0 ? ['The gate passed.'] : gate.failures)]),
  ];
  return `${lines.join('\n')}\n`;
}

function describeRun({ target, version, level }: RunDescription): string {
  return `target ${target}, Mistletoe ${version}: ${level}`;
}

function describe(drafter: DrafterComparison): string[] {
  const rows = drafter.rows.map(rowCells);
  return [
    '',
    nameDrafter(drafter),
    ...(rows.length === 0 ? [] : alignColumns([rowTitles, ...rows])),
    ...describeDrafter(drafter),
  ];
}

/** The first column to the left, the others to the right where they hold numbers. */
function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, column) => largest(rows.map((row) => row[column]!.length)));
  const isNumeric = rows[0] === rowTitles;
  return rows.map((row) =>
    row
      .map((cell, column) =>
        isNumeric && column > 0 ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join('  ')
      .trimEnd(),
  );
}
