import type { Command } from 'commander';
import type { CommandContext } from '../command.js';
import {
  addDownload,
  addLimit,
  addMachine,
  addProgress,
  addTaps,
  addTemplate,
  createTargetOption,
} from '../common-flags.js';
import { createFormatOption, findStray } from '../long-runs.js';
import type { HardenFlags } from '../harden-flags.js';
import { addAudits, addHardening, readAuditSettings, readHardening } from '../harden-flags.js';
import { wholeNumber } from '../option-values.js';
import { readSettings } from '../train-flags.js';

/** What --resume may stand beside: everything else is in the run's folder. */
const resumable = ['resume', 'progress', 'format', 'cacheDir', 'verifyCache'];

export function addHardenCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('harden')
    .summary('make a drafter robust against suffixes, and prove it')
    .description(
      'In rounds: searches suffixes against a drafter on the prompts of your data, lets the target answer behind them, and trains the drafter on these texts. Then audits it beside what it was, on prompts, seeds and a suffix length that training never saw.',
    )
    .helpOption('-h, --help', 'print this help')
    .optionsGroup('What to harden:')
    .addOption(createTargetOption())
    .option('-d, --drafter <model>', 'the drafter: a folder, a name on the hub or a bundled name')
    .option(
      '--data <file>',
      'what is attacked and trained on, one conversation a line: {"prompt": …}, {"messages": …}, {"turns": …} or {"conversations": …}',
    )
    .option(
      '-p, --prompts <sets...>',
      'what is audited: .jsonl or .txt files, or mt-bench, humaneval, gsm8k from --prompts-dir; none may be in the data (default: a small set that comes with the package)',
    )
    .option('--prompts-dir <dir>', 'folder with mt_bench.jsonl, humaneval.jsonl, gsm8k.jsonl');
  addTemplate(addTaps(addLimit(command)));
  addHardening(command);
  addAudits(command);
  command
    .optionsGroup('The run:')
    .option('--seed <number>', 'of everything random', wholeNumber(0), 0)
    .option('--out <dir>', 'folder of the run (default: a new one in runs/)')
    .option('--resume <dir>', 'go on with a run that was interrupted or killed')
    .addOption(createFormatOption());
  addMachine(addProgress(addDownload(command))).addHelpText('after', examples);
  command.action(async (flags: HardenFlags) => {
    const { runHarden } = await import('./run-harden.js');
    context.exitCode = await runHarden(flags, context.terminal, {
      ...{ hardening: readHardening(command), training: readSettings(command) },
      ...{ audit: readAuditSettings(command), strayBesideResume: findStray(command, resumable) },
    });
  });
}

const examples = `
Examples:
  mistletoe harden --drafter eagle3 --data questions.jsonl                      the bundled head, a small prompt set
  mistletoe harden --target ./my-model --drafter ./my-eagle3 --data chats.jsonl -p my-audit.jsonl --out runs/hard
  mistletoe harden --drafter sps --data questions.jsonl --audits fresh,other-objective,stronger
  mistletoe harden --resume runs/hard                                           go on after Ctrl-C or a crash

The run's folder has hardened/round-N/last, which are drafters for --drafter, audits/, report.html, report.md and
result.json. Exit codes: 0 done, 1 the program failed, 2 something you gave it is wrong, 3 nothing audited,
130 interrupted (143 by SIGTERM, 129 by SIGHUP).
`;
