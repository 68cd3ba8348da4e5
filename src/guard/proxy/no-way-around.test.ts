/** With a measure in force, no spelling of a request reaches the engine that drafts, and each of them is observed. */
import type { IncomingMessage } from 'node:http';
import { request as sendRequest } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { Decision } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import type { Listening } from '../../../test/support/guard/fake-upstream.js';
import { closeAfterEach, listen, readAll, startHttp } from '../../../test/support/guard/fake-upstream.js';
import { testSettings } from '../../../test/support/guard/plain-proxy.js';
import { createProxy } from './proxy.js';
import { RequestRouter } from './request-router.js';
import type { TenantOptions } from './tenant.js';
import { createTenantNamer } from './tenant.js';
import { UpstreamFacts } from './upstream-facts.js';
import { Upstream } from './upstream.js';

const close = closeAfterEach();

interface Setup {
  readonly decision?: Decision;
  readonly tenant?: Partial<TenantOptions>;
  readonly asks?: boolean;
  readonly engine?: string;
}

interface Running extends Listening {
  readonly observations: Observation[];
  /** Bodies that reached the engine that drafts. */
  readonly bodies: string[];
}

/** Only tenant `bad` is under a measure. */
async function start({
  decision = { kind: 'plain-upstream' },
  tenant,
  asks = false,
  engine = 'vllm',
}: Setup): Promise<Running> {
  const observations: Observation[] = [];
  const bodies: string[] = [];
  const answer = (name: string) =>
    startHttp((request, response) => {
      void readAll(request).then((body) => {
        if (request.method !== 'GET' && name === 'drafting') bodies.push(body.toString());
        if (request.url === '/v1/models') response.end('{"data":[{"id":"m","owned_by":"vllm"}]}');
        else respond(name, body.toString(), response);
      });
    });
  const [drafting, plain] = [close(await answer('drafting')), close(await answer('plain'))];
  const timeouts = { connect: 0, firstByte: 0 };
  const facts = new UpstreamFacts({ url: drafting.url, engine });
  await facts.refresh();
  const options = { from: 'header', header: 'x-tenant', secret: 's', limit: 10, ...tenant } as const;
  const router = new RequestRouter(
    {
      speculative: new Upstream(drafting.url, timeouts),
      plain: new Upstream(plain.url, timeouts),
      facts,
      askForTelemetry: asks,
      nameTenant: createTenantNamer(options),
    },
    {
      decide: (name) => (name === 'bad' ? decision : { kind: 'none' }),
      onStart: () => undefined,
      onUnread: () => undefined,
      onEnd: (observation) => observations.push(observation),
      onFault: (cause) => {
        throw cause;
      },
    },
  );
  return { ...close(await listen(createProxy(router, testSettings))), observations, bodies };
}

/** A stream of 41 chunks for 41 tokens, as vLLM sends it: the usage comes only when asked for. */
function respond(
  name: string,
  text: string,
  response: { setHeader(name: string, value: string): unknown; end(text: string): unknown },
): void {
  const body = (/^\{.*"stream":true.*\}$/.test(text) ? JSON.parse(text) : {}) as {
    stream?: boolean;
    stream_options?: { include_usage?: boolean };
  };
  const usage = { prompt_tokens: 5, completion_tokens: 41 };
  if (body.stream !== true) {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ id: name, model: 'm', choices: [{ index: 0, text: 'x' }], usage }));
    return;
  }
  response.setHeader('content-type', 'text/event-stream');
  const chunks: object[] = Array.from({ length: 41 }, () => ({
    choices: [{ index: 0, delta: { content: 'x' } }],
  }));
  if (body.stream_options?.include_usage === true) chunks.push({ choices: [], usage });
  response.end(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
}

interface Sent {
  readonly path?: string;
  readonly method?: string;
  readonly headers?: readonly string[];
  readonly body?: unknown;
}

async function send(
  { port }: Listening,
  {
    path = '/v1/chat/completions',
    method = 'POST',
    headers = ['x-tenant', 'bad'],
    body = { model: 'm', messages: [] },
  }: Sent,
): Promise<{ status: number; text: string }> {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const all = [
    'Host',
    'guard',
    'Content-Type',
    'application/json',
    'Content-Length',
    String(bytes.length),
    ...headers,
  ];
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    sendRequest({ host: '127.0.0.1', port, path, method, headers: all }, resolve)
      .on('error', reject)
      .end(bytes);
  });
  return { status: response.statusCode ?? 0, text: (await readAll(response)).toString() };
}

describe('a measure in force', () => {
  it.each<[string, Sent]>([
    ['/invocations', { path: '/invocations' }],
    ['an escaped path', { path: '/v1/chat/completion%73' }],
    ['empty segments', { path: '//v1//chat/completions' }],
    ['dot segments', { path: '/v1/./chat/completions' }],
    ['a harmless prefix', { path: '/tokenize/../v1/chat/completions' }],
    ['upper case', { path: '/V1/CHAT/completions' }],
    ['a query', { path: '/v1/chat/completions?x=/v1/embeddings' }],
    ['/infill', { path: '/infill' }],
    ['/api/chat', { path: '/api/chat' }],
    ['/generate', { path: '/generate', body: { text: 'x' } }],
    ['/generate with PUT', { path: '/generate', method: 'PUT', body: { text: 'x' } }],
    ['/v1/responses', { path: '/v1/responses', body: { model: 'm', input: 'x' } }],
    ['/v1/messages', { path: '/v1/messages' }],
    ['a path that no list knows', { path: '/a/path/of/tomorrow' }],
    ['n: 2', { body: { model: 'm', messages: [], n: 2 } }],
    ['a batch', { path: '/generate', body: { text: ['x', 'y'] } }],
    [
      'a refused usage',
      { body: { model: 'm', messages: [], stream: true, stream_options: { include_usage: false } } },
    ],
    ['a new model name', { body: { model: 'never-seen', messages: [] } }],
    ['two tenant headers', { headers: ['x-tenant', 'good', 'X-Tenant', 'bad'] }],
    ['joined tenant headers', { headers: ['x-tenant', 'good, bad'] }],
    ['a body that is not JSON', { body: '{"model":' }],
    ['a body with NaN', { body: '{"model":"m","temperature":NaN}' }],
    ['a compressed body', { headers: ['x-tenant', 'bad', 'Content-Encoding', 'gzip'], body: '\u001f\u008b' }],
  ])('applies to %s', async (_, sent) => {
    const guard = await start({});
    const { status } = await send(guard, sent);
    expect(status).toBe(200);
    expect(guard.bodies).toEqual([]);
    expect(guard.observations).toMatchObject([
      { tenant: 'bad', upstream: 'plain', measure: 'plain-upstream' },
    ]);
  });

  it('rejects several tenant headers where the operator says so', async () => {
    const guard = await start({ tenant: { rejectSeveral: true } });
    const { status } = await send(guard, { headers: ['x-tenant', 'bad', 'X-Tenant', 'good'] });
    expect([status, guard.bodies.length]).toEqual([400, 0]);
  });

  it('limits drafts against the client’s own field, and rejects what it cannot change', async () => {
    const guard = await start({ engine: 'llama-cpp', decision: { kind: 'shorter-drafts', draftLength: 1 } });
    await send(guard, {
      body: '{"seed":12345678901234567890,"speculative.n_max":16,"speculative.n_max":16}',
    });
    expect(guard.bodies).toEqual([
      '{"seed":12345678901234567890,"speculative.n_max":1,"speculative.n_max":1}',
    ]);
    expect((await send(guard, { body: 'not JSON' })).status).toBe(400);
    expect(guard.bodies).toHaveLength(1);
  });
});

describe('without a measure', () => {
  it('observes a stream whose client refuses the usage, and gives it what it asked for', async () => {
    const body = { model: 'm', messages: [], stream: true, stream_options: { include_usage: false } };
    const [direct, asking] = [await start({}), await start({ asks: true })];
    const headers = ['x-tenant', 'good'];
    const [expected, given] = [await send(direct, { body, headers }), await send(asking, { body, headers })];
    expect(given).toEqual(expected);
    expect(asking.observations).toMatchObject([
      { completionTokens: 41, speculation: { evidence: 'derived', steps: 40, accepted: 0 } },
    ]);
  });

  it('passes the usage to a client that asks for it', async () => {
    const guard = await start({ asks: true });
    const body = { model: 'm', messages: [], stream: true, stream_options: { include_usage: true } };
    expect((await send(guard, { body, headers: [] })).text).toContain('completion_tokens');
  });

  it('judges models that the engine does not list under one name', async () => {
    const guard = await start({});
    for (const model of ['m', 'a', 'b']) await send(guard, { body: { model }, headers: [] });
    expect(guard.observations.map(({ model }) => model)).toEqual(['m', 'unlisted', 'unlisted']);
  });

  it('records the ids of the client and the engine', async () => {
    const guard = await start({});
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await send(guard, { headers: ['X-Request-Id', 'abc', 'traceparent', traceparent] });
    expect(guard.observations).toMatchObject([
      { clientRequestId: 'abc', traceparent, engineRequestId: 'drafting' },
    ]);
  });
});
