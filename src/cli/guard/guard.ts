/** `mistletoe guard` and `mistletoe guard replay`. */
import { describeCause, MistletoeError } from '../../core/errors.js';
import { toLogLine } from '../../core/json-text.js';
import { readSettingsFile } from '../../core/yaml-text.js';
import { decimal, integer, oneOf, text, textOf } from '../../core/settings.js';
import { readPage } from '../../dashboard/page.js';
import { readVersion } from '../../core/package-files.js';
import { type FlagValue, readConfiguration, writeConfiguration } from '../../guard/config-file.js';
import { engines } from '../../guard/engines/engine-list.js';
import { watchMetrics } from '../../guard/engines/scrape.js';
import { type GuardConfiguration, guardActions } from '../../guard/guard-config.js';
import { type Guard, startGuard } from '../../guard/guard.js';
import { alertAttributes, requestAttributes } from '../../guard/metrics/opentelemetry.js';
import { meanAcceptedLength } from '../../guard/observation.js';
import { describeReplay, replayFile } from '../../guard/records/replay.js';
import { type Invocation, defineCommand } from '../command.js';
import { formatFlag } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { type FlagsOf, flag, group, longName, toggle } from '../flags.js';
import { printResult, runInterruptibly, waitForEnd } from '../long-runs.js';
import { type Terminal, createNotice } from '../terminal.js';

const port = integer(0, 65_535);
const tenantRule = textOf('all, key or header:NAME', (rule) => {
  const [, header] = /^header:(.+)$/.exec(rule) ?? [];
  if (header !== undefined) return { from: 'header', header };
  return rule === 'all' || rule === 'key' ? { from: rule } : undefined;
});

/** Judging, in `guard` and `replay` alike. */
const judgeFlags = {
  falseAlerts: flag(
    'share of benign requests that may be called low',
    decimal({ above: 0, max: 0.5 }),
    'share',
    { shownDefault: '0.01' },
  ),
  breakEven: flag('tokens per step from which drafting pays', decimal({ above: 1, max: 100 }), 'tokens', {
    shownDefault: 'estimated from the draft length',
  }),
};

const flags = {
  ...group('Engine', {
    upstream: flag('the engine, such as http://127.0.0.1:8000', text, 'url', { short: 'u' }),
    plainUpstream: flag('an engine with the same model and no speculative decoding', text, 'url'),
    scrape: flag('watch these metrics only, such as http://127.0.0.1:8000/metrics', text, 'url'),
    engine: flag('engine, if it cannot be detected', oneOf(engines.map(({ name }) => name)), 'name'),
    askForTelemetry: toggle('make the engine report its drafts, and take what it adds out of the responses'),
  }),
  ...group('Listeners', {
    host: flag('for clients', text, 'address', { shownDefault: '127.0.0.1' }),
    port: flag('for clients; 0 picks a free one', port, 'number', { shownDefault: '8100' }),
    operatorHost: flag('for page and metrics', text, 'address', { shownDefault: '127.0.0.1' }),
    operatorPort: flag('for page and metrics', port, 'number', { shownDefault: '8101' }),
    operatorKeyFile: flag('operator key, required if the operator address is not loopback', text, 'file', {
      shownDefault: '$MISTLETOE_GUARD_KEY',
    }),
  }),
  ...group('Alerts and actions', {
    tenant: flag('who sent a request: all, key, or header:NAME', tenantRule, 'rule', { shownDefault: 'all' }),
    ...judgeFlags,
    action: flag('what an alert about a tenant leads to', oneOf(guardActions), 'name', {
      shownDefault: 'observe',
    }),
  }),
  ...group('Records and log', {
    records: flag('keep records, without prompts, in this folder', text, 'dir'),
    logRequests: toggle('log every request'),
  }),
  ...group('Configuration', {
    config: flag('YAML with these and more settings; flags win; SIGHUP reloads it', text, 'file', {
      short: 'c',
    }),
    showConfig: toggle('print the settings in force and exit'),
    interval: flag('between two scrapes', decimal({ min: 1, max: 86_400 }), 'seconds', {
      shownDefault: '15',
    }),
  }),
};
type GuardFlags = FlagsOf<typeof flags>;

/** Where the values of flags belong in the settings, if not under their own name; undefined for those of the command. */
const settingPaths: Readonly<Record<string, readonly string[] | undefined>> = {
  operatorHost: ['operator', 'host'],
  operatorPort: ['operator', 'port'],
  operatorKeyFile: ['operator', 'keyFile'],
  falseAlerts: ['alert', 'falseAlerts'],
  action: ['mitigation', 'action'],
  records: ['records', 'folder'],
  logRequests: ['log', 'requests'],
  config: undefined,
  showConfig: undefined,
};

const replay = defineCommand({
  name: 'replay',
  summary: 'judge recorded requests again',
  description:
    'Judges recorded requests again in their order, starting without a baseline, and prints the alerts. Use other false-alert rates to see what they would have meant.',
  arguments: [['<file>', 'a file of records, or a guard’s folder']],
  flags: {
    ...judgeFlags,
    falseAlertsPerWeek: flag(
      'false alerts about tenants per week',
      decimal({ above: 0, max: 1e6 }),
      'number',
      { shownDefault: '1' },
    ),
    ...formatFlag,
  },
  examples: [['mistletoe guard replay ./guard --false-alerts 0.001', 'judge with another rate']],
  async run({ format, ...options }, { args, terminal }) {
    const replayed = await replayFile(args[0]!, options);
    const text = (): string => `${describeReplay(replayed).join('\n')}\n`;
    printResult(format, terminal, { json: () => replayed, text });
    return exitCodes.success;
  },
});

export const guard = defineCommand({
  name: 'guard',
  description:
    'A reverse proxy in front of an OpenAI-compatible engine (vLLM, SGLang, TensorRT-LLM, llama.cpp, mistletoe serve). It reads from the responses whether drafting pays, raises alerts, and can act on them. With --scrape it reads an engine’s metrics instead and passes no requests.',
  flags,
  commands: [replay],
  examples: [
    ['mistletoe guard -u http://127.0.0.1:8000', 'point clients to http://127.0.0.1:8100'],
    ['mistletoe guard -u http://127.0.0.1:8000 --records ./guard', 'also keep records and the baseline'],
    [
      'mistletoe guard -u URL --plain-upstream URL2 --tenant key --action plain-upstream',
      'send tenants with an alert to the plain engine',
    ],
    ['mistletoe guard --scrape http://127.0.0.1:8000/metrics', 'no proxy, metrics only'],
    ['mistletoe guard --config guard.yaml --show-config', 'check a file'],
  ],
  notes:
    'Page and metrics are on the operator address: http://127.0.0.1:8101/mistletoe and /mistletoe/metrics. Alerts, actions and requests go to stdout as one line of JSON each, with OpenTelemetry’s names; everything else goes to stderr. SIGHUP reloads the configuration file. Ctrl-C accepts no new requests and lets running ones finish. Exit code 0 then.',
  run: runGuard,
});

async function runGuard(given: GuardFlags, invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  if (invocation.given.size === 0) {
    invocation.printHelp();
    return exitCodes.success;
  }
  if (given.scrape !== undefined) {
    invocation.allowOnly(['scrape', 'falseAlerts', 'breakEven', 'interval'], (name) => {
      const message = `${name} does not work with --scrape, which passes no requests.`;
      return new MistletoeError('usage', message, { hint: 'Leave one of them out.' });
    });
    return runScrape(given.scrape, given, terminal);
  }
  const notice = createNotice(terminal);
  const configuration = await readSettings(given, notice);
  if (given.showConfig === true) {
    terminal.stdout.write(writeConfiguration(configuration));
    return exitCodes.success;
  }
  const { MISTLETOE_GUARD_KEY: key = '' } = terminal.environment;
  const running = await startGuard(configuration, {
    version: readVersion(),
    operatorKey: key === '' ? undefined : key,
    page: readPage,
    onNotice: notice,
    onEvent: createEventLog(terminal),
  });
  terminal.stderr.write(describe(running, configuration));
  const reload = async (): Promise<void> => {
    try {
      await running.reload(await readSettings(given, notice));
      notice('Settings reloaded.');
    } catch (cause) {
      notice(`Settings not reloaded: ${describeCause(cause)}`);
    }
  };
  await waitForEnd(terminal, { onHangup: given.config === undefined ? undefined : reload });
  terminal.stderr.write('Shutting down: no new requests, running ones finish.\n');
  await running.close();
  return exitCodes.success;
}

async function readSettings(
  given: GuardFlags,
  onNotice: (message: string) => void,
): Promise<GuardConfiguration> {
  const { config: name } = given;
  const file = name === undefined ? undefined : { name, text: await readSettingsFile(name) };
  const values = Object.entries(flags).flatMap(([key, entry]): FlagValue[] => {
    const value = given[key as keyof GuardFlags];
    const path = key in settingPaths ? settingPaths[key] : [key];
    return value === undefined || path === undefined
      ? []
      : [{ flag: `--${longName(key, entry)}`, path, value }];
  });
  return readConfiguration({ file, flags: values, onNotice });
}

function createEventLog({ stdout }: Terminal) {
  return (event: string, attributes: object, message: string): void => {
    const line = { time: new Date().toISOString(), event, message, ...attributes };
    stdout.writeData(toLogLine(line));
  };
}

function describe(
  { url, operatorUrl }: Guard,
  { upstream, plainUpstream, mitigation, records }: GuardConfiguration,
): string {
  const lines = [
    `guard     ${url}`,
    `engine    ${upstream}`,
    ...(plainUpstream === undefined ? [] : [`plain     ${plainUpstream}`]),
    `action    ${mitigation.action}`,
    `records   ${records.folder ?? 'none (--records DIR)'}`,
    `operator  ${operatorUrl}/mistletoe`,
  ];
  return `${lines.join('\n')}\n`;
}

async function runScrape(
  url: string,
  { interval = 15, falseAlerts, breakEven }: GuardFlags,
  terminal: Terminal,
): Promise<number> {
  const [notice, log] = [createNotice(terminal), createEventLog(terminal)];
  terminal.stderr.write(`Reading ${url} every ${interval} s; stop with Ctrl-C.\n`);
  await runInterruptibly(terminal, async (interrupted) => {
    const signal = AbortSignal.any([interrupted, terminal.closed]);
    const options = { intervalMs: interval * 1000, signal, falseAlerts, breakEven };
    let failure: string | undefined;
    for await (const each of watchMetrics(url, options)) {
      const reason = each.kind === 'failure' ? each.reason : undefined;
      if (reason !== undefined && reason !== failure) notice(`${url} cannot be used: ${reason}.`);
      failure = reason;
      if (each.kind === 'failure' || each.record.speculation === null) continue;
      const { record, verdict, alerts } = each;
      const { steps } = each.record.speculation;
      const length = meanAcceptedLength(each.record.speculation).toFixed(2);
      const message = `${record.model}: mean accepted length ${length} over ${steps} steps`;
      log('scrape', requestAttributes(record, verdict), message);
      for (const alert of alerts) log('alert', alertAttributes(alert), alert.text);
    }
  });
  return exitCodes.success;
}
