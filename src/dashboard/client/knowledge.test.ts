import { describe, expect, it } from 'vitest';
import {
  createRequest,
  createSampleState,
  createSpeculation,
  sampleNowMs,
} from '../../../test/support/dashboard/sample-state.js';
import type { PageState } from '../../guard/metrics/page-state.js';
import { engines } from '../../guard/engines/engine-list.js';
import { everything, listChoices, select } from './filter.js';
import { askSince, mostRequests, remember } from './memory.js';
import { describeConnection, findNotice } from './situation.js';

const state = createSampleState();
const live = { kind: 'live' } as const;

describe('what the page remembers', () => {
  it('asks for the whole first, then for what came since, with some overlap', () => {
    expect(askSince(null)).toBe('');
    expect(askSince(remember(null, state))).toBe(`?since=${sampleNowMs - 5000}`);
  });

  it('joins news to what it knows, once, newest first', () => {
    const before = remember(null, { ...state, requests: [createRequest(3), createRequest(4)] });
    const later = remember(before, { ...state, requests: [createRequest(1), createRequest(3)], alerts: [], actions: state.actions }); // prettier-ignore
    expect(later.requests.map(({ id }) => id)).toEqual([
      'chatcmpl-00001',
      'chatcmpl-00003',
      'chatcmpl-00004',
    ]);
    expect(later.alerts).toHaveLength(3);
    expect(later.actions).toHaveLength(2);
  });

  it('knows which alerts are news; those of the first answer are not', () => {
    const [last, ...earlier] = state.alerts;
    const before = remember(null, { ...state, alerts: earlier });
    expect(before.newAlerts).toEqual([]);
    expect(remember(before, state).newAlerts).toEqual([last]);
    expect(remember(remember(before, state), state).newAlerts).toEqual([]);
  });

  it('forgets the oldest, and everything when the server was started again', () => {
    const many = Array.from({ length: mostRequests + 20 }, (_, index) => createRequest(index));
    const full = remember(null, { ...state, requests: many });
    expect(full.requests).toHaveLength(mostRequests);
    expect(full.requests[0]?.id).toBe('chatcmpl-00000');
    const again = remember(full, {
      ...state,
      startedMs: sampleNowMs,
      requests: [createRequest(1)],
      alerts: [],
    });
    expect(again.requests).toHaveLength(1);
    expect(again.alerts).toEqual([]);
  });
});

describe('the filter', () => {
  const memory = remember(null, state);

  it('shows all, or what fits in every respect', () => {
    expect(select(memory, everything).requests).toEqual(memory.requests);
    const some = select(memory, {
      model: 'llama-3.1-70b',
      tenant: 'crawler-7',
      verdict: 'collapsed',
    }).requests;
    expect(some.length).toBeGreaterThan(2);
    expect(some.length).toBeLessThan(memory.requests.length);
    for (const request of some)
      expect(request).toMatchObject({
        model: 'llama-3.1-70b',
        tenant: 'crawler-7',
        verdict: { name: 'collapsed' },
      });
    expect(select(memory, { ...everything, model: 'qwen3-coder' }).streams).toHaveLength(1);
  });

  it('keeps alerts that concern everybody', () => {
    const everybody = { ...state.alerts[0]!, id: 'all', tenant: null };
    const { alerts } = select(remember(null, { ...state, alerts: [everybody, ...state.alerts] }), { ...everything, tenant: 'bluebird' }); // prettier-ignore
    expect(alerts.map(({ id }) => id).sort()).toEqual(['alert-1', 'all']);
  });

  it('offers what was seen and what is chosen', () => {
    const { model, tenant } = listChoices(memory, { ...everything, tenant: 'gone' });
    expect(model).toEqual(['llama-3.1-70b', 'mixtral', 'qwen3-coder']);
    expect(tenant).toEqual(['acme', 'bluebird', 'crawler-7', 'gone', 'key-3f9a', 'observatory']);
  });
});

describe('what the page says about itself', () => {
  const notice = (changes: Partial<PageState>) => findNotice(remember(null, { ...state, ...changes }), live, 'http://127.0.0.1:9'); // prettier-ignore
  const none = { ...state.counts, requests: 0 };

  it('is nothing while all is well', () => {
    expect(notice({})).toBeNull();
    expect(describeConnection(live)).toBe('live');
  });

  it('is how to begin where nothing has come yet', () => {
    expect(notice({ requests: [], counts: none })).toMatchObject({ title: 'No request yet', command: 'http://127.0.0.1:9/v1' }); // prettier-ignore
    expect(notice({ requests: [], counts: none, kind: 'serve' })?.text).toMatch(/^The server is up/);
  });

  it.each([...engines.map(({ name }) => name), 'unknown'])('is what to do where %s is silent', (engine) => {
    const silent = notice({
      requests: [createRequest(1, { engine }), createRequest(2, { engine, ending: 'refused' })],
    });
    expect(silent).toMatchObject({ tone: 'warning', title: 'The engine says nothing about its drafts' });
    expect(silent?.command).toMatch(/\w/);
    expect(silent?.command).not.toContain('URL');
  });

  it('is not that the engine is silent while one answer of many has none', () => {
    const told = createRequest(2, { speculation: createSpeculation(1, 2, 9) });
    expect(notice({ requests: [createRequest(1), told] })).toBeNull();
    expect(notice({ requests: [createRequest(1, { ending: 'refused', status: 429 })] })).toBeNull();
  });

  it('is since when the server is gone', () => {
    const lost = { kind: 'lost', reason: 'The server does not answer (refused).' } as const;
    expect(findNotice(null, lost, '')?.text).toMatch(/Nothing has been heard/);
    expect(findNotice(remember(null, state), lost, '')).toMatchObject({
      tone: 'trouble',
      title: 'Disconnected',
    });
    expect(findNotice(remember(null, state), lost, '')?.text).toMatch(/Last heard at \d\d:\d\d:\d\d/);
    expect(findNotice(remember(null, state), { kind: 'locked', wasRefused: true }, '')).toBeNull();
  });
});
