import type { Command } from 'commander';
import { trainableSystems } from '../train/systems/new-drafter.js';
import type { CommandContext } from './command-context.js';
import {
  addDownload,
  addLimit,
  addMachine,
  addProgress,
  addTaps,
  addTemplate,
  createTargetOption,
} from './common-options.js';
import { createFormatOption, findStray } from './long-runs.js';
import type { TrainFlags } from './train-flags.js';
import { addShape, addTrainSettings, readSettings } from './train-flags.js';

/** What --resume may stand beside: everything else is in the run's folder. */
const resumable = ['resume', 'progress', 'format', 'cacheDir', 'verifyCache'];

export function addTrainCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('train')
    .summary('make a drafter for a target, or a better one')
    .description(
      'Lets the target answer your questions, trains a drafter to foresee those answers, and measures its accepted length on texts that are held out. The drafter is a folder in the layout in which its system is published.',
    )
    .helpOption('-h, --help', 'print this help')
    .optionsGroup('What to train:')
    .addOption(createTargetOption())
    .option('--system <name>', `begin with fresh weights: ${trainableSystems.join(', ')}`)
    .option('--from <model>', 'go on from this drafter: a folder, a name on the hub or a bundled name')
    .option(
      '--data <file>',
      'one conversation a line: {"prompt": …}, {"messages": …}, {"turns": …} or {"conversations": …}',
    );
  addShape(addTemplate(addTaps(addLimit(command))));
  addTrainSettings(command);
  command
    .optionsGroup('The run:')
    .option('--out <dir>', 'folder of the run (default: a new one in runs/)')
    .option('--resume <dir>', 'go on with a run that was interrupted or killed')
    .addOption(createFormatOption());
  addMachine(addProgress(addDownload(command))).addHelpText('after', examples);
  command.action(async (flags: TrainFlags) => {
    const { runTrain } = await import('./train-action.js');
    context.exitCode = await runTrain(flags, context.terminal, {
      settings: readSettings(command),
      strayBesideResume: findStray(command, resumable),
    });
  });
}

const examples = `
Examples:
  mistletoe train --system eagle3 --data questions.jsonl --steps 500           for the bundled model
  mistletoe train --target ./my-model --system medusa --heads 3 --data chats.jsonl --out runs/medusa
  mistletoe train --target ./my-model --from ./my-eagle3 --data chats.jsonl --learning-rate 1e-4
  mistletoe train --resume runs/medusa                                         go on after Ctrl-C or a crash

The run's folder has best/ and last/, which are drafters for --drafter, and report.html, report.md, result.json,
log.jsonl. Exit codes: 0 done, 1 the program failed, 2 something you gave it is wrong, 130 interrupted (143 by
SIGTERM, 129 by SIGHUP).
`;
