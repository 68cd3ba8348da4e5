/**
 * The command line: argv to options to one call into the rooms below. Commands import what they run only when they
 * run, so that help, version and refusals are instant.
 */
import { Command, CommanderError } from 'commander';
import { addAuditCommand } from './audit/audit.js';
import { addBenchCommand } from './bench-command.js';
import { addCacheCommand } from './cache-command.js';
import type { CommandContext } from './command.js';
import { addCompareCommand } from './compare-command.js';
import { addDemoCommand } from './demo/demo.js';
import { addDoctorCommand } from './guard/doctor-command.js';
import { exitCodes, reportFailure, signalCodes } from './failure.js';
import { addGenerateCommand } from './generate-command.js';
import { addGuardCommand } from './guard/guard-command.js';
import { addHardenCommand } from './train/harden.js';
import { addInspectCommand } from './inspect-command.js';
import { readVersion } from './package-version.js';
import { addServeCommand } from './serve-command.js';
import type { Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';
import { addTrainCommand } from './train/train.js';

/** Runs one command line and returns its exit code; every failure has been printed by then. */
export async function run(argv: readonly string[], terminal: Terminal): Promise<number> {
  const code = await runCommand(argv, terminal);
  const fault = await terminal.settle();
  if (fault !== undefined) return reportFailure(fault, terminal);
  return code === exitCodes.interrupted ? signalCodes[terminal.interruption() ?? 'SIGINT'] : code;
}

async function runCommand(argv: readonly string[], terminal: Terminal): Promise<number> {
  const context: CommandContext = { terminal, exitCode: exitCodes.success };
  try {
    await createProgram(context).parseAsync(argv, { from: 'user' });
    return context.exitCode;
  } catch (failure) {
    if (failure instanceof CommanderError && failure.exitCode === 0) return exitCodes.success;
    // Called without a command, the help is the answer and has been printed.
    if (failure instanceof CommanderError && failure.code === 'commander.help') return exitCodes.badInput;
    return reportFailure(failure, terminal);
  }
}

function createProgram(context: CommandContext): Command {
  const { stdout, stderr } = context.terminal;
  const colors = colorsFor(stdout, context.terminal);
  const program = new Command('mistletoe')
    .description(
      'Runs Llama-family language models from Hugging Face folders and measures how fragile their speculative decoding is.',
    )
    .version(readVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help; after a command, that command’s')
    .helpCommand('help [command]', 'print help for a command')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => {
        stdout.write(text);
      },
      writeErr: (text) => {
        stderr.write(text);
      },
      outputError: () => undefined, // reportFailure prints it
      getOutHasColors: () => colors.isColorSupported,
    })
    .configureHelp({
      styleTitle: colors.bold,
      styleCommandText: colors.cyan,
      styleOptionTerm: colors.cyan,
      styleSubcommandTerm: colors.cyan,
    })
    .addHelpText('after', programExamples);
  addGenerateCommand(program, context);
  addServeCommand(program, context);
  addInspectCommand(program, context);
  addBenchCommand(program, context);
  addAuditCommand(program, context);
  addCompareCommand(program, context);
  addTrainCommand(program, context);
  addHardenCommand(program, context);
  addDoctorCommand(program, context);
  addGuardCommand(program, context);
  addDemoCommand(program, context);
  addCacheCommand(program, context);
  return program;
}

const programExamples = `
Examples:
  mistletoe generate --prompt "Why is the sky blue?"     answer with the bundled model
  mistletoe generate --target ./my-model --prompt "Hi"   answer with a model of your own
  mistletoe generate --drafter eagle3 --prompt "Hi"      the same answer by speculative decoding
  mistletoe serve --drafter eagle3                       the same over HTTP, with OpenAI’s interface
  mistletoe inspect ./my-model                           what is in this folder, and is it usable?
  mistletoe inspect Qwen/Qwen3-0.6B --download           the same of a model of the Hugging Face hub
  mistletoe train --system eagle3 --data my.jsonl        make a drafter from questions of your own
  mistletoe doctor http://localhost:8000                 what a running engine tells about its drafts
  mistletoe demo                                         see it at work

Exit codes: 0 done, 1 the program failed, 2 something you gave it is wrong, 3 no usable result,
130 interrupted (143 by SIGTERM, 129 by SIGHUP).
`;
