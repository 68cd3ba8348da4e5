/** A comparison as a comment for a pull request. */
import {
  describeDifference,
  describeDrafter,
  describeUnpaired,
  nameDrafter,
  rowCells,
  rowTitles,
} from './comparison-cells.js';
import type { Comparison, DrafterComparison, RunDescription } from './comparison-record.js';
import { escapeMarkdown } from '../escape.js';

export function renderComparisonMarkdown(comparison: Comparison): string {
  const { runs, differences, drafters, gate } = comparison;
  const lines = [
    '## Mistletoe: two audits compared',
    '',
    `- before: ${describeRun(runs.before)}`,
    `- after: ${describeRun(runs.after)}`,
    ...(differences.length === 0
      ? ['- both were set up alike']
      : differences.map((each) => `- ${escapeMarkdown(describeDifference(each))}`)),
    ...describeUnpaired(comparison).map((sentence) => `- ${escapeMarkdown(sentence)}`),
    ...drafters.flatMap(describe),
    ...(gate === null
      ? []
      : [
          '',
          gate.failures.length === 0
            ? 'The gate passed.'
            : `**${gate.exitCode === 100 ? 'Gate failed.' : 'Incomplete.'}** ${gate.failures.map(escapeMarkdown).join(' ')}`,
        ]),
  ];
  return `${lines.join('\n')}\n`;
}

function describeRun({ name, target, version, level }: RunDescription): string {
  const facts = `${name}, target ${target}, Mistletoe ${version}: ${level}`;
  return escapeMarkdown(facts);
}

function describe(drafter: DrafterComparison): string[] {
  const rows = drafter.rows.map((row) => `| ${rowCells(row).map(escapeMarkdown).join(' | ')} |`);
  const table = [
    `| ${rowTitles.join(' | ')} |`,
    `| --- | ${rowTitles
      .slice(1)
      .map(() => '---:')
      .join(' | ')} |`,
    ...rows,
  ];
  return [
    '',
    `### ${escapeMarkdown(nameDrafter(drafter))}`,
    '',
    ...(rows.length === 0 ? [] : [...table, '']),
    escapeMarkdown(describeDrafter(drafter).join(' ')),
  ];
}
