import { type Command, Option } from 'commander';
import type { AuditSettings } from '../audit/settings.js';
import { MistletoeError } from '../core/errors.js';
import { quoteWord, shortenPath } from '../core/display-paths.js';
import { addSettings } from './audit-settings.js';
import {
  addDownload,
  addMachine,
  addProgress,
  addTaps,
  addTemplate,
  createTargetOption,
} from './common-options.js';
import { createFormatOption, findStray, listGiven } from './long-runs.js';
import { collect, number, wholeNumber } from './option-values.js';
import type { CommandContext } from './command-context.js';
import type { AuditFlags } from './command-flags.js';

/** What --resume may stand beside: everything else is in the run's folder. */
const resumable = [
  ...['resume', 'progress', 'format', 'cacheDir', 'verifyCache'],
  ...['failIfDrop', 'failIfAcceptedLengthBelow'],
];
/** What --verify may stand beside: it runs nothing. */
const verifiable = ['verify', 'format'];

export function addAuditCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('audit')
    .summary('how far can a suffix slow a drafter down?')
    .description(
      'Searches, with the weights of target and drafter in hand, for suffixes that make drafts fail along one and the same answer; measures them against controls of equal effort and reports.',
    )
    .helpOption('-h, --help', 'print this help');
  addSubjects(command);
  addSettings(command);
  addRun(command);
  command.addHelpText('after', examples);
  command.action(async (flags: AuditFlags) => {
    if (flags.verify !== undefined) {
      refuseBesideVerify(findStray(command, verifiable));
      const { runVerify } = await import('./audit-verify.js');
      context.exitCode = await runVerify(flags.verify, flags.format, context.terminal.stdout);
      return;
    }
    const { runAuditCommand } = await import('./audit-action.js');
    context.exitCode = await runAuditCommand({ ...flags, ...readChat(command) }, context.terminal, {
      commandLine: formatCommandLine(command),
      strayBesideResume: findStray(command, resumable),
    });
  });
}

function addSubjects(command: Command): void {
  command
    .optionsGroup('What to audit:')
    .addOption(createTargetOption())
    .addOption(
      new Option(
        '-d, --drafter <model>',
        'folder, name on the hub or bundled name of a drafter, or ngram[:MIN,MAX]; may be given several times',
      )
        .argParser(collect)
        .default([], 'the bundled eagle3'),
    )
    .option(
      '--draft <policy>',
      'chain:4, tree:mc_sim_7b_63, dynamic:60,5,10 (default: chain:4, or as deep as the drafter has heads)',
    );
  addTaps(command)
    .option('--prompt <text>', 'one prompt; {suffix} marks where the suffix goes (default: behind the text)')
    .option(
      '-p, --prompts <set>',
      'a .jsonl or .txt file, or mt-bench, humaneval, gsm8k from --prompts-dir (default: a small set that comes with the package)',
    )
    .option('--prompts-dir <dir>', 'folder with mt_bench.jsonl, humaneval.jsonl, gsm8k.jsonl')
    .option('--limit <count>', 'only the first prompts of the set (default: all)', wholeNumber(1));
  addTemplate(command)
    .option(
      '--suffix <text|file>',
      'measure this suffix, or those of a .txt or .jsonl file, instead of searching; may be given several times',
      collect,
    )
    .option('--universal', 'also search one suffix for many prompts and measure it on held-out ones')
    .option('--transfer', 'also measure the suffixes found on each drafter on the others');
}

function addRun(command: Command): void {
  command
    .optionsGroup('The run:')
    .option('--seed <number>', 'of everything random', wholeNumber(0), 0)
    .option('--out <dir>', 'folder of the run (default: a new one in runs/)')
    .option('--resume <dir>', 'go on with an interrupted run')
    .option(
      '--verify <dir>',
      'say whether a run is as it was written: configuration, units, steps, result; run nothing',
    )
    .option('--dry-run', 'say what it would do, how long that takes and how much memory; search nothing')
    .optionsGroup('Gate and output:')
    .option(
      '--fail-if-drop <share>',
      'exit code 100 where the accepted length along the same answer drops by this share, as 0.3',
      number({ above: 0, most: 1, expected: 'a number above 0 and up to 1' }),
    )
    .option(
      '--fail-if-accepted-length-below <length>',
      'exit code 100 where it is lower under attack',
      number({ least: 1, expected: 'a number of 1 or more' }),
    )
    .addOption(createFormatOption());
  addMachine(addProgress(addDownload(command)));
}

function readChat(command: Command): Partial<Pick<AuditSettings, 'chat'>> {
  const { raw, chat } = command.opts<Partial<AuditFlags>>();
  return raw === true ? { chat: false } : chat === true ? { chat } : {};
}

function refuseBesideVerify(stray: string | undefined): void {
  if (stray === undefined) return;
  throw new MistletoeError('usage', `${stray} means nothing beside --verify, which runs nothing.`, {
    hint: 'Leave it out; only --format may be given.',
  });
}

/** Where it runs and what it prints does not change what it finds. */
const irrelevant = ['out', 'progress', 'format', 'cacheDir', 'verifyCache', 'dryRun', 'download'];

function formatCommandLine(command: Command): string {
  const given = listGiven(command).filter((option) => !irrelevant.includes(option.attributeName()));
  const words = given.flatMap((option) => {
    const value = command.getOptionValue(option.attributeName()) as unknown;
    const name = option.long ?? '';
    if (typeof value === 'boolean') return [name];
    const show = shownValues[option.attributeName()] ?? ((word) => word);
    return (Array.isArray(value) ? value : [value]).flatMap((each) => [name, quoteWord(show(String(each)))]);
  });
  return ['mistletoe', 'audit', ...words].join(' ');
}

/** The command stands in reports, which are passed on: where folders lie is nobody's business. */
const shownValues: Readonly<Record<string, (value: string) => string>> = {
  target: shortenPath,
  drafter: shortenPath,
  prompts: shortenPath,
  promptsDir: shortenPath,
  chatTemplate: shortenPath,
  draft: (policy) => policy.replace(/(?<=^tree:).*/s, shortenPath),
  suffix: (text) => (/\.(txt|jsonl)$/.test(text) ? shortenPath(text) : text),
};

const examples = `
Examples:
  mistletoe audit --preset quick                          the bundled eagle3 on a small prompt set
  mistletoe audit -d sps -d eagle3 --transfer             two drafters, and what carries over
  mistletoe audit -d ngram --search random                prompt lookup, which has no gradient
  mistletoe audit --target ./my-model --drafter ./my-eagle3 -p my.jsonl --limit 8 --fail-if-drop 0.3
  mistletoe audit -d eagle3 --suffix runs/target-eagle3-0-1/suffixes.jsonl    measure the suffixes of an earlier run
  mistletoe audit --resume runs/target-eagle3-0-1         go on after Ctrl-C or a crash
  mistletoe audit --verify runs/target-eagle3-0-1         has anything been changed since?

It audits weights that you hold, on your machine. The run's folder has report.html, report.md, junit.xml,
result.json and suffixes.jsonl; mistletoe compare shows two runs side by side.
Exit codes: 0 passed, 1 the program failed, 2 something you gave it is wrong, 3 nothing audited, 100 a gate failed,
130 interrupted (143 by SIGTERM, 129 by SIGHUP).
`;
