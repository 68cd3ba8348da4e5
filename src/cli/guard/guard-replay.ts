import { describeReplay, replayFile } from '../../guard/replay.js';
import { exitCodes } from '../failure.js';
import type { ReplayFlags } from './guard-flags.js';
import type { Terminal } from '../terminal.js';

export async function runReplay(path: string, flags: ReplayFlags, { stdout }: Terminal): Promise<number> {
  const { falseAlarms, falseAlarmsPerWeek, format } = flags;
  const replay = await replayFile(path, {
    ...(falseAlarms === undefined ? {} : { falseAlarms }),
    ...(falseAlarmsPerWeek === undefined ? {} : { falseAlarmsPerWeek }),
  });
  if (format === 'json') stdout.writeData(`${JSON.stringify(replay, undefined, 2)}\n`);
  else stdout.write(`${describeReplay(replay).join('\n')}\n`);
  return exitCodes.success;
}
