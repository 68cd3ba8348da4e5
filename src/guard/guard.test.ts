/** The guard as a whole, in front of an engine of the test's own. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { createRandom } from '../core/random.js';
import { readConfiguration } from './config-file.js';
import type { Guard, GuardOptions } from './guard.js';
import { startGuard } from './guard.js';
import type { PageState } from './page-state.js';
import { listSegments, readRecords } from './record-segments.js';
import type { FakeEngine } from '../../test/support/guard/fake-engine.js';
import { startFakeEngine } from '../../test/support/guard/fake-engine.js';

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

async function start(settings: object = {}, options: GuardOptions = {}): Promise<Pair> {
  const engine = await startFakeEngine();
  open.push(engine);
  // No timeout for the connection: a busy machine may take any time.
  const text = JSON.stringify({ upstream: engine.url, port: 0, timeouts: { connect: 0 }, ...settings });
  const guard = await startGuard(readConfiguration({ file: { name: 'test', text } }), {
    isIndexedHere: true, // sources have no file for a thread; the built ones are tried from the command line
    ...options,
  });
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

const stateOf = async (url: string, query = ''): Promise<PageState> =>
  (await (await fetch(`${url}/mistletoe/api/state${query}`)).json()) as PageState;

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
    const { requests, counts, kind } = await stateOf(guard.url);
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
    expect((await stateOf(guard.url, `?since=${Date.now() + 1000}`)).requests).toEqual([]);
  });

  it('changes no byte of a request unless it may', async () => {
    const { guard, engine } = await start();
    const body = '{"model":"m", "seed": 12345678901234567890,\n"messages":[], "unknown":1.0}';
    await fetch(`${guard.url}/v1/chat/completions`, { method: 'POST', body, headers: { 'x-own': 'yes' } });
    expect(engine.bodies).toEqual([body]);
    expect(engine.headers[0]).toMatchObject({ 'x-own': 'yes' });
    expect(engine.headers[0]!['accept-encoding']).toContain('gzip');
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

  it('asks how likely a prompt is where it may, and keeps a number of it', async () => {
    const folder = join(root, 'likelihoods');
    const asking = { askForTelemetry: true, askForPromptLogprobs: true, engine: 'vllm' };
    const { guard, engine } = await start({ ...asking, records: { folder } });
    await ask(guard.url);
    await ask(guard.url, { ...chat, stream: true });
    expect(engine.bodies.map((body) => JSON.parse(body) as unknown)).toEqual([
      { ...chat, prompt_logprobs: 0 },
      { ...chat, stream: true, stream_options: { include_usage: true } },
    ]);
    const { requests } = await stateOf(guard.url);
    expect(requests.map(({ promptTail }) => promptTail)).toEqual([undefined, { tokens: 11, surprisal: 2.5 }]);
    await open.pop()!.close();
    const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'latin1'));
    expect(files.join()).toContain('"surprisal":2.5');
    expect(files.join()).not.toContain('SECRET');
  });

  it('writes records without prompts, answers and keys, and finds them again', async () => {
    const folder = join(root, 'records');
    const { guard } = await start({ records: { folder }, tenant: { from: 'key' } });
    for (let count = 0; count < 5; count++) await ask(guard.url);
    await ask(guard.url, chat, { authorization: 'Bearer sk-another-key' });
    const found = await fetch(`${guard.url}/mistletoe/api/records?kind=request&limit=4`);
    const { entries } = (await found.json()) as { entries: { record: { tenant: string } }[] };
    expect(entries).toHaveLength(4);
    expect(new Set(entries.map(({ record }) => record.tenant)).size).toBe(2);
    const shown = [await (await fetch(`${guard.url}/mistletoe/metrics`)).text(), await stateOf(guard.url)];
    await open.pop()!.close();
    const written: unknown[] = [];
    for await (const entry of readRecords(folder)) written.push(entry);
    expect(written).toHaveLength(6);
    const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'latin1'));
    for (const text of [...files, JSON.stringify(shown)]) {
      for (const secret of ['SECRET', 'sk-client-key', 'sk-another-key']) expect(text).not.toContain(secret);
    }
  });

  it('exports metrics under their names, with bounded labels', async () => {
    const { guard } = await start();
    await ask(guard.url);
    for (let count = 0; count < 150; count++) await ask(guard.url, { ...chat, model: `made-up-${count}` });
    const text = await (await fetch(`${guard.url}/mistletoe/metrics`)).text();
    expect(text).toContain(
      'mistletoe_spec_steps_total{engine="vllm",model="m",route="/v1/chat/completions"} 3',
    );
    expect(text).toMatch(/mistletoe_request_accepted_length_bucket\{le="4",.*model="m".*\} 1/);
    expect(text).toContain('mistletoe_requests_running 0');
    const models = new Set([...text.matchAll(/model="([^"]*)"/g)].map(([, model]) => model));
    expect(models.size).toBeLessThanOrEqual(101);
    expect(models).toContain('other');
    expect(text).not.toContain('tenant=');
  });

  it('says why where the engine is gone, and counts it', async () => {
    const { guard, engine } = await start();
    await engine.close();
    const response = await ask(guard.url);
    expect(response.status).toBe(502);
    const { counts, requests } = await stateOf(guard.url);
    expect(counts).toMatchObject({ requests: 1, failed: 1, running: 0 });
    expect(requests[0]).toMatchObject({ status: 502, ending: 'upstream-failed', verdict: 'unknown' });
  });

  it('goes on where its records cannot be written', async () => {
    const folder = join(root, 'gone');
    const notices: string[] = [];
    const { guard } = await start({ records: { folder } }, { onNotice: (text) => notices.push(text) });
    rmSync(folder, { recursive: true });
    for (let count = 0; count < 3; count++) {
      expect((await ask(guard.url)).status).toBe(200);
      await fetch(`${guard.url}/mistletoe/api/records`);
    }
    expect(await (await fetch(`${guard.url}/mistletoe/metrics`)).text()).toContain(
      'mistletoe_records_lost 3',
    );
    expect(notices.filter((text) => text.startsWith('Records cannot be written'))).toHaveLength(1);
  });

  it('takes up what it had learnt, and starts without where that is damaged', async () => {
    const folder = join(root, 'learnt');
    const first = await start({ records: { folder } });
    for (let count = 0; count < 3; count++) await ask(first.guard.url);
    await open.pop()!.close();
    const saved = JSON.parse(readFileSync(join(folder, 'monitor.json'), 'utf8')) as object;
    expect(saved).toHaveProperty('version');
    writeFileSync(join(folder, 'monitor.json'), '{"version":');
    const notices: string[] = [];
    const again = await start({ records: { folder } }, { onNotice: (text) => notices.push(text) });
    expect((await ask(again.guard.url)).status).toBe(200);
    expect(notices[0]).toContain('begins anew');
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

/** Requests of a usual tenant until a baseline is there, then collapsed ones of another until something is done. */
async function collapse(settings: object): Promise<Pair & { readonly plain: FakeEngine; answer: Response }> {
  const plain = await startFakeEngine();
  open.push(plain);
  const pair = await start({
    tenant: { from: 'header', header: 'x-team' },
    plainUpstream: plain.url,
    ...settings,
  });
  const { guard, engine } = pair;
  const random = createRandom(3, 'guard');
  for (let count = 0; count < 400; count++) {
    engine.accepted = Array.from({ length: 40 }, () => Math.floor(random.next() * 4));
    await ask(guard.url, chat, { 'x-team': 'usual' });
    if (count % 50 === 0 && (await stateOf(guard.url)).streams[0]?.baseline != null) break;
  }
  engine.accepted = Array.from({ length: 40 }, () => 0);
  for (let count = 0; count < 60; count++) {
    await ask(guard.url, chat, { 'x-team': 'attacker' });
    if ((await stateOf(guard.url)).actions.length > 0) break;
  }
  const answer = await ask(guard.url, chat, { 'x-team': 'attacker' });
  return { ...pair, plain, answer };
}

describe('a tenant whose drafts collapse', () => {
  const from = 'request';

  it('is only observed unless told otherwise', async () => {
    const { guard, plain, answer } = await collapse({});
    const { alarms, actions } = await stateOf(guard.url);
    expect(alarms.length).toBeGreaterThan(0);
    expect(alarms.every(({ tenant }) => tenant === 'attacker' || tenant === null)).toBe(true);
    expect(actions).toEqual([]);
    expect(plain.bodies).toEqual([]);
    expect(answer.headers.has('x-mistletoe-verdict')).toBe(false);
  });

  it('goes where nothing is drafted, alone', async () => {
    const { guard, engine, plain } = await collapse({ mitigation: { action: 'plain-upstream', from } });
    expect(plain.bodies).toHaveLength(1);
    const before = engine.bodies.length;
    engine.accepted = [3, 1, 2, 0, 3, 2, 1, 3];
    await ask(guard.url, chat, { 'x-team': 'usual' });
    expect([engine.bodies.length, plain.bodies.length]).toEqual([before + 1, 1]);
    const { actions, requests } = await stateOf(guard.url);
    expect(actions).toMatchObject([{ action: 'plain-upstream', change: 'taken', tenant: 'attacker' }]);
    expect(requests.slice(0, 2).map(({ upstream }) => upstream)).toEqual(['speculative', 'plain']);
    expect(await (await fetch(`${guard.url}/mistletoe/metrics`)).text()).toContain(
      'mistletoe_mitigations_total{action="plain-upstream",change="taken"} 1',
    );
  });

  it('is tagged', async () => {
    const { guard, answer } = await collapse({ mitigation: { action: 'tag', from } });
    expect(answer.headers.get('x-mistletoe-verdict')).toBe('low');
    const other = await ask(guard.url, chat, { 'x-team': 'usual' });
    expect(other.headers.has('x-mistletoe-verdict')).toBe(false);
  });

  it('is slowed down, and told so', async () => {
    vi.useFakeTimers({ toFake: ['Date'] }); // a busy machine must not lift the limit
    const { guard, answer } = await collapse({
      mitigation: { action: 'rate-limit', requestsPerMinute: 1, from },
    });
    const limited = answer.status === 429 ? answer : await ask(guard.url, chat, { 'x-team': 'attacker' });
    expect(limited.status).toBe(429);
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await ask(guard.url, chat, { 'x-team': 'usual' })).status).toBe(200);
  });

  it('gets shorter drafts on an engine that can', async () => {
    const { engine } = await collapse({
      engine: 'llama-cpp',
      mitigation: { action: 'shorter-drafts', draftLength: 2, from },
    });
    expect(JSON.parse(engine.bodies.at(-1)!)).toEqual({ 'speculative.n_max': 2, ...chat });
    expect(engine.bodies.slice(0, 50).some((body) => body.includes('n_max'))).toBe(false);
  });
});

describe('the guard’s own pages', () => {
  const paths = ['/mistletoe/api/state', '/mistletoe/metrics', '/mistletoe/api/records'];

  it('need the key where there is one, and health does not', async () => {
    const operatorKey = 'operator-key-1';
    const { guard } = await start({ records: { folder: join(root, 'keyed') } }, { operatorKey });
    for (const path of paths) {
      for (const wrong of [
        undefined,
        'Bearer operator-key-2',
        `Basic ${operatorKey}`,
        'Bearer ',
        operatorKey,
      ]) {
        const headers = wrong === undefined ? {} : { authorization: wrong };
        const response = await fetch(guard.url + path, { headers });
        expect(response.status).toBe(401);
        expect(await response.text()).not.toContain(operatorKey);
      }
      const headers = { authorization: `Bearer ${operatorKey}` };
      expect((await fetch(guard.url + path, { headers })).status).toBe(200);
    }
    expect((await fetch(`${guard.url}/mistletoe/health`)).status).toBe(200);
    expect((await ask(guard.url)).status).toBe(200); // clients have keys of the engine's
  });

  it('answer under addresses and known names alone where there is no key', async () => {
    const { guard } = await start({ operator: { hosts: ['guard.internal'] } });
    const { request } = await import('node:http');
    const statusFor = (host: string): Promise<number> =>
      new Promise((resolve) => {
        const sent = request(`${guard.url}/mistletoe/api/state`, { headers: { host } }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        });
        sent.end();
      });
    expect(await statusFor('evil.example')).toBe(403);
    for (const host of ['localhost:8100', '127.0.0.1', '[::1]:80', 'GUARD.internal:1']) {
      expect(await statusFor(host)).toBe(200);
    }
  });

  it('come from the page’s room, and nothing of them reaches the engine', async () => {
    const { guard, engine } = await start(
      {},
      {
        page: (path) =>
          path === '/mistletoe' ? { status: 200, headers: { 'x-page': '1' }, body: 'page' } : undefined,
      },
    );
    expect(await (await fetch(`${guard.url}/mistletoe?x=1`)).text()).toBe('page');
    expect((await fetch(`${guard.url}/mistletoe/nothing`)).status).toBe(404);
    expect((await fetch(`${guard.url}/mistletoe/api/state`, { method: 'POST', body: '{}' })).status).toBe(
      405,
    );
    expect(engine.bodies).toEqual([]);
  });
});
