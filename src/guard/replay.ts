/**
 * What would have rung: recorded requests through a monitor that begins knowing nothing, in the order of the file. With other rates
 * than those in use it answers what they would have cost; with yesterday's log it makes a baseline for tomorrow.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { describeCause, MistletoeError } from '../core/errors.js';
import { parseJsonText } from '../core/json-text.js';
import type { Alarm } from './alarm.js';
import type { MonitorOptions, MonitorSnapshot } from './monitor.js';
import { Monitor } from './monitor.js';
import type { Verdict } from './page-state.js';
import { readRecordLine } from './record-schema.js';
import { listSegments } from './record-segments.js';

export interface Replay {
  readonly requests: number;
  readonly verdicts: Readonly<Record<Verdict, number>>;
  /** All of them, oldest first, up to `mostAlarms`; `alarmCount` counts the rest, too. */
  readonly alarms: readonly Alarm[];
  readonly alarmCount: number;
  /** Lines that are no records, and the first fault of them. */
  readonly unread: number;
  readonly firstFault: string | undefined;
  readonly snapshot: MonitorSnapshot;
}

export interface ReplayOptions extends MonitorOptions {
  /** The monitor to go on with; a new one unless given. */
  readonly monitor?: Monitor;
  /** Told of each alarm as it rings. */
  readonly onAlarm?: (alarm: Alarm) => void;
}

const mostAlarms = 10_000;

export async function replayRecords(
  lines: AsyncIterable<string> | Iterable<string>,
  { monitor: given, onAlarm, ...options }: ReplayOptions = {},
): Promise<Replay> {
  const monitor = given ?? new Monitor(options);
  const verdicts = { usual: 0, low: 0, high: 0, unknown: 0 };
  const alarms: Alarm[] = [];
  let alarmCount = 0;
  let requests = 0;
  let unread = 0;
  let number = 0;
  let firstFault: string | undefined;
  for await (const line of lines) {
    number += 1;
    if (line.trim() === '') continue;
    const read = readLine(line);
    if ('fault' in read) {
      unread += 1;
      firstFault ??= `line ${number}, ${read.fault}`;
    }
    if (!('record' in read)) continue;
    requests += 1;
    const finished = monitor.observe(read.record);
    verdicts[finished.verdict] += 1;
    for (const alarm of finished.alarms) {
      alarmCount += 1;
      if (alarms.length < mostAlarms) alarms.push(alarm);
      onAlarm?.(alarm);
    }
  }
  if (requests === 0) {
    throw new MistletoeError(
      'usage',
      `There is no record to replay in ${number} lines${firstFault === undefined ? '' : ` (${firstFault})`}; one JSON object a line was expected, as the guard writes them.`,
      { hint: 'Give a file records-*.jsonl of the folder that the guard writes its records to.' },
    );
  }
  return { requests, verdicts, alarms, alarmCount, unread, firstFault, snapshot: monitor.snapshot() };
}

/**
 * What a guard has written: one of its files, or the folder with all of them, oldest first.
 * @example (await replayFile('./guard', { falseAlarms: 0.001 })).alarmCount
 */
export function replayFile(path: string, options: ReplayOptions = {}): Promise<Replay> {
  return replayRecords(linesOf(path), options);
}

async function* linesOf(path: string): AsyncGenerator<string> {
  const isFolder = (await stat(path)).isDirectory();
  const files = isFolder ? (await listSegments(path)).map((segment) => segment.path) : [path];
  for (const file of files) yield* createInterface({ input: createReadStream(file), crlfDelay: Infinity });
}

/** The replay in lines of text. */
export function describeReplay(replay: Replay, shown = 20): readonly string[] {
  const { requests, verdicts, alarms, alarmCount, unread, firstFault, snapshot } = replay;
  const { usual, low, high, unknown } = verdicts;
  const bands = snapshot.streams.map(({ model, route, baseline, learnt }) => {
    const band =
      baseline === null
        ? 'too few for a baseline'
        : `${baseline.low.toFixed(2)} to ${baseline.high.toFixed(2)} usual, ${baseline.middle.toFixed(2)} the middle`;
    return `${model} ${route}: ${band}, learnt from ${learnt}`;
  });
  const hidden = alarmCount - Math.min(shown, alarms.length);
  return [
    `${requests} requests: ${usual} usual, ${low} low, ${high} high, ${unknown} not judged`,
    ...(unread === 0 ? [] : [`${unread} lines are no records; the first: ${firstFault ?? ''}`]),
    ...bands,
    `${alarmCount} alarms`,
    ...alarms.slice(0, shown).map(describeAlarm),
    ...(hidden > 0 ? [`and ${hidden} more`] : []),
  ];
}

function describeAlarm({ atMs, scope, cause, tenant, requestId, text }: Alarm): string {
  const when =
    Number.isFinite(atMs) && Math.abs(atMs) < 8.64e15 ? new Date(atMs).toISOString() : String(atMs);
  const who = [scope, tenant, requestId].filter((name) => name !== null).join(' ');
  return `${when} ${cause} (${who}): ${text}`;
}

function readLine(line: string): ReturnType<typeof readRecordLine> {
  try {
    return readRecordLine(parseJsonText(line));
  } catch (cause) {
    return { fault: describeCause(cause) };
  }
}
