/** Decides where each request goes and what is changed. A tenant's measures apply on every watched route. */
import { randomBytes } from 'node:crypto';
import type { EngineAdapter } from '../engines/adapter.js';
import { type JsonObject, asObject, parseJson } from '../engines/claim.js';
import { adapterOf, engines } from '../engines/engine-list.js';
import type { Decision } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import type { RequestHead, Route, Router, Watcher } from './exchange-route.js';
import { setField } from './json-edit.js';
import { type RawHeaders, bad, valueOf } from './message-headers.js';
import { RequestWatch, type WatchOptions } from './request-watch.js';
import { type Strip, askForTelemetry } from './telemetry-request.js';
import type { TenantNamer } from './tenant.js';
import type { UpstreamFacts } from './upstream-facts.js';
import type { Upstream } from './upstream.js';

/** Everything that a reload replaces. */
export interface RouterSettings {
  readonly speculative: Upstream;
  readonly plain: Upstream | undefined;
  readonly facts: UpstreamFacts;
  readonly askForTelemetry: boolean;
  readonly nameTenant: TenantNamer;
}

export interface RouterListeners {
  readonly decide: (tenant: string, atMs: number) => Decision;
  readonly onStart: () => void;
  readonly onUnread: () => void;
  readonly onEnd: (observation: Observation) => void;
  readonly onFault: (cause: unknown) => void;
}

interface RequestBody {
  readonly bytes: Buffer;
  readonly text: string;
  readonly json: JsonObject;
}

const unwatched: Watcher = { onStart: () => undefined, onBytes: () => undefined, onEnd: () => undefined };
const maxNameCharacters = 256;

export class RequestRouter implements Router {
  private readonly idPrefix = randomBytes(4).toString('hex');
  private count = 0;

  constructor(
    private settings: RouterSettings,
    private readonly listeners: RouterListeners,
  ) {}

  /** For requests that start from now on. */
  reload(settings: RouterSettings): void {
    this.settings = settings;
  }

  wantsBody({ method, path }: RequestHead): boolean {
    return matchRoute(method, path).isWatched;
  }

  decide(head: RequestHead, bytes: Buffer | undefined): Route {
    const { speculative, plain, facts, nameTenant } = this.settings;
    const { rawHeaders } = head;
    const { route, isWatched } = matchRoute(head.method, head.path);
    if (!isWatched) return { kind: 'pass', upstream: speculative, watcher: unwatched };
    if (bytes === undefined) this.listeners.onUnread();
    const nowMs = Date.now();
    const tenant = nameTenant(rawHeaders, nowMs);
    if (tenant === undefined) {
      const error = bad('The request has several tenant headers; expected one.');
      return { kind: 'refuse', watcher: unwatched, error };
    }
    const decision = this.listeners.decide(tenant, nowMs);
    const isPlain = decision.kind === 'plain-upstream' && plain !== undefined;
    const upstream = isPlain ? 'plain' : 'speculative';
    let body: RequestBody | undefined;
    const readBody = () => (body ??= bytes && parseBody(rawHeaders, bytes));
    const readModel = (): string => {
      const name = readBody()?.json.model;
      return facts.modelKey(
        typeof name === 'string' && name !== '' ? name.slice(0, maxNameCharacters) : null,
      );
    };
    const measure = measureOf(decision);
    const isProbe = decision.kind === 'probe' || undefined;
    const watcher = this.watch({ route, tenant, upstream, measure, isProbe }, rawHeaders, readModel);
    if (isPlain) return { kind: 'pass', upstream: plain, watcher, isRead: true };
    if (decision.kind !== 'refuse') return this.forward(watcher, decision, readBody);
    const message = 'Too many requests: this tenant is limited while drafting does not pay for its requests.';
    const headers = ['Retry-After', String(Math.ceil(decision.retryAfterMs / 1000))];
    return { kind: 'refuse', watcher, error: { status: 429, message, code: 'rate_limited', headers } };
  }

  private forward(watcher: Watcher, decision: Decision, readBody: () => RequestBody | undefined): Route {
    const { speculative, facts, askForTelemetry: isAsking } = this.settings;
    const pass = { kind: 'pass', upstream: speculative, watcher, isRead: true } as const;
    const isLimited = decision.kind === 'shorter-drafts';
    if (!isLimited && !isAsking) return pass;
    const body = readBody();
    if (body === undefined || !isEditable(body)) {
      if (!isLimited) return pass;
      // Passing it unchanged would be a way around the measure.
      const error = bad('The request body must be JSON in UTF-8 of moderate size.');
      return { kind: 'refuse', watcher, error };
    }
    const engine = adapterOf(facts.engine);
    let { text } = body;
    let strip: Strip | undefined;
    if (isLimited) text = limitDrafts(engine, body, decision.draftLength);
    if (isAsking) ({ text, strip } = askForTelemetry(engine, text, body.json));
    return text === body.text ? pass : { ...pass, body: Buffer.from(text), strip };
  }

  private watch(
    about: Omit<WatchOptions['about'], 'id'>,
    rawHeaders: RawHeaders,
    readModel: () => string,
  ): RequestWatch {
    const { facts } = this.settings;
    const { onStart, onEnd, onFault } = this.listeners;
    onStart();
    const id = `${this.idPrefix}-${(this.count++).toString(36)}`;
    const options = {
      about: { id, ...about },
      engine: facts.engine,
      rawHeaders,
      onFault,
      onEnd(observation: Observation) {
        facts.learn(observation);
        onEnd(observation);
      },
    };
    return new RequestWatch(options, readModel);
  }
}

function measureOf(decision: Decision): Observation['measure'] {
  if (decision.kind === 'none') return undefined;
  if (decision.kind === 'probe') return decision.measure;
  return decision.kind === 'refuse' ? 'rate-limit' : decision.kind;
}

/** Python's parser accepts these, and a byte order mark. */
const beyondJson = /(?<=[:[,]\s*)-?(?:NaN|Infinity)(?=\s*[,}\]])/g;

/** Undefined where the body is compressed or not a JSON object. */
function parseBody(rawHeaders: RawHeaders, bytes: Buffer): RequestBody | undefined {
  if (bytes.length === 0) return undefined;
  const encoding = valueOf(rawHeaders, 'content-encoding');
  if (encoding !== undefined && !/^\s*(?:identity)?\s*$/i.test(encoding)) return undefined;
  const text = bytes.toString();
  const json = asObject(parseJson(text) ?? parseJson(text.replace(beyondJson, '0').replace(/^\ufeff/, '')));
  return json && { bytes, text, json };
}

/** Writing text back as UTF-8 must give the client's bytes. */
function isEditable({ text, bytes }: RequestBody): boolean {
  return !text.includes('\ufffd') && Buffer.byteLength(text) === bytes.length;
}

/** Wins over the client's own field. */
function limitDrafts(
  engine: EngineAdapter | undefined,
  { text, json }: RequestBody,
  draftLength: number,
): string {
  const field = engine?.limitDrafts?.(draftLength);
  if (field === undefined) return text;
  const [name, value] = field;
  const [own, added] = [asObject(json[name]), asObject(value)];
  return setField(text, name, JSON.stringify(added === undefined ? value : { ...own, ...added }));
}

// Which requests are watched. Every POST, PUT and PATCH is, unless its path is exactly one of those known not to generate:
// a path that no list knows must not be a way around a measure.
interface RouteMatch {
  /** A known generation route, in lower case; `other` for the rest. */
  readonly route: string;
  readonly isWatched: boolean;
}

const commonRoutes = ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages'];

/** Longest first, so that a route wins over another that is its ending. */
const routes: readonly string[] = [
  ...new Set([...commonRoutes, ...engines.flatMap((engine) => engine.routes)]),
]
  .filter((route) => route !== '/')
  .sort((one, other) => other.length - one.length);

const harmless: ReadonlySet<string> = new Set([
  ...['/tokenize', '/detokenize', '/v1/tokenize', '/v1/detokenize', '/apply-template', '/chat_tokenize'],
  ...['/v1/embeddings', '/embeddings', '/embedding', '/embed', '/embed_all', '/embed_sparse', '/api/embed'],
  ...['/rerank', '/v1/rerank', '/v2/rerank', '/reranking', '/v1/reranking', '/score', '/v1/score'],
  ...['/pooling', '/classify', '/similarity', '/v1/moderations', '/v1/load_lora_adapter'],
  ...['/v1/unload_lora_adapter', '/lora-adapters'],
  ...['/v1/messages/count_tokens', '/v1/chat/completions/render'],
]);

const watchedMethods: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);
const maxCached = 256;
const cache = new Map<string, RouteMatch>();

/** @param path as in the request line, without the query */
export function matchRoute(method: string, path: string): RouteMatch {
  if (!watchedMethods.has(method)) return { route: 'other', isWatched: false };
  const known = cache.get(path);
  if (known !== undefined) return known;
  // Compared as written: a spelling that only we read as harmless may be a generation for the engine.
  const isWatched = !harmless.has(path);
  const normalized = normalizePath(path);
  const match = { route: routes.find((route) => normalized.endsWith(route)) ?? 'other', isWatched };
  if (cache.size >= maxCached) cache.clear(); // clients can invent paths
  cache.set(path, match);
  return match;
}

/** Decoded once, as servers do, in lower case, without empty and dot segments. */
function normalizePath(path: string): string {
  const segments: string[] = [];
  for (const segment of decode(path).toLowerCase().split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(segment);
  }
  return `/${segments.join('/')}`;
}

function decode(path: string): string {
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path);
  } catch {
    return path.replace(/%[\da-f]{2}/gi, (escape) =>
      String.fromCharCode(Number.parseInt(escape.slice(1), 16)),
    );
  }
}
