/**
 * The command line: argv to flags to one call into the layers below. A command's module is loaded only if argv names
 * the command, so that help and version are instant.
 */
import { Command, CommanderError } from 'commander';
import type { CommandContext, CommandDefinition } from './command.js';
import { setUpCommand } from './command.js';
import { exitCodes, reportFailure, signalCodes, suggestName } from './failure.js';
import type { FlagTable } from './flags.js';
import { addExamples, formatHelp, wrapText } from './help.js';
import { readVersion } from './package-version.js';
import type { Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';

interface CommandEntry {
  readonly name: string;
  readonly group: string;
  readonly summary: string;
  readonly load: () => Promise<(program: Command, context: CommandContext) => void>;
}

const withDefinition =
  <Table extends FlagTable>(definition: CommandDefinition<Table>) =>
  (program: Command, context: CommandContext): void => {
    setUpCommand(program.command(definition.name), definition, context);
  };

const commands: readonly CommandEntry[] = [
  {
    name: 'demo',
    group: 'Try it:',
    summary: 'see speculative decoding and an audit at work',
    load: async () => withDefinition((await import('./demo/demo.js')).demo),
  },
  {
    name: 'audit',
    group: 'How fragile is my drafter?',
    summary: 'search for suffixes that slow a drafter down',
    load: async () => withDefinition((await import('./audit/audit.js')).audit),
  },
  {
    name: 'worker',
    group: 'How fragile is my drafter?',
    summary: 'run units of audits from a queue',
    load: async () => withDefinition((await import('./audit/worker.js')).worker),
  },
  {
    name: 'compare',
    group: 'How fragile is my drafter?',
    summary: 'compare two finished audits',
    load: async () => withDefinition((await import('./compare.js')).compare),
  },
  {
    name: 'bench',
    group: 'How fragile is my drafter?',
    summary: 'measure drafters against plain decoding',
    load: async () => withDefinition((await import('./bench.js')).bench),
  },
  {
    name: 'doctor',
    group: 'Is it happening to me now?',
    summary: 'show what draft metrics a running server exposes',
    load: async () => (await import('./guard/doctor-command.js')).addDoctorCommand,
  },
  {
    name: 'guard',
    group: 'Is it happening to me now?',
    summary: 'watch speculative decoding in production',
    load: async () => (await import('./guard/guard-command.js')).addGuardCommand,
  },
  {
    name: 'train',
    group: 'How do I harden it?',
    summary: 'train a drafter for a target',
    load: async () => withDefinition((await import('./train/train.js')).train),
  },
  {
    name: 'harden',
    group: 'How do I harden it?',
    summary: 'make a drafter robust against suffixes, and audit it again',
    load: async () => withDefinition((await import('./train/harden.js')).harden),
  },
  {
    name: 'generate',
    group: 'Run models:',
    summary: 'answer prompts with a model',
    load: async () => withDefinition((await import('./generate.js')).generate),
  },
  {
    name: 'serve',
    group: 'Run models:',
    summary: 'answer over HTTP with an OpenAI-compatible API',
    load: async () => withDefinition((await import('./serve.js')).serve),
  },
  {
    name: 'inspect',
    group: 'Run models:',
    summary: 'show what a model folder contains, and any problems',
    load: async () => withDefinition((await import('./inspect.js')).inspect),
  },
  {
    name: 'cache',
    group: 'Run models:',
    summary: 'list, trim, verify or clear the converted weights',
    load: async () => withDefinition((await import('./cache.js')).cache),
  },
];

/** Runs one command line and returns its exit code, after printing any failure. */
export async function run(argv: readonly string[], terminal: Terminal): Promise<number> {
  const code = await runCommand(argv, terminal);
  const fault = await terminal.settle();
  if (fault !== undefined) return reportFailure(fault, terminal);
  return code === exitCodes.interrupted ? signalCodes[terminal.interruption() ?? 'SIGINT'] : code;
}

async function runCommand(argv: readonly string[], terminal: Terminal): Promise<number> {
  const context: CommandContext = { terminal, exitCode: exitCodes.success };
  const showAll = argv.includes('--help-all');
  const program = createProgram(terminal, showAll);
  try {
    for (const entry of commands) await addCommand(program, entry, argv.includes(entry.name), context);
    const words = argv.map((word) => (word === '--help-all' ? '--help' : word));
    await program.parseAsync(words, { from: 'user' });
    return context.exitCode;
  } catch (failure) {
    if (!(failure instanceof CommanderError)) return reportFailure(failure, terminal);
    if (failure.exitCode === 0) return exitCodes.success;
    // Without a command, the help has been printed.
    if (failure.code === 'commander.help') return exitCodes.badInput;
    return reportFailure(suggestName(failure, listNames(program, argv)) ?? failure, terminal);
  }
}

async function addCommand(
  program: Command,
  { name, group, summary, load }: CommandEntry,
  isNamed: boolean,
  context: CommandContext,
): Promise<void> {
  if (isNamed) (await load())(program, context);
  else program.command(name);
  program.commands.at(-1)?.summary(summary).helpGroup(group);
}

/** Commands, and the flags of the command that argv names. */
function listNames(program: Command, argv: readonly string[]): string[] {
  const named = program.commands.filter((command) => argv.includes(command.name()));
  const flags = named.flatMap(({ options }) =>
    options.flatMap(({ long, hidden }) => (hidden ? [] : (long ?? []))),
  );
  return [...program.commands.map((command) => command.name()), ...flags, '--help', '--help-all'];
}

function createProgram(terminal: Terminal, showAll: boolean): Command {
  const { stdout, stderr } = terminal;
  const colors = colorsFor(stdout, terminal);
  const columns = stdout.columns();
  const program = new Command('mistletoe')
    .description(
      'Measures, detects and repairs the fragility of speculative decoding. Runs Llama-family models from Hugging Face folders.',
    )
    .version(readVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help; after a command, its help')
    .helpCommand('help [command]', 'print the help of a command')
    .showSuggestionAfterError(false)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => {
        stdout.write(wrapText(text, columns));
      },
      writeErr: (text) => {
        stderr.write(wrapText(text, stderr.columns()));
      },
      outputError: () => undefined, // reportFailure prints it
      getOutHasColors: () => colors.isColorSupported,
    })
    .configureHelp({
      formatHelp: (command, helper) => formatHelp(command, helper, { columns, colors, showAll }),
    })
    .addHelpText(
      'after',
      'Exit codes: 0 success, 1 failure, 2 invalid input, 3 no usable result, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
    );
  addExamples(program, [
    ['mistletoe demo', 'see it at work in two minutes'],
    ['mistletoe audit --drafter sps --preset quick', 'audit the bundled draft model'],
    ['mistletoe doctor localhost:8000', 'what draft metrics does my server expose?'],
    ['mistletoe guard --upstream http://localhost:8000', 'watch it'],
    ['mistletoe generate "Write a Python function that adds two numbers."', 'answer with the bundled model'],
    ['mistletoe inspect ./my-model', 'can Mistletoe use this folder?'],
  ]);
  return program;
}
