import { type Command, Option } from 'commander';
import { number } from './option-values.js';
import type { CommandContext } from './command-context.js';
import type { CompareFlags } from './command-flags.js';

export function addCompareCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('compare')
    .summary('two finished audits side by side')
    .description(
      'Compares two finished audits over the prompts that both audited: accepted length row by row, what the attack takes away, what became of the answers, verdicts, and what was set up differently.',
    )
    .helpOption('-h, --help', 'print this help')
    .argument('<before>', 'folder of a finished audit')
    .argument('<after>', 'folder of another')
    .addOption(
      new Option('--format <format>', 'of what is printed')
        .choices(['text', 'json', 'markdown', 'html'])
        .default('text'),
    )
    .option(
      '--fail-if-worse <share>',
      'exit code 100 if the drop of any drafter grew by this share (0.05: 5 points) and chance does not explain it',
      number({ above: 0, most: 1, expected: 'a number above 0 and up to 1' }),
    )
    .addHelpText('after', examples);
  command.action(async (before: string, after: string, flags: CompareFlags) => {
    const { runCompare } = await import('./compare-action.js');
    context.exitCode = await runCompare(before, after, flags, context.terminal);
  });
}

const examples = `
Examples:
  mistletoe compare runs/target-eagle3-0-1 runs/target-eagle3-0-2
  mistletoe compare runs/old runs/new --format html > compare.html
  mistletoe compare runs/old runs/new --format markdown --fail-if-worse 0.05

Exit codes: 0 compared, 2 something you gave it is wrong; with --fail-if-worse also 100 worse, 3 nothing to compare,
4 too few prompts to decide.
`;
