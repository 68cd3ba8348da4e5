/** Decides where each request goes and what is changed. A tenant's measures apply on every watched route. */
import { randomBytes } from 'node:crypto';
import type { EngineAdapter } from '../engines/adapter.js';
import { asObject } from '../engines/claim.js';
import { adapterOf } from '../engines/engine-list.js';
import type { Decision } from '../judge/verdict.js';
import type { ActionName, Observation } from '../observation.js';
import type { PassedRoute, RequestHead, Route, Watcher } from './exchange-route.js';
import { watchedHeaders } from './exchange-route.js';
import { setField } from './json-edit.js';
import type { Router } from './proxy.js';
import type { RequestBody } from './request-facts.js';
import { isEditable, modelOf, parseRequestBody } from './request-facts.js';
import { RequestWatch } from './request-watch.js';
import { matchRoute } from './routes.js';
import type { Strip } from './telemetry-request.js';
import { askForTelemetry } from './telemetry-request.js';
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

const unwatched: Watcher = { onStart: () => undefined, onBytes: () => undefined, onEnd: () => undefined };
const uncompressed = ['Accept-Encoding', 'identity'];

export class RequestRouter implements Router {
  private readonly idPrefix = randomBytes(4).toString('hex');
  private count = 0;

  constructor(
    private settings: RouterSettings,
    private readonly listeners: RouterListeners,
  ) {}

  /** For requests that start from now on; running ones keep theirs. */
  reload(settings: RouterSettings): void {
    this.settings = settings;
  }

  wantsBody({ method, path }: RequestHead): boolean {
    return matchRoute(method, path).isWatched;
  }

  decide(head: RequestHead, body: Buffer | undefined): Route {
    const { speculative, plain, facts, nameTenant } = this.settings;
    const { route, isWatched } = matchRoute(head.method, head.path);
    if (!isWatched) return { kind: 'pass', upstream: speculative, watcher: unwatched };
    if (body === undefined) this.listeners.onUnread();
    const nowMs = Date.now();
    const tenant = nameTenant(head.rawHeaders, nowMs);
    if (tenant === undefined)
      return refuse(unwatched, 400, 'The request has several tenant headers; expected one.', 'bad_request');
    const parsed = parseRequestBody(head.rawHeaders, body);
    const model = facts.modelKey(modelOf(parsed));
    const decision = this.listeners.decide(tenant, nowMs);
    const isPlain = decision.kind === 'plain-upstream' && plain !== undefined;
    const watcher = this.watch(
      head,
      { model, route, tenant, upstream: isPlain ? 'plain' : 'speculative' },
      decision,
    );
    const pass = {
      kind: 'pass',
      watcher,
      withoutHeaders: watchedHeaders,
      withHeaders: uncompressed,
    } as const;
    if (isPlain) return { ...pass, upstream: plain };
    if (decision.kind === 'refuse') {
      const seconds = String(Math.ceil(decision.retryAfterMs / 1000));
      const message =
        'Too many requests: this tenant is limited while drafting does not pay for its requests.';
      return refuse(watcher, 429, message, 'rate_limited', ['Retry-After', seconds]);
    }
    return this.forward({ ...pass, upstream: speculative }, decision, body, parsed);
  }

  private forward(
    pass: PassedRoute,
    decision: Decision,
    body: Buffer | undefined,
    parsed: RequestBody | undefined,
  ): Route {
    const { facts, askForTelemetry: isAsking } = this.settings;
    const engine = adapterOf(facts.engine ?? 'unknown');
    const isLimited = decision.kind === 'shorter-drafts';
    if (body === undefined || parsed === undefined || !isEditable(parsed, body)) {
      if (!isLimited) return pass;
      // Passing it unchanged would be a way around the measure.
      return refuse(
        pass.watcher,
        400,
        'The request body must be JSON in UTF-8 of moderate size.',
        'bad_request',
      );
    }
    let { text } = parsed;
    let strip: Strip | undefined;
    if (isLimited) text = limitDrafts(engine, text, parsed, decision.draftLength);
    if (isAsking) ({ text, strip } = askForTelemetry(engine, text, parsed.json));
    return text === parsed.text ? pass : { ...pass, body: Buffer.from(text), strip };
  }

  private watch(
    { rawHeaders }: RequestHead,
    about: Pick<Observation, 'model' | 'route' | 'tenant' | 'upstream'>,
    decision: Decision,
  ): RequestWatch {
    const { facts } = this.settings;
    const { onStart, onEnd, onFault } = this.listeners;
    onStart();
    return new RequestWatch({
      id: `${this.idPrefix}-${(this.count++).toString(36)}`,
      ...about,
      engine: facts.engine,
      measure: measureOf(decision),
      isProbe: decision.kind === 'probe',
      rawHeaders,
      onFault,
      onEnd(observation) {
        facts.learn(observation);
        onEnd(observation);
      },
    });
  }
}

function measureOf(decision: Decision): ActionName | undefined {
  switch (decision.kind) {
    case 'none':
      return undefined;
    case 'probe':
      return decision.measure;
    case 'refuse':
      return 'rate-limit';
    default:
      return decision.kind;
  }
}

function refuse(
  watcher: Watcher,
  status: number,
  message: string,
  code: string,
  headers: readonly string[] = [],
): Route {
  return { kind: 'refuse', watcher, error: { status, message, code, headers } };
}

/** Wins over the client's own field. */
function limitDrafts(
  engine: EngineAdapter | undefined,
  text: string,
  { json }: RequestBody,
  draftLength: number,
): string {
  const field = engine?.limitDrafts?.(draftLength);
  if (field === undefined) return text;
  const [name, value] = field;
  const own = asObject(json[name]);
  const merged = asObject(value) === undefined || own === undefined ? value : { ...own, ...asObject(value) };
  return setField(text, name, JSON.stringify(merged));
}
