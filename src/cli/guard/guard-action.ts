import { readBoundedFile } from '../../core/files.js';
import { MistletoeError } from '../../core/errors.js';
import { pageHandler } from '../../dashboard/page-handler.js';
import { readConfiguration, writeConfiguration } from '../../guard/config-file.js';
import type { Guard } from '../../guard/guard.js';
import { startGuard } from '../../guard/guard.js';
import type { GuardConfiguration } from '../../guard/guard-config.js';
import { exitCodes } from '../failure.js';
import type { GuardFlags } from './guard-flags.js';
import { flagValues } from './guard-flags.js';
import { runScrape } from './guard-scrape.js';
import { createNotice } from '../terminal.js';
import { readVersion } from '../package-version.js';
import type { Terminal } from '../terminal.js';

const mostFileBytes = 1 << 20;

export async function runGuard(flags: GuardFlags, terminal: Terminal): Promise<number> {
  const { scrape } = flags;
  if (scrape !== undefined) {
    refuseBesideScrape(flags);
    return runScrape(scrape, flags, terminal);
  }
  const configuration = await configurationOf(flags);
  if (flags.showConfig === true) {
    terminal.stdout.write(writeConfiguration(configuration));
    return exitCodes.success;
  }
  const { MISTLETOE_GUARD_KEY: key = '' } = terminal.environment;
  const guard = await startGuard(configuration, {
    version: readVersion(),
    operatorKey: key === '' ? undefined : key,
    page: pageHandler,
    onNotice: createNotice(terminal),
    onEvent(event, attributes, message) {
      const line = { time: new Date().toISOString(), event, message, ...attributes };
      terminal.stdout.writeData(`${JSON.stringify(line)}\n`);
    },
  });
  terminal.stderr.write(describe(guard, configuration));
  await waitForEnd(terminal);
  terminal.stderr.write('Shuts down: takes nothing any more, and lets answers finish.\n');
  await guard.close();
  return exitCodes.success;
}

async function configurationOf(flags: GuardFlags): Promise<GuardConfiguration> {
  const { config: name } = flags;
  const text = name === undefined ? undefined : (await readBoundedFile(name, mostFileBytes)).toString();
  return readConfiguration({
    file: name === undefined || text === undefined ? undefined : { name, text },
    flags: flagValues(flags),
  });
}

function refuseBesideScrape(flags: GuardFlags): void {
  const own: readonly string[] = ['scrape', 'falseAlarms', 'interval'];
  const other = Object.keys(flags).find((name) => !own.includes(name));
  if (other === undefined) return;
  const flag = other.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new MistletoeError('usage', `--${flag} was given beside --scrape, which passes no requests.`, {
    hint: 'Leave one of them out.',
  });
}

function describe(
  { url }: Guard,
  { upstream, plainUpstream, mitigation, records }: GuardConfiguration,
): string {
  const lines = [
    `guard     ${url}`,
    `engine    ${upstream}`,
    ...(plainUpstream === undefined ? [] : [`plain     ${plainUpstream}`]),
    `action    ${mitigation.action}`,
    `records   ${records.folder ?? 'none (--records DIR)'}`,
    `page      ${url}/mistletoe`,
  ];
  return `${lines.join('\n')}\n`;
}

/** Until somebody wants it to end, or what it prints reaches nobody. */
async function waitForEnd(terminal: Terminal): Promise<void> {
  await new Promise<void>((resolve) => {
    const stop = terminal.onInterrupt(() => {
      resolve();
    });
    const end = (): void => {
      stop();
      resolve();
    };
    if (terminal.closed.aborted) end();
    else terminal.closed.addEventListener('abort', end, { once: true });
  });
}
