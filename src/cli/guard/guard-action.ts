import { describeCause, MistletoeError } from '../../core/errors.js';
import { readBoundedFile } from '../../core/files.js';
import { pageHandler } from '../../dashboard/page-handler.js';
import { readVersion } from '../../decode/bundled-models.js';
import { readConfiguration, writeConfiguration } from '../../guard/config-file.js';
import type { GuardConfiguration } from '../../guard/guard-config.js';
import type { Guard } from '../../guard/guard.js';
import { startGuard } from '../../guard/guard.js';
import { describeReplay, replayFile } from '../../guard/records/replay.js';
import { exitCodes } from '../failure.js';
import type { Terminal } from '../terminal.js';
import { createNotice } from '../terminal.js';
import type { GuardFlags, ReplayFlags } from './guard-flags.js';
import { flagValues } from './guard-flags.js';
import { runScrape } from './guard-scrape.js';

const maxFileBytes = 1 << 20;

export async function runGuard(flags: GuardFlags, terminal: Terminal): Promise<number> {
  const { scrape } = flags;
  if (scrape !== undefined) {
    refuseBesideScrape(flags);
    return runScrape(scrape, flags, terminal);
  }
  const notice = createNotice(terminal);
  const configuration = await readSettings(flags, notice);
  if (flags.showConfig === true) {
    terminal.stdout.write(writeConfiguration(configuration));
    return exitCodes.success;
  }
  const { MISTLETOE_GUARD_KEY: key = '' } = terminal.environment;
  const guard = await startGuard(configuration, {
    version: readVersion(),
    operatorKey: key === '' ? undefined : key,
    page: pageHandler,
    onNotice: notice,
    onEvent(event, attributes, message) {
      const line = { time: new Date().toISOString(), event, message, ...attributes };
      terminal.stdout.writeData(`${JSON.stringify(line)}\n`);
    },
  });
  terminal.stderr.write(describe(guard, configuration));
  await waitForEnd(terminal, flags.config === undefined ? undefined : () => reload(guard, flags, notice));
  terminal.stderr.write('Shutting down: no new requests, running ones finish.\n');
  await guard.close();
  return exitCodes.success;
}

async function readSettings(
  flags: GuardFlags,
  onNotice: (message: string) => void,
): Promise<GuardConfiguration> {
  const { config: name } = flags;
  const text = name === undefined ? undefined : (await readBoundedFile(name, maxFileBytes)).toString();
  return readConfiguration({
    file: name === undefined || text === undefined ? undefined : { name, text },
    flags: flagValues(flags),
    onNotice,
  });
}

/** A file with an error changes nothing. */
async function reload(guard: Guard, flags: GuardFlags, notice: (message: string) => void): Promise<void> {
  try {
    await guard.reload(await readSettings(flags, notice));
    notice('Settings reloaded.');
  } catch (cause) {
    notice(`Settings not reloaded: ${describeCause(cause)}`);
  }
}

function refuseBesideScrape(flags: GuardFlags): void {
  const own: readonly string[] = ['scrape', 'falseAlerts', 'interval'];
  const other = Object.keys(flags).find((name) => !own.includes(name));
  if (other === undefined) return;
  const flag = other.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new MistletoeError('usage', `--${flag} does not work with --scrape, which passes no requests.`, {
    hint: 'Leave one of them out.',
  });
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

/**
 * Until an interrupt, or until nobody reads the output.
 * @param onHangup instead of ending on SIGHUP
 */
async function waitForEnd(terminal: Terminal, onHangup: (() => Promise<void>) | undefined): Promise<void> {
  await new Promise<void>((resolve) => {
    let stop: (() => void) | undefined;
    const listen = (): void => {
      stop = terminal.onInterrupt((signal) => {
        if (signal !== 'SIGHUP' || onHangup === undefined) {
          resolve();
          return;
        }
        listen();
        void onHangup();
      });
    };
    listen();
    const end = (): void => {
      stop?.();
      resolve();
    };
    if (terminal.closed.aborted) end();
    else terminal.closed.addEventListener('abort', end, { once: true });
  });
}

export async function runReplay(path: string, flags: ReplayFlags, { stdout }: Terminal): Promise<number> {
  const { falseAlerts, falseAlertsPerWeek, format } = flags;
  const replay = await replayFile(path, {
    ...(falseAlerts === undefined ? {} : { falseAlerts }),
    ...(falseAlertsPerWeek === undefined ? {} : { falseAlertsPerWeek }),
  });
  if (format === 'json') stdout.writeData(`${JSON.stringify(replay, undefined, 2)}\n`);
  else stdout.write(`${describeReplay(replay).join('\n')}\n`);
  return exitCodes.success;
}
