/** Replays recorded requests through a judge: the same verdicts as live with the same settings. */
import { MistletoeError } from '../../core/errors.js';
import { type JudgeOptions, Judge } from '../judge/judge.js';
import type { ActionEvent, Alert, Judgment, Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { readLines, readRecordLine } from './record-log.js';

export type Replay = Awaited<ReturnType<typeof replayRecords>>;

export interface ReplayOptions extends JudgeOptions {
  /** The judge to continue with; a new one by default. */
  readonly judge?: Judge;
  readonly onJudged?: (observation: Observation, judgment: Judgment, recorded: Verdict | undefined) => void;
}

const maxAlerts = 10_000;

export async function replayRecords(
  lines: AsyncIterable<string> | Iterable<string>,
  { judge: given, onJudged, ...options }: ReplayOptions = {},
) {
  const judge = given ?? new Judge(options);
  const verdicts = { normal: 0, low: 0, collapsed: 0, learning: 0, unreadable: 0 };
  const alerts: Alert[] = [];
  const actions: ActionEvent[] = [];
  let [alertCount, requests, unread, number, different] = [0, 0, 0, 0, 0];
  let firstFault: string | undefined;
  let firstDifference: string | undefined;
  for await (const line of lines) {
    number += 1;
    if (line.trim() === '') continue;
    const read = readRecordLine(line);
    if (read === undefined) continue;
    if ('fault' in read) {
      unread += 1;
      firstFault ??= `line ${number}, ${read.fault}`;
      continue;
    }
    requests += 1;
    const judgment = judge.judge(read.record);
    const { verdict } = judgment;
    verdicts[verdict.name] += 1;
    if (read.verdict !== undefined && read.verdict.name !== verdict.name) {
      different += 1;
      firstDifference ??= `${read.record.id}: ${read.verdict.name} when recorded, ${verdict.name} now`;
    }
    alertCount += judgment.alerts.length;
    if (alerts.length < maxAlerts) alerts.push(...judgment.alerts);
    if (actions.length < maxAlerts) actions.push(...judgment.actions);
    onJudged?.(read.record, judgment, read.verdict);
  }
  if (requests === 0) {
    const place = `in ${number} lines${firstFault === undefined ? '' : ` (${firstFault})`}`;
    const message = `There is no record to replay ${place}; expected one JSON object per line, as the guard writes them.`;
    const hint = 'Give a file records-*.jsonl, or the folder that the guard writes its records to.';
    throw new MistletoeError('usage', message, { hint });
  }
  return {
    requests,
    verdicts,
    /** Requests whose recorded verdict is another one; 0 with the settings of the guard that wrote a whole log. */
    different,
    firstDifference,
    /** Oldest first, up to `maxAlerts`; `alertCount` counts all. */
    alerts,
    alertCount,
    /** Measures that would have been applied and lifted. */
    actions,
    /** Lines that are not records, and the first error. */
    unread,
    firstFault,
    snapshot: judge.snapshot(),
  };
}

/**
 * A file that a guard has written, or a folder with all of them, oldest first.
 * @example (await replayFile('./guard', { falseAlerts: 0.001 })).alertCount
 */
export function replayFile(path: string, options: ReplayOptions = {}): Promise<Replay> {
  return replayRecords(readLines(path), options);
}

export function describeReplay(replay: Replay, shown = 20): readonly string[] {
  const { requests, verdicts, alerts, alertCount, unread, firstFault, snapshot, actions } = replay;
  const bands = snapshot.streams.map(({ model, route, baseline, learned }) => {
    const band =
      baseline === null
        ? 'too few for a baseline'
        : `accepted length ${baseline.low.toFixed(2)} to ${baseline.high.toFixed(2)}, median ${baseline.middle.toFixed(2)}`;
    return `${model} ${route}: ${band} (${learned} requests)`;
  });
  const hidden = alertCount - Math.min(shown, alerts.length);
  const counts = Object.entries(verdicts).map(([name, count]) => `${count} ${name}`);
  const lines = [`${requests} requests: ${counts.join(', ')}`];
  if (unread > 0) lines.push(`${unread} lines are not records; the first: ${firstFault ?? ''}`);
  if (replay.different > 0)
    lines.push(
      `${replay.different} verdicts differ from the recorded ones; the first: ${replay.firstDifference ?? ''}`,
    );
  lines.push(...bands, `${alertCount} alerts`, ...alerts.slice(0, shown).map(describeAlert));
  if (hidden > 0) lines.push(`and ${hidden} more`);
  const applied = actions.filter(({ change }) => change === 'applied').length;
  if (applied > 0) lines.push(`${applied} measures applied, ${actions.length - applied} lifted`);
  return lines;
}

function describeAlert({ atMs, cause, tenant, requestId, text }: Alert): string {
  const isDate = Number.isFinite(atMs) && Math.abs(atMs) < 8.64e15;
  const when = isDate ? new Date(atMs).toISOString() : String(atMs);
  return `${when} ${cause} (${tenant ?? 'all tenants'}, request ${requestId}): ${text}`;
}
