/** The data of the page at /mistletoe, for guard and server alike. No prompts, no answers, no keys. */
import type { Judge } from '../judge/judge.js';
import type { StreamBaseline } from '../judge/rank.js';
import type { ActionEvent, Verdict } from '../judge/verdict.js';
import { type Observation, meanAcceptedLength } from '../observation.js';
import { RecentMap } from '../state/recent-map.js';

export type PageState = Readonly<ReturnType<PageMemory['state']>>;

interface About {
  readonly version: string;
  readonly kind: 'guard' | 'serve';
  readonly upstream: string | null;
}

interface Slice {
  readonly atMs: number;
  steps: number;
  accepted: number;
  requests: number;
}

const maxRequests = 300;
const maxActions = 200;
const sliceMs = 60_000;
const maxSlices = 120;
const maxStreams = 64;

/** Recent requests and actions, and the history of each stream. */
export class PageMemory {
  running = 0;
  private readonly startedMs = Date.now();
  private readonly requests: { readonly record: Observation; readonly verdict: Verdict }[] = [];
  private readonly actions: ActionEvent[] = [];
  private readonly counts = { requests: 0, withoutTelemetry: 0, failed: 0 };
  private readonly streams = new RecentMap<Slice[]>(maxStreams);

  constructor(
    private readonly judge: Pick<Judge, 'snapshot'>,
    private readonly about: About,
  ) {}

  addRequest(record: Observation, verdict: Verdict): void {
    const { speculation, status, ending, upstream } = record;
    this.requests.push({ record, verdict });
    if (this.requests.length > 2 * maxRequests) this.requests.splice(0, maxRequests);
    this.counts.requests++;
    const isDrafted = status >= 200 && status < 300 && ending !== 'refused' && upstream === 'speculative';
    if (isDrafted) this.addToHistory(record);
    if (isDrafted && speculation === null) this.counts.withoutTelemetry++;
    if (ending === 'upstream-failed' || status >= 500) this.counts.failed++;
  }

  addAction(action: ActionEvent): void {
    this.actions.push(action);
    if (this.actions.length > maxActions) this.actions.shift();
  }

  /** @param sinceMs leaves out older requests, alerts and actions */
  state(sinceMs = 0) {
    const { streams, needed, alerts } = this.judge.snapshot();
    return {
      ...this.about,
      nowMs: Date.now(),
      startedMs: this.startedMs,
      streams: [...this.streams.entries()].map(([key, slices]) => toStream(key, slices, streams, needed)),
      /** Newest first, at most a few hundred. */
      requests: this.requests
        .slice(-maxRequests)
        .filter(({ record }) => record.endedMs > sinceMs)
        .map(({ record, verdict }) => {
          const { speculation } = record;
          return { ...record, verdict, acceptedLength: speculation && meanAcceptedLength(speculation) };
        })
        .reverse(),
      alerts: alerts.filter(({ atMs }) => atMs > sinceMs),
      actions: this.actions.filter(({ atMs }) => atMs > sinceMs).reverse(),
      counts: { ...this.counts, running: this.running },
    };
  }

  private addToHistory({ model, route, endedMs, speculation }: Observation): void {
    const slices = this.streams.getOrCreate(`${route}\n${model}`, () => []);
    const begin = Math.floor(endedMs / sliceMs) * sliceMs;
    // Requests end nearly in order, so a late one counts in the last slice.
    let slice = slices.at(-1);
    if (slice === undefined || slice.atMs < begin) {
      slice = { atMs: begin, steps: 0, accepted: 0, requests: 0 };
      slices.push(slice);
      if (slices.length > maxSlices) slices.shift();
    }
    slice.requests += 1;
    slice.steps += speculation?.steps ?? 0;
    slice.accepted += speculation?.accepted ?? 0;
  }
}

function toStream(key: string, slices: readonly Slice[], known: readonly StreamBaseline[], needed: number) {
  const [route = '', ...rest] = key.split('\n');
  const model = rest.join('\n');
  const found = known.find((each) => each.model === model && each.route === route);
  const { baseline, learned } = found ?? { baseline: null, learned: 0 };
  /** Mean accepted length in slices of time, oldest first, with the baseline's band; null while there is none. */
  const history = slices.map(({ atMs, requests, steps, accepted }) => ({
    ...{ atMs, requests, low: baseline?.low ?? null, high: baseline?.high ?? null },
    acceptedLength: steps === 0 ? null : 1 + accepted / steps,
  }));
  return { model, route, baseline, learned, needed, history };
}
