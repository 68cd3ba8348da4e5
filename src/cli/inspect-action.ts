import type { Inspection } from '../draft/inspection.js';
import { inspectCheckpoint } from '../draft/inspection.js';
import { closeSentence, exitCodes } from './failure.js';
import type { InspectFlags } from './inspect-command.js';
import { inspectionLines } from './inspection-lines.js';
import type { Colors, Terminal } from './terminal.js';
import { colorsFor, withoutControls } from './terminal.js';

export async function runInspect(
  folder: string,
  { format }: InspectFlags,
  terminal: Terminal,
): Promise<number> {
  const inspection = await inspectCheckpoint(folder);
  terminal.stdout.write(
    format === 'json'
      ? `${JSON.stringify(inspection, undefined, 2)}\n`
      : formatInspection(inspection, colorsFor(terminal.stdout, terminal)),
  );
  return inspection.problems.length === 0 ? exitCodes.success : exitCodes.badInput;
}

const shownProblems = 12;

function formatInspection(inspection: Inspection, colors: Colors): string {
  const facts = inspectionLines(inspection);
  const width = Math.max(...facts.map(([label]) => label.length)) + 2;
  const lines = facts.map(([label, value]) => colors.dim(label.padEnd(width)) + withoutControls(value));
  const notes = inspection.notes.map((note) => `${colors.yellow('note:')} ${note}`);
  return `${[...lines, ...notes, '', ...formatProblems(inspection, colors)].join('\n')}\n`;
}

function formatProblems({ problems }: Inspection, colors: Colors): readonly string[] {
  if (problems.length === 0) return [colors.green('No problems found.')];
  const shown = problems
    .slice(0, shownProblems)
    .flatMap(({ problem, remedy }, index) => [
      `${colors.red(`${index + 1}.`)} ${closeSentence(withoutControls(problem))}`,
      ...(remedy === '' ? [] : [`   ${colors.cyan('remedy:')} ${closeSentence(withoutControls(remedy))}`]),
    ]);
  const hidden = problems.length - shownProblems;
  return [
    colors.red(problems.length === 1 ? '1 problem:' : `${problems.length} problems:`),
    ...shown,
    ...(hidden > 0 ? [`   ... and ${hidden} more; --format json lists them all.`] : []),
  ];
}
