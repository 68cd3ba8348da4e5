import { type Command, Option } from 'commander';
import type { AuditSettings } from '../audit/settings.js';
import { bundledTarget } from '../decode/bundled-models.js';
import type { MachineFlags } from './common-options.js';
import { addMachine, addProgress } from './common-options.js';
import { collect, number, wholeNumber } from './option-values.js';
import type { CommandContext } from './program.js';
import type { ProgressMode } from './progress.js';

/** The options as commander hands them over; the settings are there only where they were given. */
export interface AuditFlags extends Partial<AuditSettings>, MachineFlags {
  readonly target: string;
  readonly drafter: readonly string[];
  readonly draft?: string;
  readonly prompt?: string;
  readonly prompts?: string;
  readonly promptsDir?: string;
  readonly limit?: number;
  readonly preset: string;
  readonly raw?: boolean;
  readonly universal?: boolean;
  readonly transfer?: boolean;
  readonly seed: number;
  readonly out?: string;
  readonly resume?: string;
  readonly failIfDrop?: number;
  readonly failIfAcceptedLengthBelow?: number;
  readonly progress: ProgressMode;
  readonly format: 'text' | 'json' | 'markdown';
}

/** What --resume may stand beside: everything else is in the run's folder. */
const resumable = ['resume', 'progress', 'format', 'cacheDir', 'failIfDrop', 'failIfAcceptedLengthBelow'];

export function addAuditCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('audit')
    .summary('how far can a suffix slow a drafter down?')
    .description(
      'Searches, with the weights of target and drafter in hand, for suffixes that make drafts fail while the answer stays the same; measures them against controls and reports.',
    )
    .helpOption('-h, --help', 'print this help');
  addSubjects(command);
  addSettings(command);
  addRun(command);
  command.addHelpText('after', examples);
  command.action(async (flags: AuditFlags) => {
    const { runAuditCommand } = await import('./audit-action.js');
    context.exitCode = await runAuditCommand({ ...flags, ...readSettings(command) }, context.terminal, {
      commandLine: formatCommandLine(command),
      strayBesideResume: listGiven(command).find((option) => !resumable.includes(option.attributeName()))
        ?.long,
    });
  });
}

function addSubjects(command: Command): void {
  command
    .optionsGroup('What to audit:')
    .addOption(
      new Option('-t, --target <dir>', 'Hugging Face folder of the model').default(
        bundledTarget,
        'the bundled model',
      ),
    )
    .addOption(
      new Option('-d, --drafter <dir>', 'folder or bundled name of a drafter; may be given several times')
        .argParser(collect)
        .default([], 'the bundled eagle3'),
    )
    .option(
      '--draft <policy>',
      'chain:4, tree:mc_sim_7b_63, dynamic:60,5,10 (default: chain:4, or as deep as the drafter has heads)',
    )
    .option('--prompt <text>', 'one prompt; {suffix} marks where the suffix goes (default: behind the text)')
    .option(
      '-p, --prompts <set>',
      'a .jsonl or .txt file, or mt-bench, humaneval, gsm8k from --prompts-dir (default: a small set that comes with the package)',
    )
    .option('--prompts-dir <dir>', 'folder with mt_bench.jsonl, humaneval.jsonl, gsm8k.jsonl')
    .option('--limit <count>', 'only the first prompts of the set (default: all)', wholeNumber(1))
    .option('--universal', 'also search one suffix for many prompts and measure it on held-out ones')
    .option('--transfer', 'also measure the suffixes found on each drafter on the others');
}

const count = wholeNumber(1);

function addSettings(command: Command): void {
  const share = { least: 0, most: 1, expected: 'a number from 0 to 1' };
  command
    .optionsGroup('How to search (each overrides the preset):')
    .addOption(
      new Option('--preset <name>', 'quick is a demonstration; thorough takes long')
        .choices(['quick', 'standard', 'thorough'])
        .default('standard'),
    )
    .option('--suffix-length <tokens>', 'length of the suffix', count)
    .option('--window <tokens>', 'answer positions that the search looks at', count)
    .option('-n, --max-new-tokens <count>', 'length of the measured answers', count)
    .option(
      '--epsilon <nats>',
      'veto: most mean divergence of the target’s distribution',
      number({ above: 0, expected: 'a number above 0' }),
    )
    .option('--similarity <share>', 'least edit similarity of the answer', number(share))
    .option(
      '--excess <nats>',
      'or else most loss of likelihood of another answer, a token',
      number({ least: 0, expected: 'a number of 0 or more' }),
    )
    .option('--repetition <share>', 'and most gain of its repeated 4-grams', number(share))
    .addOption(
      new Option('--divergence <direction>', 'which distribution is the reference').choices([
        'clean-to-suffixed',
        'suffixed-to-clean',
      ]),
    )
    .addOption(
      new Option('--objective <name>', 'what the search drives up').choices([
        'surprisal',
        'kl',
        'reverse-kl',
        'total-variation',
        'one-sided',
        'expected-length',
      ]),
    )
    .option('--draft-depth <levels>', 'levels that expected-length looks ahead', count)
    .addOption(
      new Option('--projection <kind>', 'what is taken out of the gradient').choices([
        'none',
        'direction',
        'subspace',
      ]),
    )
    .option('--lambda <weight>', 'of the direction', number({ least: 0, expected: 'a number of 0 or more' }))
    .option('--steps <count>', 'steps of a search', count)
    .option('--candidates <count>', 'suffixes tried in each step', count)
    .option('--top-tokens <count>', 'tokens considered at a position', count)
    .option('--positions <count>', 'positions edited in a step', count)
    .option('--merges <count>', 'most edits joined in a step; 1 joins none', count)
    .option('--buffer <count>', 'best suffixes that are decoded at the end', count)
    .option('--decodes <count>', 'suffixes decoded in each step; 0 for none', wholeNumber(0))
    .option('--patience <steps>', 'steps without gain before the next start', count)
    .option('--repeats <seeds>', 'attacks on each prompt, each with its own seed', count)
    .option('--no-control-searches', 'leave the preservation-only and unprojected searches out')
    .option('--allow-non-ascii', 'let suffixes have any printable text')
    .addOption(new Option('--chat', 'through the chat template (default)').conflicts('raw'))
    .option('--raw', 'prompts as they are, without the chat template');
}

function addRun(command: Command): void {
  command
    .optionsGroup('The run:')
    .option('--seed <number>', 'of everything random', wholeNumber(0), 0)
    .option('--out <dir>', 'folder of the run (default: a new one in runs/)')
    .option('--resume <dir>', 'go on with an interrupted run')
    .optionsGroup('Gate and output:')
    .option(
      '--fail-if-drop <share>',
      'exit code 100 where the accepted length drops by this share, as 0.3',
      number({ above: 0, most: 1, expected: 'a number above 0 and up to 1' }),
    )
    .option(
      '--fail-if-accepted-length-below <length>',
      'exit code 100 where the attacked mean accepted length is lower',
      number({ least: 1, expected: 'a number of 1 or more' }),
    )
    .addOption(
      new Option('--format <format>', 'of what is printed on stdout; the reports are files of the run')
        .choices(['text', 'json', 'markdown'])
        .default('text'),
    );
  addMachine(addProgress(command));
}

function listGiven(command: Command): Option[] {
  return command.options.filter((option) => command.getOptionValueSource(option.attributeName()) === 'cli');
}

/** --no-control-searches has a default of its own, which must not override the preset's. */
function readSettings(command: Command): Partial<Pick<AuditSettings, 'controlSearches' | 'chat'>> {
  const { controlSearches, raw, chat } = command.opts<Partial<AuditFlags>>();
  return {
    ...(controlSearches === false ? { controlSearches } : {}),
    ...(raw === true ? { chat: false } : chat === true ? { chat } : {}),
  };
}

/** Where it runs and what it prints does not change what it finds. */
const irrelevant = ['out', 'progress', 'format', 'cacheDir'];

function formatCommandLine(command: Command): string {
  const given = listGiven(command).filter((option) => !irrelevant.includes(option.attributeName()));
  const words = given.flatMap((option) => {
    const value = command.getOptionValue(option.attributeName()) as unknown;
    const name = option.long ?? '';
    if (typeof value === 'boolean') return [name];
    return (Array.isArray(value) ? value : [value]).flatMap((each) => [name, quote(String(each))]);
  });
  return ['mistletoe', 'audit', ...words].join(' ');
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

const examples = `
Examples:
  mistletoe audit --preset quick                          the bundled eagle3 on a small prompt set
  mistletoe audit -d sps -d eagle3 --transfer             two drafters, and what carries over
  mistletoe audit --target ./my-model --drafter ./my-eagle3 -p my.jsonl --limit 8 --fail-if-drop 0.3
  mistletoe audit --resume runs/target-eagle3-0-1         go on after Ctrl-C or a crash

It audits weights that you hold, on your machine. The run's folder has report.html, report.md, junit.xml and result.json.
Exit codes: 0 passed, 1 the program failed, 2 something you gave it is wrong, 3 nothing audited, 100 a gate failed, 130 interrupted.
`;
