/**
 * The command line: argv to flags to one call into the layers below. A command's module is loaded only if argv names
 * the command, so that help and version are instant.
 */
import { Command, CommanderError } from 'commander';
import { type CommandContext, type CommandDefinition, setUpCommand } from './command.js';
import { exitCodes, reportFailure, signalCodes } from './failure.js';
import { configureHelp, helpWidth, setHelpEnd } from './help.js';
import { readVersion } from '../core/package-files.js';
import { type Terminal, colorsFor } from './terminal.js';

/** A module that exports the definition under the command's name. */
type LoadCommand = () => Promise<Readonly<Record<string, unknown>>>;

const groups: Readonly<
  Record<string, readonly (readonly [name: string, summary: string, load: LoadCommand])[]>
> = {
  'Try it:': [['demo', 'see speculative decoding and an audit at work', () => import('./demo.js')]],
  'How fragile is my drafter?': [
    ['audit', 'search for suffixes that slow a drafter down', () => import('./audit/audit.js')],
    ['worker', 'run units of audits from a queue', () => import('./audit/worker.js')],
    ['compare', 'compare two finished audits', () => import('./compare.js')],
    ['bench', 'measure drafters against plain decoding', () => import('./bench.js')],
  ],
  'Is it happening to me now?': [
    ['doctor', 'show what draft metrics a running server exposes', () => import('./guard/doctor.js')],
    ['guard', 'watch speculative decoding in production', () => import('./guard/guard.js')],
  ],
  'How do I harden it?': [
    ['train', 'train a drafter for a target', () => import('./train/train.js')],
    [
      'harden',
      'make a drafter robust against suffixes, and audit it again',
      () => import('./train/harden.js'),
    ],
  ],
  'Run models:': [
    ['generate', 'answer prompts with a model', () => import('./generate.js')],
    ['serve', 'answer over HTTP with an OpenAI-compatible API', () => import('./serve.js')],
    ['inspect', 'show what a model folder contains, and any problems', () => import('./inspect.js')],
    ['cache', 'list, trim or clear the converted weights', () => import('./cache.js')],
  ],
};

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
    for (const [group, entries] of Object.entries(groups))
      for (const [name, summary, load] of entries) {
        const loaded = argv.includes(name) ? await load() : undefined;
        const command = program.command(name);
        if (loaded !== undefined) setUpCommand(command, loaded[name] as CommandDefinition, context);
        command.summary(summary).helpGroup(group);
      }
    const words = argv.map((word) => (word === '--help-all' ? '--help' : word));
    await program.parseAsync(words, { from: 'user' });
    return context.exitCode;
  } catch (failure) {
    if (failure instanceof CommanderError && failure.exitCode === 0) return exitCodes.success;
    // Without a command, the help has been printed.
    if (failure instanceof CommanderError && failure.code === 'commander.help') return exitCodes.badInput;
    return reportFailure(failure, terminal);
  }
}

function createProgram(terminal: Terminal, showAll: boolean): Command {
  const { stdout, stderr } = terminal;
  const colors = colorsFor(stdout, terminal);
  const program = new Command('mistletoe')
    .description(
      'Measures, detects and repairs the fragility of speculative decoding. Runs Llama-family models from Hugging Face folders.',
    )
    .version(readVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help; after a command, its help')
    .helpCommand('help [command]', 'print the help of a command')
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => {
        stdout.write(text);
      },
      writeErr: (text) => {
        stderr.write(text);
      },
      outputError: () => undefined, // reportFailure prints it
      getOutHelpWidth: () => helpWidth(stdout.columns()),
      getErrHelpWidth: () => helpWidth(stderr.columns()),
      getOutHasColors: () => colors.isColorSupported,
    })
    .configureHelp(configureHelp(colors, showAll));
  setHelpEnd(program, {
    examples: [
      ['mistletoe demo', 'see it at work in two minutes'],
      ['mistletoe audit --drafter sps --preset quick', 'audit the bundled draft model'],
      ['mistletoe doctor localhost:8000', 'what draft metrics does my server expose?'],
      ['mistletoe guard --upstream http://localhost:8000', 'watch it'],
      ['mistletoe generate "Write a Python function that adds two numbers."', 'use the bundled model'],
      ['mistletoe inspect ./my-model', 'can Mistletoe use this folder?'],
    ],
    notes:
      'Exit codes: 0 success, 1 failure, 2 invalid input, 3 no usable result, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  });
  return program;
}
