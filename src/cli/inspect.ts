import type { Inspection } from '../draft/inspection.js';
import { inspectCheckpoint } from '../draft/inspection.js';
import { chooseDevice } from '../runtime/device-choice.js';
import { asOneLine } from './clean-text.js';
import { tapsOf } from './common-flags.js';
import { closeSentence, exitCodes } from './failure.js';
import type { InspectFlags } from './flags.js';
import type { DeviceFit } from './inspect-device.js';
import { describeFit, fitLines } from './inspect-device.js';
import { inspectionLines } from './inspection-lines.js';
import { createModelFinder } from './model-source.js';
import type { Colors, Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';

export async function runInspect(given: string, flags: InspectFlags, terminal: Terminal): Promise<number> {
  await chooseDevice(flags); // what cannot be had is refused before anything is fetched
  const findModel = createModelFinder(flags, terminal);
  const inspection = await inspectCheckpoint(await findModel(given), tapsOf(flags));
  // Drafters run where their targets do, and broken models nowhere.
  const { model, memory } = inspection;
  const isWhole = model !== undefined && memory !== undefined;
  const fit = isWhole ? await describeFit(model, flags) : undefined;
  const { stdout } = terminal;
  if (flags.format === 'json') {
    const record = fit === undefined ? inspection : { ...inspection, runsOn: fit };
    stdout.writeData(`${JSON.stringify(record, undefined, 2)}\n`);
  } else stdout.write(formatInspection(inspection, fit, colorsFor(stdout, terminal)));
  return inspection.problems.length === 0 ? exitCodes.success : exitCodes.badInput;
}

const shownProblems = 12;

function formatInspection(inspection: Inspection, fit: DeviceFit | undefined, colors: Colors): string {
  const { model } = inspection;
  const device = fit === undefined || model === undefined ? [] : fitLines(fit, model);
  const facts = inspectionLines(inspection, device);
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
