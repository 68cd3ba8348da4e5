/** The guard as a whole, in front of a fake engine. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { readConfiguration } from './config-file.js';
import { request as sendRequest } from 'node:http';
import type { Guard, GuardOptions } from './guard.js';
import { startGuard } from './guard.js';
import type { PageState } from './metrics/page-state.js';
import { listSegments } from './records/record-log.js';
import type { FakeEngine } from '../../test/support/guard/fake-engine.js';
import { startFakeEngine } from '../../test/support/guard/fake-engine.js';
import { readRecords } from '../../test/support/guard/traffic.js';

const root = mkdtempSync(join(tmpdir(), 'guard-'));
afterAll(() => {
  rmSync(root, { recursive: true });
});
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const each of open.splice(0).reverse()) await each.close();
});

interface Pair {
  readonly guard: Guard;
  readonly engine: FakeEngine;
}

const settingsOf = (engine: FakeEngine, settings: object): string =>
  JSON.stringify({
    upstream: engine.url,
    port: 0,
    operator: { port: 0 },
    timeouts: { connect: 0 },
    metrics: { compareEvery: 0 },
    ...settings,
  });

async function start(settings: object = {}, options: GuardOptions = {}): Promise<Pair> {
  const engine = await startFakeEngine();
  open.push(engine);
  // No timeout for the connection: a busy machine may take any time.
  const text = settingsOf(engine, settings);
  const guard = await startGuard(readConfiguration({ file: { name: 'test', text } }), options);
  open.push(guard);
  return { guard, engine };
}

const chat = { model: 'm', messages: [{ role: 'user', content: 'SECRET PROMPT' }] } as const;

async function ask(
  url: string,
  body: object = chat,
  headers: Record<string, string> = {},
): Promise<Response> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer sk-client-key', ...headers },
    body: JSON.stringify(body),
  });
  await response.text();
  return response;
}

const stateOf = async ({ operatorUrl }: Guard, query = ''): Promise<PageState> =>
  (await (await fetch(`${operatorUrl}/mistletoe/api/state${query}`)).json()) as PageState;
const metricsOf = async ({ operatorUrl }: Guard): Promise<string> =>
  (await fetch(`${operatorUrl}/mistletoe/metrics`)).text();

describe('the guard', () => {
  it('lets OpenAI’s own client work, whole and streamed, and sees how drafts fared', async () => {
    const { guard } = await start();
    const client = new OpenAI({ baseURL: `${guard.url}/v1`, apiKey: 'sk-client-key', maxRetries: 0 });
    const whole = await client.chat.completions.create({ ...chat, messages: [...chat.messages] });
    expect(whole.choices[0]?.message.content).toBe('SECRET ANSWER');
    const stream = await client.chat.completions.create({
      ...{ model: 'm', messages: [...chat.messages], stream: true },
      stream_options: { include_usage: true },
    });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toBe('word '.repeat(11));
    expect((await client.models.list()).data).toEqual([]);
    const { requests, counts, kind } = await stateOf(guard);
    expect(kind).toBe('guard');
    expect(counts).toEqual({ requests: 2, running: 0, withoutTelemetry: 0, failed: 0 });
    for (const request of requests) {
      expect(request).toMatchObject({
        ...{ model: 'm', route: '/v1/chat/completions', engine: 'vllm', tenant: 'all', status: 200 },
        ...{ ending: 'complete', upstream: 'speculative', promptTokens: 12, completionTokens: 11 },
        speculation: { evidence: 'reported', steps: 3, accepted: 8, perStepAccepted: [3, 2, 3] },
      });
      expect(request.acceptedLength).toBeCloseTo(1 + 8 / 3);
    }
    expect(requests.map(({ isStream }) => isStream)).toEqual([true, false]);
    expect((await stateOf(guard, `?since=${Date.now() + 1000}`)).requests).toEqual([]);
  });

  it('changes no byte of a request unless it may', async () => {
    const { guard, engine } = await start();
    const body = '{"model":"m", "seed": 12345678901234567890,\n"messages":[], "unknown":1.0}';
    await fetch(`${guard.url}/v1/chat/completions`, { method: 'POST', body, headers: { 'x-own': 'yes' } });
    expect(engine.bodies).toEqual([body]);
    expect(engine.headers[0]).toMatchObject({ 'x-own': 'yes' });
    expect(engine.headers[0]!['accept-encoding']).toBe('identity'); // compressed responses cannot be read
  });

  it('asks for telemetry where it may', async () => {
    const { guard, engine } = await start({ askForTelemetry: true, engine: 'vllm' });
    await ask(guard.url, { ...chat, stream: true });
    expect(JSON.parse(engine.bodies[0]!)).toEqual({
      ...chat,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(engine.headers[0]!['accept-encoding']).toBe('identity');
  });

  it('writes records without prompts, answers and keys', async () => {
    const folder = join(root, 'records');
    const { guard } = await start({ records: { folder }, tenant: { from: 'key' } });
    for (let count = 0; count < 5; count++) await ask(guard.url);
    await ask(guard.url, chat, { authorization: 'Bearer sk-another-key' });
    const shown = [await metricsOf(guard), await stateOf(guard)];
    await open.pop()!.close();
    const tenants: string[] = [];
    for await (const entry of readRecords(folder))
      if (entry.kind === 'request') tenants.push(entry.record.tenant);
    expect([tenants.length, new Set(tenants).size]).toEqual([6, 2]);
    const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'latin1'));
    for (const text of [...files, JSON.stringify(shown)]) {
      for (const secret of ['SECRET', 'sk-client-key', 'sk-another-key']) expect(text).not.toContain(secret);
    }
  });

  it('exports metrics under their names, with bounded labels', async () => {
    const { guard } = await start();
    await ask(guard.url);
    for (let count = 0; count < 150; count++) await ask(guard.url, { ...chat, model: `made-up-${count}` });
    const text = await metricsOf(guard);
    expect(text).toContain(
      'mistletoe_spec_steps_total{engine="vllm",model="m",route="/v1/chat/completions"} 3',
    );
    expect(text).toMatch(/mistletoe_request_accepted_length_bucket\{le="4",.*model="m".*\} 1/);
    expect(text).toContain('mistletoe_requests_running 0');
    const models = new Set([...text.matchAll(/model="([^"]*)"/g)].map(([, model]) => model));
    expect(models.size).toBeLessThanOrEqual(101);
    expect(models).toContain('unlisted');
    expect(text).not.toContain('tenant=');
  });

  it('says why where the engine is gone, and counts it', async () => {
    const { guard, engine } = await start();
    await engine.close();
    const response = await ask(guard.url);
    expect(response.status).toBe(502);
    const { counts, requests } = await stateOf(guard);
    expect(counts).toMatchObject({ requests: 1, failed: 1, running: 0 });
    expect(requests[0]).toMatchObject({
      status: 502,
      ending: 'upstream-failed',
      verdict: { name: 'unreadable' },
    });
  });

  it('goes on where its records cannot be written', async () => {
    const folder = join(root, 'gone');
    const notices: string[] = [];
    const { guard } = await start({ records: { folder } }, { onNotice: (text) => notices.push(text) });
    rmSync(folder, { recursive: true });
    for (let count = 0; count < 3; count++) expect((await ask(guard.url)).status).toBe(200);
    await expect.poll(() => metricsOf(guard), { timeout: 60_000 }).toContain('mistletoe_records_lost 3');
    expect(notices.filter((text) => text.startsWith('Records cannot be written'))).toHaveLength(1);
  });

  it('takes up what it had learnt, and starts without where that is damaged', async () => {
    const folder = join(root, 'learnt');
    const first = await start({ records: { folder } });
    for (let count = 0; count < 3; count++) await ask(first.guard.url);
    await open.pop()!.close();
    const saved = JSON.parse(readFileSync(join(folder, 'judge.json'), 'utf8')) as object;
    expect(saved).toHaveProperty('version');
    writeFileSync(join(folder, 'judge.json'), '{"version":');
    const notices: string[] = [];
    const again = await start({ records: { folder } }, { onNotice: (text) => notices.push(text) });
    expect((await ask(again.guard.url)).status).toBe(200);
    expect(notices[0]).toContain('a new one is learned');
    expect((await listSegments(folder)).length).toBeGreaterThan(0);
  });

  it('tells events under the names of OpenTelemetry', async () => {
    const events: object[] = [];
    const { guard } = await start(
      { log: { requests: true } },
      { onEvent: (name, attributes) => events.push({ name, ...attributes }) },
    );
    await ask(guard.url);
    expect(events).toMatchObject([
      {
        name: 'request-end',
        'gen_ai.operation.name': 'chat',
        'gen_ai.request.model': 'm',
        'gen_ai.usage.output_tokens': 11,
        'mistletoe.speculation.steps': 3,
        'mistletoe.speculation.accepted_length': 1 + 8 / 3,
      },
    ]);
  });
});

/** Benign requests, then collapsed ones of another tenant until the measure applies. */
async function collapse(
  settings: object,
): Promise<Pair & { readonly plain: FakeEngine; readonly sent: number }> {
  const plain = await startFakeEngine();
  open.push(plain);
  const pair = await start({
    tenant: { from: 'header', header: 'x-team' },
    plainUpstream: plain.url,
    ...settings,
  });
  const { guard, engine } = pair;
  engine.accepted = Array.from({ length: 40 }, (_, step) => step % 4);
  for (let count = 0; count < 5; count++) await ask(guard.url, chat, { 'x-team': 'benign' });
  engine.accepted = Array.from({ length: 40 }, () => 0);
  let sent = 0;
  while (sent < 10 && (await stateOf(guard)).alerts.length === 0) {
    await ask(guard.url, chat, { 'x-team': 'attacker' });
    sent++;
  }
  return { ...pair, plain, sent };
}

describe('a tenant whose drafts collapse', () => {
  it('is only observed by default', async () => {
    const { guard, plain, sent } = await collapse({});
    const { alerts, actions, requests } = await stateOf(guard);
    expect(sent).toBeLessThanOrEqual(3);
    expect(alerts.every(({ tenant }) => tenant === 'attacker')).toBe(true);
    expect(requests[0]?.verdict.name).toBe('collapsed');
    expect([actions, plain.bodies]).toEqual([[], []]);
  });

  it('goes to the plain engine, and nobody else does', async () => {
    const { guard, engine, plain, sent } = await collapse({ mitigation: { action: 'plain-upstream' } });
    expect(sent).toBeLessThanOrEqual(3);
    await ask(guard.url, chat, { 'x-team': 'attacker' });
    await fetch(`${guard.url}/invocations`, {
      method: 'POST',
      headers: { 'x-team': 'attacker' },
      body: JSON.stringify({ model: 'other', prompt: 'x' }),
    });
    expect(plain.bodies).toHaveLength(2);
    const before = engine.bodies.length;
    await ask(guard.url, chat, { 'x-team': 'benign' });
    expect([engine.bodies.length, plain.bodies.length]).toEqual([before + 1, 2]);
    expect((await stateOf(guard)).actions).toMatchObject([
      { action: 'plain-upstream', change: 'applied', tenant: 'attacker' },
    ]);
    expect(await metricsOf(guard)).toContain(
      'mistletoe_mitigations_total{action="plain-upstream",change="applied"} 1',
    );
  });

  it('is rate limited, with Retry-After', async () => {
    vi.useFakeTimers({ toFake: ['Date'] }); // the limit must not recover meanwhile
    const { guard } = await collapse({ mitigation: { action: 'rate-limit', requestsPerMinute: 1 } });
    await ask(guard.url, chat, { 'x-team': 'attacker' });
    const limited = await ask(guard.url, chat, { 'x-team': 'attacker' });
    expect(limited.status).toBe(429);
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await ask(guard.url, chat, { 'x-team': 'benign' })).status).toBe(200);
  });

  it('gets shorter drafts on an engine that supports them', async () => {
    const { guard, engine } = await collapse({
      engine: 'llama-cpp',
      mitigation: { action: 'shorter-drafts', draftLength: 2 },
    });
    expect(engine.bodies.some((body) => body.includes('n_max'))).toBe(false);
    await ask(guard.url, chat, { 'x-team': 'attacker' });
    expect(JSON.parse(engine.bodies.at(-1)!)).toEqual({ 'speculative.n_max': 2, ...chat });
  });
});

describe('the operator listener', () => {
  const paths = ['/mistletoe/api/state', '/mistletoe/metrics'];
  const statusFor = (url: string, host: string): Promise<number> =>
    new Promise((resolve) => {
      const sent = sendRequest(url, { headers: { host } }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      sent.end();
    });

  it('is not reachable through the clients’ port, whatever the Host header', async () => {
    const { guard } = await start({ records: { folder: join(root, 'apart') } });
    for (const path of ['/mistletoe', ...paths])
      for (const host of ['llm.example.com', '127.0.0.1', 'localhost'])
        // The engine answers every GET with its list of models.
        await new Promise<void>((resolve) => {
          sendRequest(`${guard.url}${path}`, { headers: { host } }, (response) => {
            response.on('data', (bytes: Buffer) => {
              expect(bytes.toString()).toBe('{"object":"list","data":[]}');
            });
            response.once('end', resolve);
          }).end();
        });
  });

  it('needs the key where there is one, except for health', async () => {
    const operatorKey = 'operator-key-1';
    const { guard } = await start({ records: { folder: join(root, 'keyed') } }, { operatorKey });
    for (const path of paths) {
      for (const wrong of [undefined, 'Bearer operator-key-2', `Basic ${operatorKey}`, operatorKey]) {
        const response = await fetch(guard.operatorUrl + path, {
          headers: wrong === undefined ? {} : { authorization: wrong },
        });
        expect(response.status).toBe(401);
        expect(await response.text()).not.toContain(operatorKey);
      }
      const headers = { authorization: `Bearer ${operatorKey}` };
      expect((await fetch(guard.operatorUrl + path, { headers })).status).toBe(200);
    }
    expect((await fetch(`${guard.operatorUrl}/mistletoe/health`)).status).toBe(200);
  });

  it('answers only to addresses and known names where there is no key', async () => {
    const { guard } = await start({ operator: { port: 0, hosts: ['guard.internal'] } });
    const url = `${guard.operatorUrl}/mistletoe/api/state`;
    expect(await statusFor(url, 'evil.example')).toBe(403);
    for (const host of ['localhost:8100', '127.0.0.1', '[::1]:80', 'GUARD.internal:1'])
      expect(await statusFor(url, host)).toBe(200);
  });

  it('does not start on another address without a key', async () => {
    await expect(start({ operator: { host: '0.0.0.0', port: 0 } })).rejects.toThrow(
      /is not loopback and has no key/,
    );
  });

  it('serves the page, and rejects other paths and methods', async () => {
    const { guard } = await start({}, { page: () => ({ html: 'page', headers: {} }) });
    expect(await (await fetch(`${guard.operatorUrl}/mistletoe?x=1`)).text()).toBe('page');
    const head = await fetch(`${guard.operatorUrl}/mistletoe/`, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '4', '']);
    for (const path of ['/mistletoes', '/mistletoe/nothing', '/Mistletoe', '/v1/models'])
      expect((await fetch(guard.operatorUrl + path)).status).toBe(404);
    for (const path of ['/mistletoe', '/mistletoe/api/state']) {
      const post = await fetch(guard.operatorUrl + path, { method: 'POST', body: '{}' });
      expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    }
  });
});

describe('a reload', () => {
  it('changes where new requests go, keeps what was learned, and drops no stream', async () => {
    const notices: string[] = [];
    const { guard, engine } = await start({}, { onNotice: (text) => notices.push(text) });
    await ask(guard.url);
    const other = await startFakeEngine();
    open.push(other);
    engine.hold();
    const response = await fetch(`${guard.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ ...chat, stream: true }),
    });
    await guard.reload(
      readConfiguration({ file: { name: 'test', text: settingsOf(other, { host: 'localhost' }) } }),
    );
    await ask(guard.url);
    engine.release();
    expect(await response.text()).toMatch(/data: \[DONE\]\n\n$/);
    expect([engine.bodies.length, other.bodies.length]).toEqual([2, 1]);
    expect((await stateOf(guard)).counts).toMatchObject({ requests: 3, running: 0 });
    expect(notices).toEqual(['host changes only with a restart.']);
  });
});
