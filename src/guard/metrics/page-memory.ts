/** Recent requests and actions, counts, and the judge's snapshot, for the page and the metrics. */
import type { Judge } from '../judge/judge.js';
import type { ActionEvent, Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { meanAcceptedLength } from '../observation.js';
import type { PageState } from './page-state.js';

const maxRequests = 300;
const maxActions = 200;

export class PageMemory {
  running = 0;
  private readonly startedMs = Date.now();
  private readonly requests: { readonly record: Observation; readonly verdict: Verdict }[] = [];
  private readonly actions: ActionEvent[] = [];
  private readonly counts = { requests: 0, withoutTelemetry: 0, failed: 0 };

  constructor(
    private readonly judge: Pick<Judge, 'snapshot'>,
    private readonly about: Pick<PageState, 'kind' | 'version' | 'upstream'>,
  ) {}

  addRequest(record: Observation, verdict: Verdict): void {
    const { speculation, status, ending, upstream } = record;
    this.requests.push({ record, verdict });
    if (this.requests.length > 2 * maxRequests) this.requests.splice(0, maxRequests);
    this.counts.requests++;
    const isAnswer = status >= 200 && status < 300;
    if (isAnswer && speculation === null && upstream === 'speculative') this.counts.withoutTelemetry++;
    if (ending === 'upstream-failed' || status >= 500) this.counts.failed++;
  }

  addAction(action: ActionEvent): void {
    this.actions.push(action);
    if (this.actions.length > maxActions) this.actions.shift();
  }

  /** @param sinceMs leaves out older requests, alerts and actions */
  state(sinceMs = 0): PageState {
    const { streams, alerts } = this.judge.snapshot();
    return {
      ...this.about,
      nowMs: Date.now(),
      startedMs: this.startedMs,
      streams,
      requests: this.requests
        .slice(-maxRequests)
        .filter(({ record }) => record.endedMs > sinceMs)
        .map(({ record, verdict }) => ({
          ...record,
          verdict,
          acceptedLength: record.speculation === null ? null : meanAcceptedLength(record.speculation),
        }))
        .reverse(),
      alerts: alerts.filter(({ atMs }) => atMs > sinceMs),
      actions: this.actions.filter(({ atMs }) => atMs > sinceMs).reverse(),
      counts: { ...this.counts, running: this.running },
    };
  }
}
