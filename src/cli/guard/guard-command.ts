import { type Command, InvalidArgumentError, Option } from 'commander';
import { engines } from '../../guard/engines/engine-list.js';
import { guardActions } from '../../guard/guard-config.js';
import type { CommandContext } from '../command.js';
import type { GuardFlags, ReplayFlags } from './guard-flags.js';
import { number, wholeNumber } from './option-values.js';
import { addRehearseCommand } from './rehearse-command.js';

export function addGuardCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('guard')
    .summary('watch an engine’s speculative decoding in production')
    .description(
      'A reverse proxy in front of an OpenAI-compatible engine (vLLM, SGLang, TensorRT-LLM, llama.cpp, mistletoe serve). It reads from the responses whether drafting pays, raises alerts, and can act on them. With --scrape it reads an engine’s metrics instead and passes no requests.',
    )
    .helpOption('-h, --help', 'print this help')
    .enablePositionalOptions() // options after replay and rehearse belong to them
    .optionsGroup('Engine:')
    .option('-u, --upstream <url>', 'the engine, such as http://127.0.0.1:8000')
    .option('--plain-upstream <url>', 'an engine with the same model and no speculative decoding')
    .option('--scrape <url>', 'watch these metrics only, such as http://127.0.0.1:8000/metrics')
    .addOption(
      new Option('--engine <name>', 'which engine it is, if it cannot be detected').choices(
        engines.map(({ name }) => name),
      ),
    )
    .option(
      '--ask-for-telemetry',
      'make the engine report its drafts, and take what it adds out of the responses',
    )
    .optionsGroup('Listeners:')
    .option('--host <address>', 'for clients (default: 127.0.0.1)')
    .option('--port <number>', 'for clients; 0 picks a free one (default: 8100)', wholeNumber(0, 65_535))
    .option('--operator-host <address>', 'for page, records and metrics (default: 127.0.0.1)')
    .option(
      '--operator-port <number>',
      'for page, records and metrics (default: 8101)',
      wholeNumber(0, 65_535),
    )
    .option(
      '--operator-key-file <file>',
      'operator key, required if the operator address is not loopback (default: $MISTLETOE_GUARD_KEY)',
    )
    .optionsGroup('Alerts and actions:')
    .option('--tenant <rule>', 'who sent a request: all, key, or header:NAME (default: all)', readTenant)
    .option(
      '--false-alerts <share>',
      'share of benign requests that may be called low (default: 0.01)',
      falseAlerts,
    )
    .addOption(
      new Option('--action <name>', 'what an alert about a tenant leads to (default: observe)').choices(
        guardActions,
      ),
    )
    .optionsGroup('Records and log:')
    .option('--records <dir>', 'keep records, without prompts, in this folder')
    .option('--log-requests', 'log every request')
    .optionsGroup('Configuration:')
    .option('-c, --config <file>', 'YAML with these and more settings; flags win; SIGHUP reloads it')
    .option('--show-config', 'print the settings in force and exit')
    .option('--interval <seconds>', 'between two scrapes (default: 15)', seconds)
    .addHelpText('after', examples);
  command.action(async (flags: GuardFlags) => {
    if (Object.keys(flags).length === 0) {
      command.outputHelp();
      return;
    }
    const { runGuard } = await import('./guard-action.js');
    context.exitCode = await runGuard(flags, context.terminal);
  });
  addReplayCommand(command, context);
  addRehearseCommand(command, context);
}

function addReplayCommand(guard: Command, context: CommandContext): void {
  const command = guard
    .command('replay')
    .summary('judge recorded requests again')
    .description(
      'Judges recorded requests again in their order, starting without a baseline, and prints the alerts. Use other false-alert rates to see what they would have meant.',
    )
    .helpOption('-h, --help', 'print this help')
    .argument('<file>', 'a file of records, or a guard’s folder')
    .option(
      '--false-alerts <share>',
      'share of benign requests that may be called low (default: 0.01)',
      falseAlerts,
    )
    .option(
      '--false-alerts-per-week <number>',
      'false alerts about tenants per week (default: 1)',
      number({ above: 0, most: 1e6, expected: 'a number above 0 and up to 1000000' }),
    )
    .addOption(
      new Option('--format <format>', 'text for people, json for programs')
        .choices(['text', 'json'])
        .default('text'),
    );
  command.action(async (file: string, flags: ReplayFlags) => {
    const { runReplay } = await import('./guard-action.js');
    context.exitCode = await runReplay(file, flags, context.terminal);
  });
}

const falseAlerts = number({ above: 0, most: 0.5, expected: 'a number above 0 and up to 0.5' });
const seconds = number({ least: 1, most: 86_400, expected: 'a number from 1 to 86400' });

function readTenant(text: string): GuardFlags['tenant'] {
  if (text === 'all' || text === 'key') return { from: text };
  const [, header] = /^header:(.+)$/.exec(text) ?? [];
  if (header !== undefined) return { from: 'header', header };
  throw new InvalidArgumentError('Expected all, key or header:NAME.');
}

const examples = `
Examples:
  mistletoe guard -u http://127.0.0.1:8000                    point clients to http://127.0.0.1:8100
  mistletoe guard -u http://127.0.0.1:8000 --records ./guard  also keep records and the baseline
  mistletoe guard -u URL --plain-upstream URL2 --tenant key --action plain-upstream
                                                              send tenants with an alert to the plain engine
  mistletoe guard --scrape http://127.0.0.1:8000/metrics      no proxy, metrics only
  mistletoe guard --config guard.yaml --show-config           check a file
  mistletoe guard replay ./guard --false-alerts 0.001         judge recorded requests again

Page and metrics are on the operator address: http://127.0.0.1:8101/mistletoe and /mistletoe/metrics. Alerts, actions and
requests go to stdout as one line of JSON each, with OpenTelemetry’s names; everything else goes to stderr. SIGHUP reloads
the configuration file. Ctrl-C accepts no new requests and lets running ones finish. Exit codes: 0 ended, 1 failed, 2 wrong
usage.
`;
