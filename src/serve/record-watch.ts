/**
 * Judges the server's own requests as the guard judges those of other engines, and shows them on the page. Drafter changes
 * within guarded requests are shown as actions; alerts are only reported.
 */
import type { DrafterSwitch } from '../decode/policies/policy-chooser.js';
import { Judge } from '../guard/judge/judge.js';
import type { ActionEvent, Alert } from '../guard/judge/verdict.js';
import { PageMemory } from '../guard/metrics/page-state.js';
import type { Observation } from '../guard/observation.js';

/** The page's data about requests that ended after a time. */
export type ReadPageState = (sinceMs: number | undefined, running: number) => unknown;

export interface RecordWatch {
  readonly onRecord: (record: Observation) => void;
  readonly pageState: ReadPageState;
}

export function watchRecords(version: string, onAlert: (alert: Alert) => void): RecordWatch {
  const judge = new Judge();
  const memory = new PageMemory(judge, { kind: 'serve', version, upstream: null });
  return {
    onRecord(record) {
      const { alerts, verdict } = judge.judge(record);
      memory.addRequest(record, verdict);
      for (const action of actionsOf(record)) memory.addAction(action);
      for (const alert of alerts) onAlert(alert);
    },
    pageState(sinceMs, running) {
      memory.running = running;
      return memory.state(sinceMs);
    },
  };
}

const reasons: Partial<Readonly<Record<DrafterSwitch['reason'], string>>> = {
  evidence: 'fewer drafts were accepted than in normal requests',
  account: 'drafting cost more than it saved',
};

/** Only changes away from a drafter; a long request probes too often to show each. */
function actionsOf({ id, model, tenant, endedMs, switches = [] }: Observation): readonly ActionEvent[] {
  return switches.flatMap(({ from, to, step, reason }): ActionEvent[] => {
    const why = reasons[reason];
    if (why === undefined || from === null) return [];
    const text = `Continued ${to === null ? 'without drafts' : `with ${to}`} instead of ${from} from step ${step}: ${why}.`;
    return [
      {
        atMs: endedMs,
        action: 'switch-drafter',
        change: 'applied',
        tenant,
        model,
        requestId: id,
        alertId: null,
        text,
      },
    ];
  });
}
