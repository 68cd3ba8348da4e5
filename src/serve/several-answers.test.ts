/** What a request with several answers says about its drafts: in its body, its stream, its record, the log and the metrics. */
import { describe, expect, it } from 'vitest';
import { observationSchema } from '../guard/observation.js';
import { findSpeculation } from '../guard/engines/engine-list.js';
import type { SpeculationReport } from './speculation-report.js';
import { createScriptedApp } from '../../test/support/serve/scripted-app.js';

/** The first answer accepts 4 and 1 draft tokens, the second 0; both end with a token that no draft brought. */
function createApp() {
  let answers = 0;
  return createScriptedApp({
    app: { metricsLevel: 'detailed' },
    script(_, tell) {
      const accepted = answers++ % 2 === 0 ? [4, 1] : [0];
      for (const count of accepted) tell(' a', count);
      tell(' b');
    },
  });
}

const summary = (accepted: readonly number[], histogram: readonly number[]) => ({
  mean_acceptance_length: 1 + accepted.reduce((sum, count) => sum + count, 0) / accepted.length,
  ...{ acceptance_histogram: histogram, num_spec_steps: accepted.length, num_spec_tokens: 4, is_tree: false },
  num_accepted_draft_tokens: accepted.reduce((sum, count) => sum + count, 0),
  num_draft_tokens: 4 * accepted.length,
  ...{ per_step_accepted: accepted, per_step_drafted: accepted.map(() => 4) },
});
const own = { drafter: 'head', draft: 'chain:4', plain_steps: 0, drafter_failed: false };
const pooled = summary([4, 1, 0], [1, 1, 0, 0, 1]);
const report = {
  engine: 'mistletoe',
  ...{ speculative_decoding: pooled, mistletoe: own },
  choices: [
    { index: 0, speculative_decoding: summary([4, 1], [0, 1, 0, 0, 1]), mistletoe: own },
    { index: 1, speculative_decoding: summary([0], [1, 0, 0, 0, 0]), mistletoe: own },
  ],
};

describe('several answers', () => {
  it('report their drafts pooled, as the guard reads them, and one by one', async () => {
    const { chat } = createApp();
    const body = (await (await chat({ n: 2 })).json()) as { metrics: SpeculationReport };
    expect(body.metrics).toMatchObject(report);
    expect(findSpeculation(body)).toMatchObject({
      engine: 'mistletoe',
      speculation: { steps: 3, accepted: 5, proposed: 12, perStepAccepted: [4, 1, 0] },
      refusal: null,
    });
  });

  it('report them in a stream with the usage', async () => {
    const { chat } = createApp();
    const response = await chat({ n: 2, stream: true, stream_options: { include_usage: true } });
    const events = (await response.text()).trim().split('\n\n');
    expect(JSON.parse(events.at(-2)!.slice('data: '.length))).toMatchObject({ metrics: report });
  });

  it('to several prompts are reported alike', async () => {
    const { post } = createApp();
    const response = await post('/v1/completions', { prompt: ['a', 'b'] });
    expect(((await response.json()) as { metrics: unknown }).metrics).toMatchObject(report);
  });

  it('are recorded, logged and counted', async () => {
    const { chat, records, logged, app } = createApp();
    await chat({ n: 2 });
    const counts = { evidence: 'reported', draftLength: 4, isTree: false };
    const [first, second] = [
      { ...counts, steps: 2, accepted: 5, proposed: 8, perStepAccepted: [4, 1] },
      { ...counts, steps: 1, accepted: 0, proposed: 4, perStepAccepted: [0] },
    ];
    expect(records[0]).toMatchObject({
      speculation: { ...counts, steps: 3, accepted: 5, proposed: 12, perStepAccepted: [4, 1, 0] },
      choiceSpeculation: [first, second],
    });
    expect(observationSchema.parse(JSON.parse(JSON.stringify(records[0])))).toEqual(records[0]);
    expect(JSON.parse(logged[0]!)).toMatchObject({ acceptedLength: 2.67 });
    const metrics = await (await app.request('/metrics')).text();
    expect(metrics).toMatch(/mistletoe_request_accepted_length_count\S* 1\n/);
  });

  it('are not listed where there is one', async () => {
    const { chat, records } = createApp();
    const body = (await (await chat()).json()) as { metrics: object };
    expect(body.metrics).not.toHaveProperty('choices');
    expect(records[0]).not.toHaveProperty('choiceSpeculation');
  });
});
