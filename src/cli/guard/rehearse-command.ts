import { type Command, Option } from 'commander';
import { bundledDrafters } from '../../decode/bundled-models.js';
import type { CommandContext } from '../command.js';
import { addDownload, addMachine, addTaps, addTemplate, createTargetOption } from '../common-flags.js';
import { number, wholeNumber } from './option-values.js';
import type { RehearseFlags } from './rehearse-action.js';

/** Below `guard`. */
export function addRehearseCommand(guard: Command, context: CommandContext): void {
  const command = guard
    .command('rehearse')
    .summary('measure what a collapse costs, without an attack, and check that the guard notices')
    .description(
      'Makes drafts fail on purpose, stage by stage, and shows what that costs, where drafting stops paying, and what the guard says. Draft tokens are replaced, so answers stay the same.',
    )
    .helpOption('-h, --help', 'print this help')
    .optionsGroup('Models:')
    .addOption(createTargetOption())
    .addOption(
      new Option(
        '-d, --drafter <model>',
        `its folder or its name on the hub, ${bundledDrafters.join(', ')}, or ngram[:MIN,MAX]`,
      ).default('eagle3'),
    )
    .option('--draft-length <count>', 'draft tokens a step', wholeNumber(1, 64), 4)
    .option('--stage-requests <count>', 'requests of each stage of the collapse', wholeNumber(1, 1000), 4);
  addTemplate(addTaps(command))
    .optionsGroup('Requests:')
    .option('--prompts <file>', 'a .jsonl or .txt file (default: the bundled prompts)')
    .option('--requests <count>', 'requests as usual before the collapse', wholeNumber(1, 100_000), 60)
    .option('--max-new-tokens <count>', 'of each answer', wholeNumber(1, 100_000), 128)
    .option(
      '--false-alerts <share>',
      'share of benign requests that may be called low (default: 0.01)',
      number({ above: 0, most: 0.5, expected: 'a number above 0 and up to 0.5' }),
    )
    .optionsGroup('Machine:');
  addMachine(addDownload(command)).addHelpText('after', examples);
  command.action(async () => {
    const { runRehearse } = await import('./rehearse-action.js');
    // What guard has an option for, too, commander hands to guard.
    context.exitCode = await runRehearse(command.optsWithGlobals<RehearseFlags>(), context.terminal);
  });
}

const examples = `
Examples:
  mistletoe guard rehearse                                    the bundled model with eagle3
  mistletoe guard rehearse -t ./my-model -d ./my-eagle3       a model of your own

Exit code 0 if the guard noticed the collapse, 3 if it did not.
`;
