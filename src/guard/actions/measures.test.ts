import { describe, expect, it } from 'vitest';
import type { Alert } from '../judge/verdict.js';
import type { ActionName } from '../observation.js';
import { createRecord } from '../../../test/support/guard/traffic.js';
import type { Measure, MeasureOptions } from './measures.js';
import { Measures } from './measures.js';

const alert = (rest: Partial<Alert> = {}): Alert => ({
  ...{ id: 'alert-1', atMs: 0, model: 'm', route: '/', tenant: 't', requestId: 'r', cause: 'collapsed' },
  ...{ count: 3, requests: 3, probability: 0, threshold: 0, text: '' },
  ...rest,
});
const start = (action: Measure['action'], options: MeasureOptions = {}): Measures => {
  const measures = new Measures({ action, probeEvery: 4, maxProbeEvery: 16, ...options });
  expect(measures.apply(alert())).toMatchObject([{ change: 'applied', action, tenant: 't' }]);
  return measures;
};
const probe = (measure: ActionName) => ({
  ...createRecord([3], { id: 'p', tenant: 't' }),
  ...{ measure, isProbe: true },
});
const kindsOf = (measures: Measures, count: number): string[] =>
  Array.from({ length: count }, () => measures.decide('t', 0).kind);

describe('measures', () => {
  it('probe every n-th request, less often after a bad probe, and end after good ones', () => {
    const measures = start('plain-upstream', { probesToLift: 2 });
    expect(kindsOf(measures, 4)).toEqual(['plain-upstream', 'plain-upstream', 'plain-upstream', 'probe']);
    expect(measures.learn(probe('plain-upstream'), 'bad')).toEqual([]);
    expect(kindsOf(measures, 8).indexOf('probe')).toBe(7);
    expect(measures.learn(probe('plain-upstream'), 'good')).toEqual([]);
    expect(measures.learn(probe('plain-upstream'), 'inconclusive')).toEqual([]);
    expect(measures.learn(probe('plain-upstream'), 'good')).toMatchObject([{ change: 'lifted' }]);
    expect(kindsOf(measures, 1)).toEqual(['none']);
    // The next one starts with the longer wait.
    measures.apply(alert());
    expect(kindsOf(measures, 16).indexOf('probe')).toBe(15);
  });

  it('probe after a quiet time', () => {
    const measures = start('plain-upstream', { quietMs: 1000 });
    expect(measures.decide('t', 999).kind).toBe('plain-upstream');
    expect(measures.decide('t', 1000)).toEqual({ kind: 'probe', measure: 'plain-upstream' });
    expect(measures.decide('t', 1001).kind).toBe('plain-upstream');
  });

  it('concern nobody else, other causes lead to none, and one for all concerns all', () => {
    const measures = start('plain-upstream', { forEveryone: 'rate-limit', requestsPerMinute: 1 });
    expect(measures.decide('other', 0).kind).toBe('none');
    expect(measures.apply(alert({ tenant: 'u', cause: 'drift' }))).toEqual([]);
    measures.apply(alert({ tenant: null, cause: 'drafter-down' }));
    expect(measures.decide('other', 0).kind).toBe('probe');
    expect(measures.decide('other', 0)).toMatchObject({ kind: 'refuse', retryAfterMs: 60_000 });
    expect(measures.decide('t', 0).kind).toBe('plain-upstream');
  });

  it('only report without an action, and stay over a restart', () => {
    expect(new Measures().apply(alert())).toEqual([]);
    const measures = start('shorter-drafts', { draftLength: 2 });
    const restored = new Measures({ action: 'shorter-drafts', draftLength: 2 });
    restored.restore(measures.save());
    expect(restored.decide('t', 0)).toEqual({ kind: 'shorter-drafts', draftLength: 2 });
    expect(restored.list()).toEqual([{ tenant: 't', action: 'shorter-drafts' }]);
  });
});
