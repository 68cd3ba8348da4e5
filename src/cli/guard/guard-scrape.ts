import { alertAttributes, requestAttributes } from '../../guard/metrics/telemetry-names.js';
import { meanAcceptedLength } from '../../guard/observation.js';
import { watchMetrics } from '../../guard/engines/scrape.js';
import { exitCodes } from '../failure.js';
import type { GuardFlags } from './guard-flags.js';
import { createNotice } from '../terminal.js';
import type { Terminal } from '../terminal.js';

export async function runScrape(
  url: string,
  { interval = 15, falseAlerts }: GuardFlags,
  terminal: Terminal,
): Promise<number> {
  const notice = createNotice(terminal);
  const ending = new AbortController();
  const stop = terminal.onInterrupt(() => {
    ending.abort();
  });
  terminal.closed.addEventListener('abort', () => {
    ending.abort();
  });
  const print = (event: string, message: string, attributes: object): void => {
    const line = { time: new Date().toISOString(), event, message, ...attributes };
    terminal.stdout.writeData(`${JSON.stringify(line)}\n`);
  };
  let failure: string | undefined;
  terminal.stderr.write(`Reading ${url} every ${interval} s; stop with Ctrl-C.\n`);
  const watched = watchMetrics(url, {
    intervalMs: interval * 1000,
    signal: ending.signal,
    ...(falseAlerts === undefined ? undefined : { falseAlerts }),
  });
  for await (const each of watched) {
    if (each.kind === 'failure') {
      if (each.reason !== failure) notice(`${url} cannot be used: ${each.reason}.`);
      failure = each.reason;
      continue;
    }
    failure = undefined;
    const { record, verdict, alerts } = each;
    const { speculation, model } = record;
    if (speculation === null) continue;
    const length = meanAcceptedLength(speculation).toFixed(2);
    const message = `${model}: mean accepted length ${length} over ${speculation.steps} steps`;
    print('scrape', message, requestAttributes(record, verdict));
    for (const alert of alerts) print('alert', alert.text, alertAttributes(alert));
  }
  stop();
  return exitCodes.success;
}
