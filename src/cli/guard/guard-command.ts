import { type Command, InvalidArgumentError, Option } from 'commander';
import { guardActions } from '../../guard/guard-actions.js';
import { engineNames } from '../../guard/request-record.js';
import type { CommandContext } from '../command.js';
import type { GuardFlags, ReplayFlags } from './guard-flags.js';
import { number, wholeNumber } from './option-values.js';
import { addRehearseCommand } from './rehearse-command.js';

export function addGuardCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('guard')
    .summary('watch an engine’s speculative decoding in production')
    .description(
      'A reverse proxy in front of an OpenAI-compatible engine (vLLM, SGLang, TensorRT-LLM, llama.cpp, mistletoe serve). Requests and answers pass untouched; how drafts fare is read from the answers, learnt, and watched. With --scrape it reads an engine’s metrics instead and passes nothing.',
    )
    .helpOption('-h, --help', 'print this help')
    .enablePositionalOptions() // what stands behind replay and rehearse is theirs
    .optionsGroup('What to watch:')
    .option('-u, --upstream <url>', 'the engine, as http://127.0.0.1:8000')
    .option('--plain-upstream <url>', 'an engine of the same model without speculative decoding')
    .option('--scrape <url>', 'watch these metrics alone, as http://127.0.0.1:8000/metrics')
    .addOption(
      new Option('--engine <name>', 'which engine it is, where its answers do not show it').choices(
        engineNames.filter((name) => name !== 'unknown'),
      ),
    )
    .option(
      '--ask-for-telemetry',
      'add fields to requests that make the engine tell of its drafts, and ask for uncompressed answers',
    )
    .optionsGroup('Where:')
    .option('--host <address>', 'where clients connect (default: 127.0.0.1)')
    .option('--port <number>', '0 takes any that is free (default: 8100)', wholeNumber(0, 65_535))
    .option(
      '--operator-key-file <file>',
      'key for /mistletoe/api and /mistletoe/metrics (default: $MISTLETOE_GUARD_KEY)',
    )
    .optionsGroup('Alarms, and what follows:')
    .option('--tenant <rule>', 'who asked: all, key, or header:NAME (default: all)', readTenant)
    .option('--false-alarms <share>', 'share of benign requests that may ring (default: 0.01)', falseAlarms)
    .addOption(
      new Option('--action <name>', 'what is done about a tenant in alarm (default: observe)').choices(
        guardActions,
      ),
    )
    .optionsGroup('What is kept and told:')
    .option('--records <dir>', 'keep records, without prompts, in this folder')
    .option('--log-requests', 'a line of the log for every request')
    .optionsGroup('Configuration:')
    .option('-c, --config <file>', 'YAML with all of this and more; flags win')
    .option('--show-config', 'print what is in force and end')
    .option('--interval <seconds>', 'between two scrapes (default: 15)', seconds)
    .addHelpText('after', examples);
  command.action(async (flags: GuardFlags) => {
    const { runGuard } = await import('./guard-action.js');
    context.exitCode = await runGuard(flags, context.terminal);
  });
  addReplayCommand(command, context);
  addRehearseCommand(command, context);
}

function addReplayCommand(guard: Command, context: CommandContext): void {
  const command = guard
    .command('replay')
    .summary('what would have rung on recorded requests')
    .description(
      'Sends recorded requests through a monitor that begins knowing nothing, in their order, and tells what rang. With other rates of false alarms it answers what they would have cost.',
    )
    .helpOption('-h, --help', 'print this help')
    .argument('<file>', 'a file of records, or the folder of a guard')
    .option('--false-alarms <share>', 'share of benign requests that may ring (default: 0.01)', falseAlarms)
    .option(
      '--false-alarms-per-week <number>',
      'alarms about tenants, or everybody, without a cause (default: 1)',
      number({ above: 0, most: 1e6, expected: 'a number above 0 and up to 1000000' }),
    )
    .addOption(
      new Option('--format <format>', 'text for people, json for programs')
        .choices(['text', 'json'])
        .default('text'),
    );
  command.action(async (file: string, flags: ReplayFlags) => {
    const { runReplay } = await import('./guard-replay.js');
    context.exitCode = await runReplay(file, flags, context.terminal);
  });
}

const falseAlarms = number({ above: 0, most: 0.5, expected: 'a number above 0 and up to 0.5' });
const seconds = number({ least: 1, most: 86_400, expected: 'a number from 1 to 86400' });

function readTenant(text: string): GuardFlags['tenant'] {
  if (text === 'all' || text === 'key') return { from: text };
  const [, header] = /^header:(.+)$/.exec(text) ?? [];
  if (header !== undefined) return { from: 'header', header };
  throw new InvalidArgumentError('Expected all, key or header:NAME.');
}

const examples = `
Examples:
  mistletoe guard -u http://127.0.0.1:8000                    clients use http://127.0.0.1:8100 from now on
  mistletoe guard -u http://127.0.0.1:8000 --records ./guard  the same, and remember
  mistletoe guard -u URL --plain-upstream URL2 --tenant key --action plain-upstream
                                                              a tenant in alarm goes where nothing is drafted
  mistletoe guard --scrape http://127.0.0.1:8000/metrics      no proxy: counters alone
  mistletoe guard --config guard.yaml --show-config           is the file right?
  mistletoe guard replay ./guard --false-alarms 0.001         what would have rung?

The page is at /mistletoe, metrics for Prometheus at /mistletoe/metrics. Alarms, actions and requests go to stdout, one
line of JSON each, under OpenTelemetry’s names; everything else to stderr. Ctrl-C takes no new requests and lets
answers finish. Exit codes: 0 ended, 1 failed, 2 something you gave it is wrong.
`;
