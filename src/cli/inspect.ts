/** `mistletoe inspect`. */
import type { Inspection } from '../draft/inspection.js';
import { inspectCheckpoint } from '../draft/inspection.js';
import { chooseDevice } from '../runtime/device-choice.js';
import { bundledDrafterFolder, bundledDrafters } from '../decode/bundled-models.js';
import type { Invocation } from './command.js';
import { defineCommand } from './command.js';
import { deviceFlags, downloadFlag, formatFlag, tapsFlag, tapsOf } from './common-flags.js';
import { closeSentence, exitCodes } from './failure.js';
import type { FlagsOf } from './flags.js';
import type { DeviceFit } from './inspection-lines.js';
import { describeFit, fitLines, inspectionLines } from './inspection-lines.js';
import { createModelFinder } from './model-source.js';
import { asOneLine } from './safe-text.js';
import type { Colors } from './terminal.js';
import { colorsFor } from './terminal.js';

const flags = {
  ...formatFlag,
  download: { ...downloadFlag.download, rare: false },
  ...tapsFlag,
  ...deviceFlags,
};
type InspectFlags = FlagsOf<typeof flags>;

export const inspect = defineCommand({
  name: 'inspect',
  description:
    'Shows what a folder or GGUF file contains (a model, or a drafter and its system), its size, the memory it needs, and every problem with its remedy. It reads headers only, so it is fast on large models too.',
  arguments: [
    [
      '<model>',
      'folder or GGUF file of a model or a drafter, a bundled drafter, or ORG/NAME[@REVISION] on the Hugging Face hub',
    ],
  ],
  flags,
  examples: [
    ['mistletoe inspect ./my-model', ''],
    ['mistletoe inspect eagle3', 'a bundled drafter'],
    ['mistletoe inspect ./my-drafter --format json', ''],
    ['mistletoe inspect yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --download', ''],
  ],
  notes: 'Exit codes: 0 no problems, 2 problems found.',
  run: runInspect,
});

async function runInspect(flags: InspectFlags, { terminal, args }: Invocation): Promise<number> {
  await chooseDevice(flags); // fails before anything is downloaded
  const findModel = createModelFinder(flags, terminal);
  const inspection = await inspectCheckpoint(await findModel(locate(args[0] ?? '')), tapsOf(flags));
  // Drafters run where their targets do.
  const { model, memory } = inspection;
  const fit = model !== undefined && memory !== undefined ? await describeFit(model, flags) : undefined;
  const { stdout } = terminal;
  if (flags.format === 'json') {
    const record = fit === undefined ? inspection : { ...inspection, runsOn: fit };
    stdout.writeData(`${JSON.stringify(record, undefined, 2)}\n`);
  } else stdout.write(formatInspection(inspection, fit, colorsFor(stdout, terminal)));
  return inspection.problems.length === 0 ? exitCodes.success : exitCodes.badInput;
}

/** A bundled drafter by its name; a folder of the same name is written ./eagle3. */
function locate(given: string): string {
  const bundled = bundledDrafters.find((name) => name === given);
  return bundled === undefined ? given : bundledDrafterFolder(bundled);
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
