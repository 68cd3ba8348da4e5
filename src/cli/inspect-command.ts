import { type Command, Option } from 'commander';
import { addDevice, addDownload, addTaps } from './common-flags.js';
import type { CommandContext } from './command.js';
import type { InspectFlags } from './flags.js';

export function addInspectCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('inspect')
    .summary('say what a model folder is, and what is wrong with it')
    .description(
      'Says what a folder holds (a model, or a drafter of which system), how large it is, what memory it needs, ' +
        'and lists every problem with its remedy. Reads headers only, so it is quick on large models too.',
    )
    .helpOption('-h, --help', 'print this help')
    .argument(
      '<model>',
      'folder of a model or a drafter, or its name on the Hugging Face hub, as ORG/NAME[@REVISION]',
    )
    .addOption(
      new Option('--format <format>', 'text for people, json for programs')
        .choices(['text', 'json'])
        .default('text'),
    );
  addDevice(addDownload(addTaps(command))).addHelpText('after', examples);
  command.action(async (folder: string, flags: InspectFlags) => {
    const { runInspect } = await import('./inspect.js');
    context.exitCode = await runInspect(folder, flags, context.terminal);
  });
}

const examples = `
Examples:
  mistletoe inspect ./my-model
  mistletoe inspect ./my-drafter --format json
  mistletoe inspect yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --download

Exit code 0 if nothing is wrong with the folder, 2 if there are problems.
`;
