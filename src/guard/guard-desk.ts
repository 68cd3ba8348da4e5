/** Where each request goes and what is done about it: the proxy asks, this answers, and nothing here waits. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ActionName, Alarm } from './alarm.js';
import type { RequestHead, Route, Watcher } from './exchange-route.js';
import type { GuardConfiguration } from './guard-config.js';
import { valuesOf } from './message-headers.js';
import type { Decision, Mitigation } from './mitigation.js';
import type { Monitor } from './monitor.js';
import type { PrintKey } from './prompt-print.js';
import type { Desk } from './proxy.js';
import { RecentMap } from './recent-map.js';
import type { RequestFacts } from './request-reader.js';
import { askForTelemetry, readRequest } from './request-reader.js';
import type { EngineName } from './request-record.js';
import type { EndedRequest, Habit } from './request-watch.js';
import { RequestWatch } from './request-watch.js';
import { shortenDrafts } from './shorter-drafts.js';
import type { TenantNamer } from './tenant.js';
import type { Upstream } from './upstream.js';

export interface DeskOptions {
  readonly configuration: GuardConfiguration;
  readonly speculative: Upstream;
  readonly plain: Upstream | undefined;
  readonly monitor: Monitor;
  readonly mitigation: Mitigation;
  readonly nameTenant: TenantNamer;
  readonly printKey: PrintKey;
  readonly answerOwn: (request: IncomingMessage, response: ServerResponse) => boolean;
  readonly onBegin: () => void;
  readonly onUnread: () => void;
  readonly onAlarm: (alarm: Alarm) => void;
  readonly onEnd: (ended: EndedRequest, decision: Decision) => void;
  readonly onFault: (cause: unknown) => void;
  readonly onClose: () => void;
}

const mostHabits = 256;
const mostPaths = 256;
const noBody = new Uint8Array();
const noWatcher: Watcher = { onStart: ignore, onBytes: ignore, onEnd: ignore };
const verdictHeader = ['x-mistletoe-verdict', 'low'];
const encodings: ReadonlySet<string> = new Set(['accept-encoding']);

export class GuardDesk implements Desk {
  private readonly habits = new RecentMap<Habit>(mostHabits);
  /** Whether answers are generated there. */
  private readonly paths = new Map<string, boolean>();
  private readonly idPrefix = randomBytes(4).toString('hex');
  private count = 0;
  /** As the last answer showed it, where the operator does not say. */
  private engine: EngineName | undefined;
  /** Of the last answer, for requests that do not say. */
  private model = 'unknown';

  constructor(private readonly options: DeskOptions) {
    this.engine = options.configuration.engine;
  }

  answerOwn(request: IncomingMessage, response: ServerResponse): boolean {
    return this.options.answerOwn(request, response);
  }

  wantsBody({ method, path }: RequestHead): boolean {
    if (method !== 'POST') return false;
    const known = this.paths.get(path);
    if (known !== undefined) return known;
    const { isGeneration } = readRequest({ path, body: noBody }, this.options.printKey);
    if (this.paths.size >= mostPaths) this.paths.clear(); // clients make paths up
    this.paths.set(path, isGeneration);
    return isGeneration;
  }

  decide(head: RequestHead, body: Buffer | undefined): Route {
    const { speculative, plain, configuration, mitigation } = this.options;
    const facts = this.read(head, body);
    if (!facts.isGeneration || head.method !== 'POST') {
      return { kind: 'pass', upstream: speculative, watcher: noWatcher };
    }
    if (body === undefined) this.options.onUnread();
    const nowMs = Date.now();
    const tenant = this.options.nameTenant(head.rawHeaders, nowMs);
    const decision = mitigation.decide(tenant, facts.model ?? this.model, nowMs);
    const { action, isRefused, retryAfterMs } = decision;
    if (action === 'plain-upstream' && plain !== undefined) {
      return { kind: 'pass', upstream: plain, watcher: this.watch(facts, tenant, 'plain', decision) };
    }
    const watcher = this.watch(facts, tenant, 'speculative', decision);
    if (isRefused) {
      const headers = ['Retry-After', String(Math.ceil(retryAfterMs / 1000))];
      const message = 'Too many requests for now; this limit is lifted when requests are as usual again.';
      return { kind: 'refuse', watcher, error: { status: 429, message, code: 'rate_limited', headers } };
    }
    const changed = body === undefined ? undefined : this.change(body, action);
    return {
      ...{ kind: 'pass', upstream: speculative, watcher },
      ...(action === 'tag' ? { responseHeaders: verdictHeader } : {}),
      ...(changed === undefined ? {} : { body: Buffer.from(changed) }),
      ...(configuration.askForTelemetry
        ? { withoutHeaders: encodings, withHeaders: ['Accept-Encoding', 'identity'] }
        : {}),
    };
  }

  /** Undefined where nothing is to be changed. */
  private change(body: Buffer, action: ActionName): Uint8Array | undefined {
    const { askForTelemetry: mayAsk, askForPromptLogprobs, mitigation } = this.options.configuration;
    const engine = this.engine ?? 'unknown';
    const promptLogprobs = askForPromptLogprobs;
    const asked = mayAsk ? askForTelemetry(engine, body, { promptLogprobs }) : undefined;
    if (action !== 'shorter-drafts') return asked;
    return shortenDrafts(engine, asked ?? body, mitigation.draftLength) ?? asked;
  }

  private read({ path, rawHeaders }: RequestHead, body: Buffer | undefined): RequestFacts {
    const { printKey, configuration } = this.options;
    const contentType = valuesOf(rawHeaders, 'content-type')[0];
    const contentEncoding = valuesOf(rawHeaders, 'content-encoding')[0];
    const facts = readRequest({ path, contentType, contentEncoding, body: body ?? noBody }, printKey);
    return configuration.model === undefined ? facts : { ...facts, model: configuration.model };
  }

  private watch(
    facts: RequestFacts,
    tenant: string,
    upstream: 'speculative' | 'plain',
    decision: Decision,
  ): RequestWatch {
    const { monitor, onAlarm, onFault, onClose, onEnd, configuration } = this.options;
    const id = `${this.idPrefix}-${(this.count++).toString(36)}`;
    this.options.onBegin();
    return new RequestWatch({
      ...{ id, facts, tenant, upstream, monitor, habits: this.habits, onAlarm, onFault, onClose },
      engine: this.engine,
      onEnd: (ended) => {
        const { engine, model, status } = ended.record;
        if (configuration.engine === undefined && engine !== 'unknown') this.engine = engine;
        if (status >= 200 && status < 300) this.model = model;
        onEnd(ended, decision);
      },
    });
  }
}

function ignore(): void {
  // Requests that generate nothing are passed on and not looked at.
}
