import { type Command, Option } from 'commander';
import { addMachine } from '../common-flags.js';
import { wholeNumber } from '../option-values.js';
import type { CommandContext } from '../command.js';
import type { DemoFlags } from '../flags.js';

export function addDemoCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('demo')
    .summary('see speculative decoding, and an audit, at work')
    .description(
      'Answers two prompts with the bundled model, first by plain decoding, then with a drafter, and measures both. Then audits two drafters on three prompts and writes a report.',
    )
    .helpOption('-h, --help', 'print this help')
    .option('-n, --max-new-tokens <count>', 'length of each answer, at most', wholeNumber(2), 64)
    .option('--runs <count>', 'measured runs of each way of decoding', wholeNumber(1), 5)
    .addOption(
      new Option('--act <number>', 'play one act alone: 1 is decoding, 2 the audit').choices(['1', '2']),
    )
    .option('--out <dir>', 'folder of the audit’s run (default: a new one in runs/)');
  addMachine(command).addHelpText('after', examples);
  command.action(async (flags: DemoFlags) => {
    const { runDemo } = await import('./run-demo.js');
    context.exitCode = await runDemo(flags, context.terminal);
  });
}

const examples = `
Examples:
  mistletoe demo
  mistletoe demo --act 1             decoding only, a few seconds
  NO_COLOR=1 mistletoe demo          brackets instead of colours

It takes a few minutes on two cores, reads nothing but what comes with the package and leaves behind the weight cache
and the audit’s run in runs/.
`;
