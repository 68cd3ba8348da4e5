/** A busy quarter of an hour in front of two models, one of them under attack, for tests and for looking at. */
import type { ActionEvent, Alert, Verdict, VerdictName } from '../../../src/guard/judge/verdict.js';
import type { PageState } from '../../../src/guard/metrics/page-state.js';

type ShownRequest = PageState['requests'][number];
type StreamState = PageState['streams'][number];
import type { Speculation } from '../../../src/guard/observation.js';
import { createRandom } from '../../../src/core/random.js';

export const sampleNowMs = Date.UTC(2026, 10, 16, 10, 30, 20);
const sliceMs = 15_000;

/** What somebody would send who hopes that it becomes markup. */
export const hostileName =
  '<img src=x onerror="window.injected=true">\u202e"\'</td><script>window.injected=true</script>';

export function createSampleState(): PageState {
  const requests = createRequests();
  return {
    version: '0.2.0',
    kind: 'guard',
    upstream: 'http://127.0.0.1:8000',
    nowMs: sampleNowMs,
    startedMs: sampleNowMs - 3_600_000,
    streams: [
      createStream('llama-3.1-70b', '/v1/chat/completions', 2.9, 40),
      createStream('llama-3.1-70b', '/v1/completions', 3.4, Infinity),
      createStream('qwen3-coder', '/v1/chat/completions', 4.1, Infinity),
      { model: 'mixtral', route: '/v1/completions', baseline: null, learned: 7, needed: 99, history: [] },
    ],
    requests,
    alerts: createAlerts(),
    actions: createActions(),
    counts: { requests: 18_204, running: 12, withoutTelemetry: 31, failed: 4 },
  };
}

function createStream(model: string, route: string, middle: number, fallsAt: number): StreamState {
  const random = createRandom(7, `${model}${route}`);
  const history = Array.from({ length: 60 }, (_, index) => {
    const drift = middle + 0.15 * Math.sin(index / 9);
    const value =
      index >= fallsAt
        ? Math.max(1.08, drift - (index - fallsAt) * 0.45)
        : drift + (random.next() - 0.5) * 0.7;
    const isSilent = index >= 20 && index < 23;
    return {
      atMs: sampleNowMs - (60 - index) * sliceMs,
      acceptedLength: isSilent ? null : index === 12 ? drift + 1.6 : value,
      requests: isSilent ? 0 : 20 + Math.floor(random.next() * 20),
      low: index < 4 ? null : drift - 0.6,
      high: index < 4 ? null : drift + 0.75,
    };
  });
  return {
    model,
    route,
    baseline: { middle, low: middle - 0.6, high: middle + 0.75 },
    learned: 4210,
    needed: 99,
    history,
  };
}

export function createRequest(index: number, changes: Partial<ShownRequest> = {}): ShownRequest {
  return {
    id: `chatcmpl-${String(index).padStart(5, '0')}`,
    endedMs: sampleNowMs - index * 1700,
    engine: 'vllm',
    model: 'llama-3.1-70b',
    route: '/v1/chat/completions',
    tenant: 'acme',
    status: 200,
    ending: 'complete',
    upstream: 'speculative',
    isStream: true,
    promptTokens: 412,
    completionTokens: 180,
    firstByteMs: 84,
    totalMs: 3100,
    speculation: null,
    verdict: createVerdict('unreadable'),
    acceptedLength: null,
    ...changes,
  };
}

/** Per-step counts around a mean number of accepted draft tokens. */
export function createSpeculation(seed: number, mean: number, steps: number): Speculation {
  const random = createRandom(seed, 'steps');
  const draftLength = 5;
  const perStepAccepted = Array.from({ length: steps }, () => {
    let accepted = 0;
    while (accepted < draftLength && random.next() < mean / (mean + 1)) accepted += 1;
    return accepted;
  });
  return {
    evidence: 'reported',
    steps,
    accepted: perStepAccepted.reduce((sum, count) => sum + count, 0),
    proposed: steps * draftLength,
    histogram: Array.from(
      { length: draftLength + 1 },
      (_, depth) => perStepAccepted.filter((count) => count === depth).length,
    ),
    perStepAccepted,
    perStepProposed: perStepAccepted.map(() => draftLength),
    draftLength,
    isTree: false,
  };
}

const tenants = ['acme', 'bluebird', 'key-3f9a', 'crawler-7', 'observatory'];

function createRequests(): ShownRequest[] {
  return Array.from({ length: 40 }, (_, index) => {
    const tenant = tenants[index % tenants.length]!;
    const isAttacked = tenant === 'crawler-7';
    if (index % 11 === 4) return createRequest(index, { tenant, engine: 'unknown', completionTokens: null });
    const whole = createSpeculation(
      index,
      isAttacked ? 0.12 : 2 + (index % 3),
      isAttacked ? 160 : 50 + ((index * 13) % 40),
    );
    const isEstimate = index % 7 === 5;
    const speculation: Speculation = isEstimate
      ? { ...whole, evidence: 'estimated', histogram: null, perStepAccepted: null, perStepProposed: null }
      : whole;
    const verdict = createVerdict(isAttacked ? 'collapsed' : index % 13 === 7 ? 'low' : 'normal');
    return createRequest(index, {
      tenant,
      model: index % 3 === 1 ? 'qwen3-coder' : 'llama-3.1-70b',
      completionTokens: whole.steps + whole.accepted,
      speculation,
      verdict,
      upstream: isAttacked && index < 12 ? 'plain' : 'speculative',
      ending: index === 6 ? 'client-left' : 'complete',
      acceptedLength: 1 + whole.accepted / whole.steps,
    });
  });
}

export function createVerdict(name: VerdictName): Verdict {
  const unknown = {
    acceptedLength: null,
    steps: null,
    upperBound: null,
    breakEven: null,
    breakEvenFrom: null,
  };
  return { name, numbers: { ...unknown, rank: null, baseline: null }, reason: `A ${name} request.` };
}

function createAlerts(): Alert[] {
  const place = { model: 'llama-3.1-70b', route: '/v1/chat/completions', threshold: 1e-4 };
  return [
    {
      ...place,
      ...{ id: 'alert-3', atMs: sampleNowMs - 41_000, tenant: 'crawler-7', requestId: 'chatcmpl-00024' },
      ...{ cause: 'collapsed', count: 3, requests: 5, probability: 2e-6 },
      text: 'Drafting did not pay for 3 of the last 5 requests of this tenant (probability without an attack 2e-6).',
    },
    {
      ...place,
      ...{ id: 'alert-2', atMs: sampleNowMs - 95_000, tenant: 'crawler-7', requestId: 'chatcmpl-00013' },
      ...{ cause: 'low', count: 4, requests: 15, probability: 1e-5 },
      text: '4 of the last 15 requests of this tenant are low (probability without an attack 1e-5).',
    },
    {
      ...place,
      ...{ id: 'alert-1', atMs: sampleNowMs - 410_000, tenant: 'bluebird', requestId: 'chatcmpl-00231' },
      ...{ cause: 'drift', count: 20, requests: 20, probability: 3e-5 },
      text: 'The last 20 requests of this tenant are higher than only 21 % of requests on average (probability without an attack 3e-5).',
    },
  ];
}

function createActions(): ActionEvent[] {
  const about = { tenant: 'crawler-7', model: 'llama-3.1-70b', requestId: null, alertId: 'alert-3' };
  return [
    {
      ...about,
      ...{ atMs: sampleNowMs - 12_000, action: 'plain-upstream', change: 'lifted' },
      text: 'plain-upstream is lifted after 3 good probes in a row.',
    },
    {
      ...about,
      ...{ atMs: sampleNowMs - 40_000, action: 'plain-upstream', change: 'applied' },
      text: 'plain-upstream applies to this tenant until 3 probes in a row are good.',
    },
  ];
}
