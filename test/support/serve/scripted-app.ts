/** The routes in front of a scripted engine, with what they logged. */
import type { Observation } from '../../../src/guard/observation.js';
import { createAccess, defaultLimits, type ServerLimits } from '../../../src/serve/access.js';
import type { AppOptions } from '../../../src/serve/app.js';
import { createApp } from '../../../src/serve/app.js';
import type { HostOptions } from '../../../src/serve/engine-host.js';
import { EngineHost } from '../../../src/serve/engine-host.js';
import { createLog } from '../../../src/serve/serve.js';
import { createServeMetrics } from '../../../src/serve/serve-metrics.js';
import type { Script, ScriptedWorker } from './scripted-worker.js';
import { createScriptedWorker } from './scripted-worker.js';

export interface ScriptedApp extends ScriptedWorker {
  readonly host: EngineHost;
  readonly app: ReturnType<typeof createApp>;
  readonly logged: string[];
  readonly records: Observation[];
  readonly post: (path: string, body: unknown, init?: RequestInit) => Promise<Response>;
  readonly chat: (fields?: object, init?: RequestInit) => Promise<Response>;
}

export interface ScriptedAppOptions {
  readonly script?: Script;
  readonly limits?: Partial<ServerLimits>;
  readonly concurrency?: number;
  readonly drafters?: readonly string[];
  readonly isChat?: boolean;
  readonly app?: Partial<AppOptions>;
  readonly host?: Partial<HostOptions>;
}

export function createScriptedApp(options: ScriptedAppOptions = {}): ScriptedApp {
  const { script, limits, concurrency = 2, drafters = ['head', 'ngram'], isChat } = options;
  const scripted = createScriptedWorker(script, isChat);
  const host = new EngineHost({
    worker: scripted.worker,
    model: { name: 'tiny', contextLength: 2048, drafters, draft: 'chain:4' },
    limits: { ...defaultLimits, ...limits },
    concurrency,
    hiddenPaths: ['/home/operator/tiny'],
    ...options.host,
  });
  const logged: string[] = [];
  const records: Observation[] = [];
  const app = createApp({
    host,
    access: createAccess([]),
    metrics: createServeMetrics('tiny'),
    log: createLog((line) => logged.push(line)),
    version: '0.0.0',
    metricsLevel: 'none',
    logsPrompts: false,
    hostNames: ['localhost'],
    onRecord: (record) => records.push(record),
    ...options.app,
  });
  const post = async (path: string, body: unknown, init: RequestInit = {}): Promise<Response> =>
    app.request(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...init,
    });
  return {
    ...scripted,
    ...{ host, app, logged, records, post },
    chat: (fields = {}, init) =>
      post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], ...fields }, init),
  };
}
