/** The HTTP server in front of an engine in a worker thread. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { isAbsolute, resolve } from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { pino } from 'pino';
import { nameModel } from '../checkpoint/hub/hub-settings.js';
import { MistletoeError } from '../core/errors.js';
import { escapeSteering } from '../core/json-text.js';
import { createOperatorServer, isLoopback, type Page } from '../guard/proxy/operator.js';
import { listen } from '../guard/proxy/proxy.js';
import { bundledTarget, readVersion } from '../core/package-files.js';
import { type EngineLoad, defaultConcurrency } from '../decode/engine.js';
import { type EngineWorkerOptions, createEngineWorker } from '../decode/worker/engine-worker.js';
import { parseDraftPolicy } from '../draft/tree/policy.js';
import type { Observation } from '../guard/observation.js';
import { createAccess, defaultLimits, type NamedKey, type ServerLimits } from './access.js';
import { createApp } from './app.js';
import { EngineHost } from './engine-host.js';
import { createServeMetrics, type watchRecords } from './serve-metrics.js';
import type { MetricsLevel } from './request-schema.js';

export interface ServeOptions extends EngineWorkerOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 8000; 0 takes any that is free. */
  readonly port?: number;
  /** Default draft policy, for example `chain:4`. */
  readonly draft?: string | undefined;
  /** The model's name in the API; default the name of its folder, `mistletoe-reference` for the bundled one. */
  readonly modelName?: string | undefined;
  /** API keys; without any, no key is needed. */
  readonly keys?: readonly NamedKey[];
  /** Serves other machines without keys. */
  readonly allowAnonymous?: boolean;
  readonly limits?: Partial<ServerLimits>;
  /** Default level of draft metrics in answers; default none. */
  readonly metricsLevel?: MetricsLevel;
  /** Called with one line of JSON per request, when it ends. */
  readonly onLog?: (line: string) => void;
  /** Lets the log hold prompts and answers. */
  readonly logPrompts?: boolean;
  /** Called with the guard's record of every finished request. */
  readonly onRecord?: (record: Observation) => void;
  /** The page and its data, which have a listener of their own on 127.0.0.1. */
  readonly page?: () => Page;
  readonly pageState?: ReturnType<typeof watchRecords>['pageState'];
}

export interface RunningServer {
  readonly url: string;
  /** Of the page; undefined without one. */
  readonly operatorUrl: string | undefined;
  readonly modelName: string;
  readonly device: string;
  load(): Promise<EngineLoad>;
  /** Settles when the engine has ended, with the reason unless the server was closed. */
  readonly ended: Promise<Error | undefined>;
  /** Refuses new requests, waits for running ones (10 s by default), then ends the rest with what they have. */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** Of the bundled target, whose folder is called `target`. */
const bundledName = 'mistletoe-reference';
const operatorHost = '127.0.0.1';
/** Of the page, unless another program uses it. */
const operatorPort = 8002;
const defaultGraceMs = 10_000;
/** Time for finished answers to reach their clients. */
const flushMs = 2000;
const requestTimeoutMs = 60_000;

/**
 * @example
 * const server = await startServer({ target: bundledTarget, drafters: { eagle3: 'eagle3' }, port: 0 });
 * await fetch(`${server.url}/v1/models`);
 * await server.close();
 */
export async function startServer(options: ServeOptions): Promise<RunningServer> {
  const { host: hostname = '127.0.0.1', port = 8000, keys = [], draft, modelName, limits, ...rest } = options;
  const { allowAnonymous = false, metricsLevel = 'none', logPrompts = false, ...more } = rest;
  const { onLog, onRecord, page, pageState, ...engine } = more;
  if (draft !== undefined) parseDraftPolicy(draft);
  if (!isLoopback(hostname) && keys.length === 0 && !allowAnonymous) throw openToAll(hostname);

  const worker = await createEngineWorker(engine);
  const model = {
    name: modelName ?? (engine.target === bundledTarget ? bundledName : nameModel(engine.target)),
    contextLength: worker.target.contextLength,
    drafters: Object.keys(engine.drafters ?? {}),
    draft,
  };
  const { concurrency = defaultConcurrency } = engine;
  const engineHost = new EngineHost({
    worker,
    model,
    limits: { ...defaultLimits, ...limits },
    concurrency,
    hiddenPaths: pathsOf(engine),
  });
  const isLocal = isLoopback(hostname) && keys.length === 0;
  const app = createApp({
    host: engineHost,
    access: createAccess(keys),
    metrics: createServeMetrics(model.name),
    log: createLog(onLog),
    version: readVersion(),
    metricsLevel,
    logsPrompts: logPrompts,
    onRecord,
    hostNames: isLocal ? ['localhost', '127.0.0.1', '[::1]', hostname] : undefined,
  });
  const server = createAdaptorServer({
    fetch: app.fetch,
    overrideGlobalObjects: false,
    serverOptions: { requestTimeout: requestTimeoutMs },
  }) as Server;
  const operator =
    page === undefined && pageState === undefined
      ? undefined
      : createOperatorServer({
          readPage: page,
          readState: async (sinceMs) => pageState?.(sinceMs, (await engineHost.load()).running) ?? {},
        });
  let url: string;
  let operatorUrl: string | undefined;
  try {
    url = await listen(server, { host: hostname, port }, '--port (0 takes any free one)');
    if (operator !== undefined) operatorUrl = await listenForPage(operator, port === 0 ? 0 : operatorPort);
  } catch (cause) {
    server.close();
    await worker.close();
    throw cause;
  }
  let closing: Promise<void> | undefined;
  return {
    url,
    operatorUrl,
    modelName: model.name,
    device: worker.device,
    ended: worker.ended,
    load: () => engineHost.load(),
    close: ({ graceMs = defaultGraceMs } = {}) => {
      operator?.close();
      operator?.closeAllConnections();
      return (closing ??= closeServer(server, engineHost, graceMs));
    },
  };
}

/** Nobody chose the port of the page, so a second server takes any free one. */
async function listenForPage(operator: Server, port: number): Promise<string> {
  const listenAt = (at: number) => listen(operator, { host: operatorHost, port: at }, 'address');
  return port === 0 ? listenAt(0) : listenAt(port).catch(() => listenAt(0));
}

export function createLog(onLog: ServeOptions['onLog']) {
  if (onLog === undefined) return pino({ enabled: false });
  const settings = { base: null, timestamp: pino.stdTimeFunctions.isoTime };
  return pino(settings, {
    write(line) {
      onLog(escapeSteering(line));
    },
  });
}

function pathsOf({ target, drafters = {}, chatTemplate }: EngineWorkerOptions): readonly string[] {
  const given = [
    target,
    ...Object.values(drafters),
    ...(typeof chatTemplate === 'string' ? [chatTemplate] : []),
  ];
  return given.filter(isAbsolute).concat(given.map((path) => resolve(path)));
}

async function closeServer(server: Server, host: EngineHost, graceMs: number): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  await host.close(graceMs);
  const timer = setTimeout(() => {
    server.closeAllConnections();
  }, flushMs);
  server.closeIdleConnections();
  await closed;
  clearTimeout(timer);
}

function openToAll(hostname: string): MistletoeError {
  return new MistletoeError(
    'usage',
    `The server would listen on ${hostname} without keys: anyone who reaches this machine could use it.`,
    { hint: 'Give --keys FILE, or --allow-anonymous if that is what you want.' },
  );
}
