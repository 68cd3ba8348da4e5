/**
 * Runs the guard's monitor over the server's own requests: each is judged against this server's traffic, alarms are
 * reported, and the page shows them. Drafter switches within guarded requests appear as actions. Alarms cause no action.
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

/** Switches away from a drafter. Probes are left out: a long request makes many. */
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
