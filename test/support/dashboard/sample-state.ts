/** A busy quarter of an hour in front of two models, one of them under attack, for tests and for looking at. */
import type { ActionEvent, Alarm } from '../../../src/guard/alarm.js';
import type { PageState, ShownRequest, StreamState, Verdict } from '../../../src/guard/page-state.js';
import type { Speculation } from '../../../src/guard/request-record.js';
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
      { model: 'mixtral', route: '/v1/completions', baseline: null, learnt: 7, history: [] },
    ],
    requests,
    alarms: createAlarms(),
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
    learnt: 4210,
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
    verdict: 'unknown',
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
    const verdict: Verdict = isAttacked ? 'low' : index % 13 === 7 ? 'high' : 'usual';
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

function createAlarms(): Alarm[] {
  const place = { model: 'llama-3.1-70b', route: '/v1/chat/completions' };
  const expected = { middle: 2.9, low: 2.3, high: 3.65 };
  return [
    {
      ...place,
      id: 'alarm-3',
      atMs: sampleNowMs - 41_000,
      scope: 'tenant',
      cause: 'collapse',
      tenant: 'crawler-7',
      requestId: null,
      seen: 1.11,
      steps: 1240,
      expected,
      eValue: 2.4e6,
      text: 'The last 8 requests of crawler-7 had a mean accepted length of 1.11 where 2.30 to 3.65 is usual; at most one chance in 2.4 million that this is the usual spread.',
    },
    {
      ...place,
      id: 'alarm-2',
      atMs: sampleNowMs - 95_000,
      scope: 'request',
      cause: 'collapse',
      tenant: 'crawler-7',
      requestId: 'chatcmpl-00013',
      seen: 1.09,
      steps: 44,
      expected,
      eValue: 130,
      text: 'Accepted length 1.09 after 44 steps where 2.30 to 3.65 is usual; at most one chance in 130.',
    },
    {
      ...place,
      id: 'alarm-1',
      atMs: sampleNowMs - 410_000,
      scope: 'request',
      cause: 'repetition',
      tenant: 'bluebird',
      requestId: 'chatcmpl-00231',
      seen: 5.8,
      steps: 60,
      expected,
      eValue: 210,
      text: 'Accepted length 5.80 over 60 steps where at most 3.65 is usual: the answer probably repeats itself.',
    },
  ];
}

function createActions(): ActionEvent[] {
  const about = { tenant: 'crawler-7', model: 'llama-3.1-70b', requestId: null, alarmId: 'alarm-3' };
  return [
    {
      ...about,
      atMs: sampleNowMs - 12_000,
      action: 'plain-upstream',
      change: 'probed',
      text: 'One request of crawler-7 went to the speculative upstream to see whether it is over: accepted length 1.10, it is not.',
    },
    {
      ...about,
      atMs: sampleNowMs - 40_000,
      action: 'plain-upstream',
      change: 'taken',
      text: 'Requests of crawler-7 go to the upstream without speculation until probes come back usual.',
    },
  ];
}
