/** What `doctor` says of our own server, as that server answers. */
import { expect, it } from 'vitest';
import { examineEngine } from '../src/guard/engines/doctor.js';
import type { MetricsLevel } from '../src/serve/request-schema.js';
import { createScriptedApp } from './support/serve/scripted-app.js';

it.each<[MetricsLevel, string, string | null]>([
  ['none', 'asked', '--per-request-spec-decode-metrics summary'],
  ['summary', 'on', null],
  ['detailed', 'on', null],
])('knows what a server that tells %s tells', async (metricsLevel, state, remedy) => {
  const { app, asked } = createScriptedApp({ app: { metricsLevel } });
  const report = await examineEngine('http://localhost:8000', {
    fetch: async (url, init) => app.request(url, init),
  });
  expect(report).toMatchObject({
    engine: 'mistletoe',
    drafting: { isOn: true, method: 'chain:4', drafter: 'head, ngram' },
    perRequest: { state, remedy },
  });
  expect(asked).toEqual([]); // nothing was generated for it
});
