/**
 * The server's own requests, watched as the guard watches those of other engines: each is judged against what this server's
 * traffic has taught, alarms are told, and the page shows all of it. Nothing is done about an alarm here.
 */
import type { Alarm } from '../guard/alarm.js';
import { GuardMemory } from '../guard/guard-memory.js';
import { Monitor } from '../guard/monitor.js';
import type { RequestRecord } from '../guard/request-record.js';
import type { ReadPageState } from './app.js';

export interface RecordWatch {
  readonly onRecord: (record: RequestRecord) => void;
  readonly pageState: ReadPageState;
}

export function watchRecords(version: string, onAlarm: (alarm: Alarm) => void): RecordWatch {
  const monitor = new Monitor();
  const memory = new GuardMemory(monitor, { kind: 'serve', version, upstream: null });
  return {
    onRecord(record) {
      const { alarms, verdict } = monitor.observe(record);
      memory.addRequest(record, verdict);
      for (const alarm of alarms) onAlarm(alarm);
    },
    pageState(sinceMs, running) {
      memory.running = running;
      return memory.state(sinceMs);
    },
  };
}
