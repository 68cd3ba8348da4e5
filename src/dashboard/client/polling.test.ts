import { describe, expect, it } from 'vitest';
import type { PageState } from '../../guard/metrics/page-state.js';
import { createSampleState } from '../../../test/support/dashboard/sample-state.js';
import type { PageResponse } from './browser.js';
import type { Polling } from './polling.js';
import { startPolling } from './polling.js';
import type { Connection } from './situation.js';

type Answer = PageResponse | Error;
const fine = (body: unknown): PageResponse => ({ ok: true, status: 200, json: () => Promise.resolve(body) });
const status = (code: number): PageResponse => ({
  ok: false,
  status: code,
  json: () => Promise.reject(new Error()),
});

/** A browser whose clock is turned by hand. */
class Bench {
  readonly document = {
    visibilityState: 'visible' as 'visible' | 'hidden',
    addEventListener: (_: string, listener: () => void) => (this.seen = listener),
  };
  readonly asked: { url: string; headers: Readonly<Record<string, string>> }[] = [];
  readonly heard: PageState[] = [];
  readonly said: Connection[] = [];
  readonly polling: Polling;
  answer: Answer = fine(createSampleState());
  key = '';
  timer: { readonly task: () => void; readonly milliseconds: number } | null = null;
  private seen: () => void = () => undefined;

  constructor() {
    this.polling = startPolling({
      browser: {
        document: this.document as never,
        fetch: (url, { headers }) => {
          this.asked.push({ url, headers });
          return this.answer instanceof Error ? Promise.reject(this.answer) : Promise.resolve(this.answer);
        },
        setTimeout: (task, milliseconds) => {
          this.timer = { task, milliseconds };
          return 1;
        },
        clearTimeout: () => (this.timer = null),
      },
      url: '/mistletoe/api/state',
      question: () => `?since=${this.heard.length}`,
      hear: (state) => this.heard.push(state),
      say: (connection) => this.said.push(connection),
      key: () => this.key,
    });
  }

  /** Lets the planned question be asked and answered. */
  async tick(): Promise<void> {
    const { timer } = this;
    if (timer === null) throw new Error('nothing is planned');
    this.timer = null;
    timer.task();
    await new Promise((resolve) => setImmediate(resolve));
  }

  show(visibility: 'visible' | 'hidden'): void {
    this.document.visibilityState = visibility;
    this.seen();
  }
}

describe('polling', () => {
  it('asks at once and goes on', async () => {
    const bench = new Bench();
    expect(bench.timer?.milliseconds).toBe(0);
    await bench.tick();
    await bench.tick();
    expect(bench.asked.map(({ url }) => url)).toEqual([
      '/mistletoe/api/state?since=0',
      '/mistletoe/api/state?since=1',
    ]);
    expect(bench.said).toEqual([{ kind: 'live' }, { kind: 'live' }]);
    expect(bench.timer?.milliseconds).toBe(1500);
  });

  it('rests while nobody looks, and asks as soon as somebody does', async () => {
    const bench = new Bench();
    await bench.tick();
    bench.show('hidden');
    expect(bench.timer).toBeNull();
    bench.show('visible');
    expect(bench.timer).toMatchObject({ milliseconds: 0 });
  });

  it('does not ask again where the page was hidden during a question', async () => {
    const bench = new Bench();
    bench.document.visibilityState = 'hidden';
    await bench.tick();
    expect(bench.timer).toBeNull();
  });

  it('asks a lost server more and more seldom, until it answers', async () => {
    const bench = new Bench();
    const waits: number[] = [];
    for (const answer of [
      new Error('refused'),
      status(502),
      fine('<html>'),
      fine({ nowMs: 1 }),
      new Error('refused'),
    ]) {
      // prettier-ignore
      bench.answer = answer;
      await bench.tick();
      waits.push(bench.timer!.milliseconds);
    }
    expect(waits).toEqual([3000, 6000, 12_000, 15_000, 15_000]);
    expect(bench.said.map(({ kind }) => kind)).toEqual(['lost', 'lost', 'lost', 'lost', 'lost']);
    expect(bench.said[0]).toEqual({ kind: 'lost', reason: 'The server does not answer (refused).' });
    expect(bench.said[1]).toEqual({ kind: 'lost', reason: 'The server answered with status 502.' });
    bench.answer = fine(createSampleState());
    await bench.tick();
    expect(bench.timer?.milliseconds).toBe(1500);
    expect(bench.heard).toHaveLength(1);
  });

  it('waits for a key, and sends the one it was given', async () => {
    const bench = new Bench();
    bench.answer = status(401);
    await bench.tick();
    expect(bench.said).toEqual([{ kind: 'locked', wasRefused: false }]);
    expect(bench.timer).toBeNull();
    bench.key = 'wrong';
    bench.polling.wake();
    await bench.tick();
    expect(bench.said.at(-1)).toEqual({ kind: 'locked', wasRefused: true });
    bench.key = 'right';
    bench.answer = fine(createSampleState());
    bench.polling.wake();
    await bench.tick();
    expect(bench.asked.map(({ headers }) => headers.authorization)).toEqual([undefined, 'Bearer wrong', 'Bearer right']); // prettier-ignore
    expect(bench.said.at(-1)).toEqual({ kind: 'live' });
  });

  it('stands still while paused, also for an answer that was under way', async () => {
    const bench = new Bench();
    const ticking = bench.tick();
    bench.polling.pause();
    await ticking;
    expect(bench.heard).toEqual([]);
    expect(bench.said).toEqual([{ kind: 'paused' }]);
    expect(bench.timer).toBeNull();
    bench.show('visible');
    expect(bench.timer).toBeNull();
    bench.polling.wake();
    await bench.tick();
    expect(bench.heard).toHaveLength(1);
  });
});
