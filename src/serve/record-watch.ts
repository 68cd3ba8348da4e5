/**
 * The server's own requests, watched as the guard watches those of other engines: each is judged against what this server's
 * traffic has taught, alarms are told, and the page shows all of it. What is done within guarded requests is shown as the
 * actions that it is; about an alarm nothing is done here.
 */
import type { DrafterSwitch } from '../decode/policies/drafter-switches.js';
import type { ActionEvent, Alarm } from '../guard/alarm.js';
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
      for (const action of actionsOf(record)) memory.addAction(action);
      for (const alarm of alarms) onAlarm(alarm);
    },
    pageState(sinceMs, running) {
      memory.running = running;
      return memory.state(sinceMs);
    },
  };
}

const reasons: Partial<Readonly<Record<DrafterSwitch['reason'], string>>> = {
  evidence: 'drafts failed as they do not in usual requests',
  account: 'drafts cost more than they brought',
};

/** What was left; a long request probes many times, which would crowd everything else out. */
function actionsOf({ id, model, tenant, endedMs, switches = [] }: RequestRecord): readonly ActionEvent[] {
  return switches.flatMap(({ from, to, step, reason }): ActionEvent[] => {
    const why = reasons[reason];
    if (why === undefined || from === null) return [];
    const text = `Went on ${to === null ? 'without drafts' : `with ${to}`} instead of ${from} from step ${step} on: ${why}.`;
    return [
      {
        ...{ atMs: endedMs, action: 'switch-drafter', change: 'taken', tenant, model },
        ...{ requestId: id, alarmId: null, text },
      },
    ];
  });
}
