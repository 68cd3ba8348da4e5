/** What the page and the metrics are told: the latest requests and actions, counts, and what the monitor knows. */
import type { ActionEvent } from './alarm.js';
import type { Monitor } from './monitor.js';
import type { PageState, ShownRequest, Verdict } from './page-state.js';
import type { RequestRecord } from './request-record.js';
import { meanAcceptedLength } from './request-record.js';

const mostRequests = 300;
const mostActions = 200;

export class GuardMemory {
  running = 0;
  private readonly startedMs = Date.now();
  private readonly requests: { readonly record: RequestRecord; readonly verdict: Verdict }[] = [];
  private readonly actions: ActionEvent[] = [];
  private readonly counts = { requests: 0, withoutTelemetry: 0, failed: 0 };

  constructor(
    private readonly monitor: Monitor,
    private readonly about: Pick<PageState, 'kind' | 'version' | 'upstream'>,
  ) {}

  addRequest(record: RequestRecord, verdict: Verdict): void {
    const { speculation, status, ending, upstream } = record;
    this.requests.push({ record, verdict });
    if (this.requests.length > 2 * mostRequests) this.requests.splice(0, mostRequests);
    this.counts.requests++;
    const isAnswer = status >= 200 && status < 300;
    if (isAnswer && speculation === null && upstream === 'speculative') this.counts.withoutTelemetry++;
    if (ending === 'upstream-failed' || status >= 500) this.counts.failed++;
  }

  addAction(action: ActionEvent): void {
    this.actions.push(action);
    if (this.actions.length > mostActions) this.actions.shift();
  }

  /** @param sinceMs leaves out what is older */
  state(sinceMs = 0): PageState {
    const { streams, alarms } = this.monitor.snapshot();
    return {
      ...this.about,
      nowMs: Date.now(),
      startedMs: this.startedMs,
      streams,
      requests: this.requests
        .slice(-mostRequests)
        .filter(({ record }) => record.endedMs > sinceMs)
        .map(({ record, verdict }) => show(record, verdict))
        .reverse(),
      alarms: alarms.filter(({ atMs }) => atMs > sinceMs),
      actions: this.actions.filter(({ atMs }) => atMs > sinceMs).reverse(),
      counts: { ...this.counts, running: this.running },
    };
  }
}

function show(record: RequestRecord, verdict: Verdict): ShownRequest {
  const { speculation } = record;
  const shown: Omit<RequestRecord, 'promptPrint'> & { promptPrint?: unknown } = { ...record };
  delete shown.promptPrint;
  return { ...shown, verdict, acceptedLength: speculation === null ? null : meanAcceptedLength(speculation) };
}
