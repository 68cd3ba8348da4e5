/** What is told of a request that changed drafters: to its client, to the metrics, and to whoever watches. */
import { describe, expect, it } from 'vitest';
import type { SpeculativeGeneration } from '../decode/speculative.js';
import { createServeMetrics, watchRecords } from './serve-metrics.js';
import { reportSpeculation } from './speculation-report.js';
import { createScriptedApp } from '../../test/support/serve/scripted-app.js';
import { createScriptedWorker } from '../../test/support/serve/scripted-worker.js';

const steps = [
  { proposed: 4, accepted: 0, depth: 4, drafter: 0 },
  { proposed: 0, accepted: 0, depth: 0 },
  { proposed: 4, accepted: 1, depth: 4, drafter: 0 },
  { proposed: 4, accepted: 3, depth: 4, drafter: 1 },
];
const switches = [{ from: 'head', to: 'ngram', step: 4, reason: 'evidence' }] as const;
const times = { draftMs: 0, verifyMs: 0 };
const generation = {
  ...{
    promptTokenIds: [1],
    tokenIds: [7, 7, 7],
    origins: [],
    text: 'a',
    finishReason: 'stop',
    acceptance: {},
  },
  ...{ steps: steps.map((step) => ({ ...step, ...times })), drafterFailed: false, prefillMs: 1, decodeMs: 1 },
  guarding: { ladder: ['head', 'ngram'], switches },
} as unknown as SpeculativeGeneration;
const drafting = { drafter: 'head', draft: undefined, isGuarded: true };

describe('a request that changed drafters', () => {
  it('tells which made which steps, and when', () => {
    expect(reportSpeculation([generation], drafting, 'detailed')).toMatchObject({
      speculative_decoding: { num_spec_steps: 3, per_step_accepted: [0, 1, 3] },
      mistletoe: {
        ...{ drafter: 'head', plain_steps: 1, ladder: ['head', 'ngram'], switches, per_step_rung: [0, 0, 1] },
        by_drafter: {
          head: { num_spec_steps: 2, num_accepted_draft_tokens: 1, num_draft_tokens: 8 },
          ngram: { num_spec_steps: 1, num_accepted_draft_tokens: 3, num_draft_tokens: 4 },
        },
      },
    });
    const { mistletoe } = reportSpeculation([generation], drafting, 'summary')!;
    expect(mistletoe).not.toHaveProperty('per_step_rung');
  });

  it('is recorded with the steps of its own drafter, and shown as an action', async () => {
    const app = createScriptedApp({
      host: {
        worker: {
          ...createScriptedWorker().worker,
          generateSeveral: (_, __, options) => {
            options?.onProgress?.({ tokens: [], steps }, 0);
            return Promise.resolve([generation]);
          },
        },
      },
    });
    expect((await app.chat()).status).toBe(200);
    const [record] = app.records;
    expect(record).toMatchObject({ switches, speculation: { steps: 2, perStepAccepted: [0, 1] } });
    expect(app.logged.join('')).toContain('"switches":[{"from":"head","to":"ngram"');
    const metrics = await (await app.app.request('/metrics')).text();
    expect(metrics).toMatch(/mistletoe_drafter_switches_total\{reason="evidence".*\} 1\n/);
    expect(metrics).toMatch(/mistletoe_drafter_accepted_tokens_total\{drafter="ngram".*\} 3\n/);

    const watch = watchRecords('0.0.0', () => undefined);
    watch.onRecord(record!);
    expect(watch.pageState(0, 0)).toMatchObject({
      actions: [
        {
          ...{ action: 'switch-drafter', change: 'applied', requestId: record!.id },
          text: 'Continued with ngram instead of head from step 4: fewer drafts were accepted than in normal requests.',
        },
      ],
    });
  });

  it('counts nothing while nothing happens', () => {
    const text = createServeMetrics('tiny').text({ running: 0, waiting: 0, usedBytes: 0 });
    expect(text).toMatch(/mistletoe_drafter_switches_total\{reason="evidence".*\} 0\n/);
  });
});
