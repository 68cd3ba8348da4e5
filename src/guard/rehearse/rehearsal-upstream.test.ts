import { describe, expect, it } from 'vitest';
import type { UpstreamEvent } from './rehearsal-upstream.js';
import { describeSwitch, rehearseUpstream } from './rehearsal-upstream.js';

/** vLLM as far as it matters here; `answersUntilRestart` answers, then some refusals, then it pretends. */
function createEngine(answersUntilRestart: number, refusals: number) {
  const counts = { answers: 0, drafts: 0, accepted: 0, refused: 0 };
  const labels = '{engine="0",model_name="m"}';
  const metrics = (): string =>
    [
      `vllm:spec_decode_num_drafts_total${labels} ${counts.drafts}`,
      `vllm:spec_decode_num_draft_tokens_total${labels} ${4 * counts.drafts}`,
      `vllm:spec_decode_num_accepted_tokens_total${labels} ${counts.accepted}`,
    ].join('\n');
  const fetch = (url: string): Promise<Response> => {
    const isPretending = counts.answers >= answersUntilRestart;
    if (isPretending && counts.refused < refusals) {
      counts.refused += 1;
      Object.assign(counts, { drafts: 0, accepted: 0 });
      return Promise.reject(new Error('connection refused'));
    }
    if (url.endsWith('/metrics')) return Promise.resolve(new Response(`${metrics()}\n`));
    counts.answers += 1;
    counts.drafts += 40;
    counts.accepted += isPretending ? 4 : 60 + 10 * (counts.answers % 3);
    return Promise.resolve(Response.json({ usage: { completion_tokens: isPretending ? 44 : 110 } }));
  };
  return { fetch, counts };
}

const shared = { url: 'http://engine', model: 'm', metricsPath: '/metrics', prompts: ['Hi', 'Ho'] };

async function collect(events: AsyncGenerator<UpstreamEvent, void>): Promise<UpstreamEvent[]> {
  const all: UpstreamEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

describe('a rehearsal on an engine', () => {
  it('learns, sits a restart out, and ends when the guard notices', async () => {
    const { fetch } = createEngine(60, 3);
    const events = await collect(
      rehearseUpstream({ ...shared, usualRequests: 55, fetch, pause: () => Promise.resolve() }),
    );
    const requests = events.filter((event) => event.kind === 'request');
    expect(requests.slice(0, 59).every(({ alerts }) => alerts.length === 0)).toBe(true);
    expect(new Set(requests.slice(0, 59).map(({ verdict }) => verdict.name))).toEqual(new Set(['learning']));
    expect(requests.filter(({ phase }) => phase === 'usual')).toHaveLength(55);
    expect(events.filter(({ kind }) => kind === 'silent')).toHaveLength(3);
    const last = requests.at(-1)!;
    expect(last.phase).toBe('waiting');
    expect(last.meanAcceptedLength).toBeCloseTo(1.1);
    expect(last.alerts[0]?.text).toMatch(/^Drafting does not pay for this tenant/);
    expect(events.at(-1)).toBe(last);
  });

  it('ends when it is aborted', async () => {
    const abort = new AbortController();
    const { fetch, counts } = createEngine(1000, 0);
    const counting = (url: string): Promise<Response> => {
      if (counts.answers === 5) abort.abort();
      return fetch(url);
    };
    const events = await collect(
      rehearseUpstream({ ...shared, fetch: counting, signal: abort.signal, pause: () => Promise.resolve() }),
    );
    expect(events.length).toBeGreaterThan(3);
    expect(events.length).toBeLessThan(8);
  });

  it('knows the switches, and which engine counts the bonus token', () => {
    expect(describeSwitch('vllm', 1.1)).toContain('"synthetic_acceptance_length": 1.1');
    expect(describeSwitch('sglang', 1.1)).toContain('SGLANG_SIMULATE_ACC_LEN=1.1');
    expect(describeSwitch('tensorrt-llm', 1.1)).toContain('FORCE_NUM_ACCEPTED_TOKENS=0.1 ');
    expect(describeSwitch('llama-cpp', 1.1)).toBeUndefined();
  });
});
