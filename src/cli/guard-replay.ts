import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { listSegments } from '../guard/record-segments.js';
import { describeReplay, replayRecords } from '../guard/replay.js';
import { exitCodes } from './failure.js';
import type { ReplayFlags } from './guard-flags.js';
import type { Terminal } from './terminal.js';

export async function runReplay(path: string, flags: ReplayFlags, { stdout }: Terminal): Promise<number> {
  const { falseAlarms, falseAlarmsPerWeek, format } = flags;
  const replay = await replayRecords(linesOf(path), {
    ...(falseAlarms === undefined ? {} : { falseAlarms }),
    ...(falseAlarmsPerWeek === undefined ? {} : { falseAlarmsPerWeek }),
  });
  if (format === 'json') stdout.writeData(`${JSON.stringify(replay, undefined, 2)}\n`);
  else stdout.write(`${describeReplay(replay).join('\n')}\n`);
  return exitCodes.success;
}

/** Of a file, or of all segments of a folder in their order. */
async function* linesOf(path: string): AsyncGenerator<string> {
  const isFolder = (await stat(path)).isDirectory();
  const files = isFolder ? (await listSegments(path)).map((segment) => segment.path) : [path];
  for (const file of files) yield* createInterface({ input: createReadStream(file), crlfDelay: Infinity });
}
