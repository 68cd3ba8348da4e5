import type { Inspection } from '../draft/inspection.js';
import { inspectCheckpoint } from '../draft/inspection.js';
import { asOneLine } from './clean-text.js';
import { closeSentence, exitCodes } from './failure.js';
import type { InspectFlags } from './command-flags.js';
import { inspectionLines } from './inspection-lines.js';
import { createModelFinder } from './model-source.js';
import type { Colors, Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';

export async function runInspect(given: string, flags: InspectFlags, terminal: Terminal): Promise<number> {
  const findModel = createModelFinder(flags, terminal);
  const inspection = await inspectCheckpoint(await findModel(given));
  const { stdout } = terminal;
  if (flags.format === 'json') stdout.writeData(`${JSON.stringify(inspection, undefined, 2)}\n`);
  else stdout.write(formatInspection(inspection, colorsFor(stdout, terminal)));
  return inspection.problems.length === 0 ? exitCodes.success : exitCodes.badInput;
}

const shownProblems = 12;

function formatInspection(inspection: Inspection, colors: Colors): string {
  const facts = inspectionLines(inspection);
  const width = Math.max(...facts.map(([label]) => label.length)) + 2;
  const lines = facts.map(([label, value]) => colors.dim(label.padEnd(width)) + asOneLine(value));
  const notes = inspection.notes.map((note) => `${colors.yellow('note:')} ${asOneLine(note)}`);
  return `${[...lines, ...notes, '', ...formatProblems(inspection, colors)].join('\n')}\n`;
}

function formatProblems({ problems }: Inspection, colors: Colors): readonly string[] {
  if (problems.length === 0) return [colors.green('No problems found.')];
  const shown = problems
    .slice(0, shownProblems)
    .flatMap(({ problem, remedy }, index) => [
      `${colors.red(`${index + 1}.`)} ${closeSentence(problem)}`,
      ...(remedy === '' ? [] : [`   ${colors.cyan('remedy:')} ${closeSentence(remedy)}`]),
    ]);
  const hidden = problems.length - shownProblems;
  return [
    colors.red(problems.length === 1 ? '1 problem:' : `${problems.length} problems:`),
    ...shown,
    ...(hidden > 0 ? [`   ... and ${hidden} more; --format json lists them all.`] : []),
  ];
}
