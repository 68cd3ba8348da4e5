/** The routes. Every error has OpenAI's format; stack traces are never sent. */
import { Hono, type Context, type MiddlewareHandler } from 'hono';
import type { Logger } from 'pino';
import type { Observation } from '../guard/observation.js';
import { type Access, checkAgainst, readJsonBody } from './access.js';
import { type AnswerRequest, readChatRequest, readCompletionRequest } from './answer-request.js';
import { ApiError, apiErrorOf } from './api-error.js';
import { respond } from './completions.js';
import type { EngineHost } from './engine-host.js';
import { Exchange } from './exchange.js';
import type { MetricsLevel } from './request-schema.js';
import type { ServeMetrics } from './serve-metrics.js';

export interface AppOptions {
  readonly host: EngineHost;
  readonly access: Access;
  readonly metrics: ServeMetrics;
  readonly log: Logger;
  readonly version: string;
  readonly metricsLevel: MetricsLevel;
  readonly logsPrompts: boolean;
  /**
   * Allowed Host headers, or undefined for any. A local server without keys must refuse web pages whose host name
   * resolves to this machine (DNS rebinding).
   */
  readonly hostNames: readonly string[] | undefined;
  readonly onRecord?: ((record: Observation) => void) | undefined;
}

interface Variables {
  readonly Variables: { exchange: Exchange };
}
type AppContext = Context<Variables>;

const quietRoutes: ReadonlySet<string> = new Set(['/health', '/metrics']);

export function createApp(options: AppOptions): Hono<Variables> {
  const { host, metrics, version } = options;
  const app = new Hono<Variables>();
  const createdSeconds = Math.floor(Date.now() / 1000);

  app.use(trackRequests(options));
  app.use('/v1/*', async function checkKey(context, next) {
    const authorization = context.req.header('authorization') ?? null;
    context.get('exchange').caller = options.access(authorization);
    await next();
  });

  const answer = (read: (body: unknown) => AnswerRequest) => async (context: AppContext) => {
    const exchange = context.get('exchange');
    const request = read(await readJsonBody(context.req.raw, host.limits, host.model.contextLength));
    checkModel(request.model, host.model.name);
    checkAgainst(host.limits, host.model.contextLength, request);
    exchange.request = request;
    exchange.drafter = host.draftingFor(request)?.drafter;
    const { signal } = context.req.raw;
    const { metricsLevel } = options;
    return respond({ host, exchange, request, signal, metricsLevel, fingerprint: `mistletoe-${version}` });
  };
  app.post('/v1/chat/completions', answer(readChatRequest));
  app.post('/v1/completions', answer(readCompletionRequest));

  const model = describeModel(host, options.metricsLevel, createdSeconds);
  app.get('/v1/models', (context) => context.json({ object: 'list', data: [model] }));
  app.get('/v1/models/:name{.+}', (context) => {
    checkModel(context.req.param('name'), host.model.name);
    return context.json(model);
  });
  app.get('/health', (context) => {
    const { state } = host;
    return context.json({ status: state }, state === 'ready' ? 200 : 503);
  });
  app.get('/version', (context) => context.json({ version, engine: 'mistletoe' }));
  app.get('/metrics', async (context) => {
    const text = metrics.text(await host.load());
    return context.body(text, 200, { 'content-type': metrics.contentType });
  });
  const posted = ['/v1/chat/completions', '/v1/completions'];
  const read = ['/v1/models', '/health', '/version', '/metrics'];
  for (const path of posted) app.all(path, () => refuseMethod('POST'));
  for (const path of read) app.all(path, () => refuseMethod('GET, HEAD'));
  app.notFound(() => {
    throw new ApiError('There is no such route here.', { status: 404, code: 'not_found' });
  });
  app.onError((cause, context) => {
    const error = apiErrorOf(cause);
    context.get('exchange').failed(error);
    return Response.json(error.body, { status: error.status, headers: error.headers });
  });
  return app;
}

/** Gives every response an id and the server's version, and logs every request once. */
function trackRequests(options: AppOptions): MiddlewareHandler<Variables> {
  const { log, metrics, version, logsPrompts, onRecord, hostNames, host } = options;
  const context = { log, metrics, model: host.model.name, logsPrompts, onRecord };
  return async function trackRequest(request, next) {
    const exchange = new Exchange(context, request.req.path);
    request.set('exchange', exchange);
    const name = (request.req.header('host') ?? 'localhost').replace(/:\d+$/, '').toLowerCase();
    if (hostNames !== undefined && !hostNames.includes(name))
      throw new ApiError('The host of the request is not this machine.', { status: 403, code: 'wrong_host' });
    await next();
    request.header('x-request-id', exchange.id);
    request.header('x-mistletoe-engine', `mistletoe/${version}`);
    if (host.state !== 'ready') request.header('connection', 'close');
    if (exchange.request === undefined && !quietRoutes.has(request.req.path))
      exchange.plain(request.res.status);
  };
}

function checkModel(asked: string | undefined, served: string): void {
  if (asked === undefined || asked === served) return;
  throw new ApiError(`The model is unknown; this server has ${served}.`, {
    status: 404,
    code: 'model_not_found',
    param: 'model',
  });
}

function describeModel({ model }: EngineHost, metrics: MetricsLevel, created: number) {
  const { name, contextLength, drafters, draft } = model;
  return {
    id: name,
    object: 'model',
    created,
    owned_by: 'mistletoe',
    root: name,
    max_model_len: contextLength,
    // Clients learn the defaults without generating anything.
    mistletoe: { drafters, draft: draft ?? null, metrics },
  };
}

function refuseMethod(allow: string): Response {
  throw new ApiError(`The route supports ${allow} only.`, {
    status: 405,
    code: 'method_not_allowed',
    headers: { allow },
  });
}
