import { Monitor } from '../guard/monitor.js';
import { meanAcceptedLength } from '../guard/request-record.js';
import { asRequestRecord, scrapeEngine } from '../guard/scrape.js';
import { alarmAttributes, requestAttributes } from '../guard/telemetry-names.js';
import { exitCodes } from './failure.js';
import type { GuardFlags } from './guard-flags.js';
import { createNotice } from './notice.js';
import type { Terminal } from './terminal.js';

/** Counters alone: what happened between two scrapes is taken for one request of everybody’s. */
export async function runScrape(
  url: string,
  { interval = 15, falseAlarms }: GuardFlags,
  terminal: Terminal,
): Promise<number> {
  const notice = createNotice(terminal);
  const monitor = new Monitor(falseAlarms === undefined ? {} : { falseAlarms });
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
  for await (const scrape of scrapeEngine(url, { intervalMs: interval * 1000, signal: ending.signal })) {
    if (scrape.kind === 'failure') {
      if (scrape.reason !== failure) notice(`${url} cannot be used: ${scrape.reason}.`);
      failure = scrape.reason;
      continue;
    }
    failure = undefined;
    for (const aggregate of scrape.records) {
      const record = asRequestRecord(aggregate);
      const { alarms, verdict } = monitor.observe(record);
      const length = meanAcceptedLength(aggregate.speculation).toFixed(2);
      const message = `${record.model}: mean accepted length ${length} over ${aggregate.speculation.steps} steps`;
      print('scrape', message, requestAttributes(record, verdict));
      for (const alarm of alarms) print('alarm', alarm.text, alarmAttributes(alarm));
    }
  }
  stop();
  return exitCodes.success;
}
