/**
 * Asks the server for news while somebody looks: not in a hidden tab, not when paused, and more seldom the longer the
 * server does not answer. One question at a time, so that a slow server is not asked faster than it answers.
 */
import type { PageState } from '../../guard/metrics/page-state.js';
import type { Browser } from './browser.js';
import type { Connection } from './situation.js';

const intervalMs = 1500;
const longestIntervalMs = 15_000;
const patienceMs = 10_000;

export interface PollingOptions {
  readonly browser: Pick<Browser, 'document' | 'fetch' | 'setTimeout' | 'clearTimeout'>;
  readonly url: string;
  /** What to append to the URL: since when. */
  readonly question: () => string;
  readonly hear: (state: PageState) => void;
  readonly say: (connection: Connection) => void;
  readonly key: () => string;
}

export interface Polling {
  /** Asks at once, or as soon as the page is seen. */
  wake(): void;
  pause(): void;
}

export function startPolling({ browser, url, question, hear, say, key }: PollingOptions): Polling {
  let timer: number | null = null;
  let isAsking = false;
  let isPaused = false;
  let failures = 0;

  const plan = (milliseconds: number): void => {
    if (timer !== null) browser.clearTimeout(timer);
    timer = null;
    if (isPaused || isAsking || browser.document.visibilityState === 'hidden') return;
    timer = browser.setTimeout(() => void ask(), milliseconds);
  };

  const ask = async (): Promise<void> => {
    isAsking = true;
    const given = key();
    let next: Connection;
    try {
      const response = await browser.fetch(url + question(), {
        headers: given === '' ? {} : { authorization: `Bearer ${given}` },
        signal: AbortSignal.timeout(patienceMs),
        cache: 'no-store',
      });
      next = await read(response.status, response.ok, () => response.json(), given !== '');
    } catch (cause) {
      next = { kind: 'lost', reason: `The server does not answer (${describeCause(cause)}).` };
    }
    isAsking = false;
    failures = next.kind === 'lost' ? failures + 1 : 0;
    // Without a key there is nothing to ask until somebody gives one. Planned first, so that it goes on whatever comes of drawing.
    if (next.kind !== 'locked') plan(Math.min(longestIntervalMs, intervalMs * 2 ** Math.min(failures, 8)));
    if (!isPaused) say(next);
  };

  const read = async (
    status: number,
    isFine: boolean,
    body: () => Promise<unknown>,
    hadKey: boolean,
  ): Promise<Connection> => {
    if (status === 401 || status === 403) return { kind: 'locked', wasRefused: hadKey };
    if (!isFine) return { kind: 'lost', reason: `The server answered with status ${status}.` };
    const state = await body();
    if (!looksLikeState(state))
      return { kind: 'lost', reason: 'The server answered something else than its state.' };
    if (!isPaused) hear(state);
    return { kind: 'live' };
  };

  browser.document.addEventListener('visibilitychange', () => {
    plan(0);
  });
  plan(0);
  return {
    wake() {
      isPaused = false;
      plan(0);
    },
    pause() {
      isPaused = true;
      plan(0);
      say({ kind: 'paused' });
    },
  };
}

/** Enough to tell our own answer from a login page or another version of ourselves. */
function looksLikeState(given: unknown): given is PageState {
  if (typeof given !== 'object' || given === null) return false;
  const state = given as Partial<Record<keyof PageState, unknown>>;
  const lists = [state.streams, state.requests, state.alerts, state.actions];
  return lists.every(Array.isArray) && typeof state.nowMs === 'number' && typeof state.counts === 'object';
}

function describeCause(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
