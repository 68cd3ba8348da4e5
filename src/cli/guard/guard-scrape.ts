import { meanAcceptedLength } from '../../guard/request-record.js';
import { alarmAttributes, requestAttributes } from '../../guard/telemetry-names.js';
import { watchMetrics } from '../../guard/watch-metrics.js';
import { exitCodes } from '../failure.js';
import type { GuardFlags } from './guard-flags.js';
import { createNotice } from '../terminal.js';
import type { Terminal } from '../terminal.js';

export async function runScrape(
  url: string,
  { interval = 15, falseAlarms }: GuardFlags,
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
  terminal.stderr.write(`Reads ${url} every ${interval} s; Ctrl-C ends it.\n`);
  const watched = watchMetrics(url, {
    ...{ intervalMs: interval * 1000, signal: ending.signal },
    ...(falseAlarms === undefined ? {} : { falseAlarms }),
  });
  for await (const each of watched) {
    if (each.kind === 'failure') {
      if (each.reason !== failure) notice(`${url} cannot be used: ${each.reason}.`);
      failure = each.reason;
      continue;
    }
    failure = undefined;
    const { record, verdict, alarms } = each;
    const { speculation, model } = record;
    if (speculation === null) continue;
    const length = meanAcceptedLength(speculation).toFixed(2);
    const message = `${model}: mean accepted length ${length} over ${speculation.steps} steps`;
    print('scrape', message, requestAttributes(record, verdict));
    for (const alarm of alarms) print('alarm', alarm.text, alarmAttributes(alarm));
  }
  stop();
  return exitCodes.success;
}
