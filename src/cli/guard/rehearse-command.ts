import { type Command, Option } from 'commander';
import { bundledDrafters } from '../../decode/bundled-models.js';
import type { CommandContext } from '../command.js';
import { addDownload, addMachine, addTaps, addTemplate, createTargetOption } from '../common-flags.js';
import { number, wholeNumber } from './option-values.js';
import type { RehearseFlags } from './rehearse-flags.js';

/** Below `guard`. */
export function addRehearseCommand(guard: Command, context: CommandContext): void {
  const command = guard
    .command('rehearse')
    .summary('price a collapse without an attack, and see the alarm ring')
    .description(
      'Lets drafts fail on purpose, step by step, and shows what that costs and when the alarm rings. Without --upstream it runs on this machine, where draft tokens are spoiled and answers stay the same. With it, it says how that engine is made to pretend, asks it a few prompts all the time, and waits for the alarm while you start it anew.',
    )
    .helpOption('-h, --help', 'print this help')
    .optionsGroup('On this machine:')
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
    .optionsGroup('On an engine that serves nobody else:')
    .option('-u, --upstream <url>', 'the engine, as http://127.0.0.1:8000')
    .option('--key-env <name>', 'environment variable that holds the key of the engine')
    .option(
      '--accepted-length <number>',
      'what the engine is to pretend, bonus token included',
      number({ above: 1, most: 64, expected: 'a number above 1 and up to 64' }),
      1.1,
    )
    .optionsGroup('Both:')
    .option('--prompts <file>', 'a .jsonl or .txt file (default: the bundled prompts)')
    .option('--requests <count>', 'requests as usual before the collapse', wholeNumber(1, 100_000), 60)
    .option('--max-new-tokens <count>', 'of each answer', wholeNumber(1, 100_000), 128)
    .option(
      '--false-alarms <share>',
      'share of benign requests that may ring (default: 0.01)',
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
  mistletoe guard rehearse --upstream http://127.0.0.1:8000   vLLM, SGLang or TensorRT-LLM, restarted by you

Exit code 0 if the alarm rang, 3 if it did not.
`;
