/**
 * The guard as a whole: a proxy in front of an engine, the judge of what passes, the measures that follow, records on
 * disk, and a listener for the operator.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describeCause, MistletoeError } from '../core/errors.js';
import type { GuardConfiguration } from './guard-config.js';
import type { JudgeOptions } from './judge/judge.js';
import { Judge } from './judge/judge.js';
import type { ActionEvent, Alert, Judgment } from './judge/verdict.js';
import { createGuardMetrics } from './metrics/guard-metrics.js';
import type { OtlpExporter } from './metrics/otlp.js';
import { createOtlpExporter } from './metrics/otlp.js';
import { PageMemory } from './metrics/page-memory.js';
import type { Attributes } from './metrics/telemetry-names.js';
import { actionAttributes, alertAttributes, requestAttributes } from './metrics/telemetry-names.js';
import type { ActionName, Observation } from './observation.js';
import { Attribution } from './proxy/attribution.js';
import type { PageHandler } from './proxy/operator.js';
import { createOperatorServer, requireKey } from './proxy/operator.js';
import { closeProxy, createProxy } from './proxy/proxy.js';
import type { RouterSettings } from './proxy/request-router.js';
import { RequestRouter } from './proxy/request-router.js';
import { createTenantNamer, readSecret } from './proxy/tenant.js';
import { UpstreamFacts } from './proxy/upstream-facts.js';
import { Upstream } from './proxy/upstream.js';
import type { RecordQuery } from './records/record-index.js';
import { lookUpHere, lookUpInThread } from './records/record-lookup.js';
import { openDisk } from './state/disk.js';
import { openState } from './state/open-state.js';

export type GuardEventName = 'request-end' | 'alert' | 'action';

export interface GuardOptions {
  readonly version?: string;
  /** Overrides operator.keyFile. */
  readonly operatorKey?: string | undefined;
  readonly page?: PageHandler;
  /** Indexes records in this thread; for programs bundled into one file, which have no file to start a thread from. */
  readonly isIndexedHere?: boolean;
  /** Lines of the event log, with OpenTelemetry's attribute names. */
  readonly onEvent?: (name: GuardEventName, attributes: Attributes, text: string) => void;
  readonly onNotice?: (message: string) => void;
}

export interface Guard {
  /** For clients. */
  readonly url: string;
  /** For page, records, state and metrics. */
  readonly operatorUrl: string;
  /** Applies new settings to requests that start from now on. Listeners and the records folder stay. */
  reload(configuration: GuardConfiguration): Promise<void>;
  /** Lets running requests end, writes everything, and closes. */
  close(): Promise<void>;
}

const listModelsEveryMs = 60_000;

/**
 * @example
 * const guard = await startGuard(readConfiguration({ file: { name: 'guard.yaml', text } }));
 * console.log(guard.url, guard.operatorUrl);
 */
export async function startGuard(initial: GuardConfiguration, options: GuardOptions = {}): Promise<Guard> {
  const { onNotice = ignore, version = 'unknown' } = options;
  let configuration = initial;
  const key = options.operatorKey ?? readKey(configuration.operator.keyFile);
  requireKey(configuration.operator.host, key);
  let judge = new Judge(judgeOptions(configuration));
  /** The judge of the current settings; a reload replaces it. */
  const current = {
    snapshot: () => judge.snapshot(),
    save: () => judge.save(),
    restore: (saved: Parameters<Judge['restore']>[0]) => {
      judge.restore(saved);
    },
  };
  const openLookup = options.isIndexedHere === true ? lookUpHere : lookUpInThread;
  const disk = await openDisk(configuration.records, { judge: current, openLookup, onNotice });
  const secret = readSecret(configuration.records.folder);
  const metrics = createGuardMetrics(configuration.metrics);
  const memory = new PageMemory(current, { kind: 'guard', version, upstream: configuration.upstream });
  const attribution = new Attribution();
  let otlp = openOtlp(configuration, version, onNotice);

  const emit = (name: GuardEventName, attributes: Attributes, text: string): void => {
    options.onEvent?.(name, attributes, text);
    otlp?.add(name, attributes, text);
  };
  const report = (alerts: readonly Alert[], actions: readonly ActionEvent[]): void => {
    for (const alert of alerts) {
      metrics.alerted(alert);
      disk?.log.add({ kind: 'alert', alert });
      emit('alert', alertAttributes(alert), alert.text);
    }
    for (const action of actions) {
      metrics.acted(action);
      memory.addAction(action);
      disk?.log.add({ kind: 'action', action });
      emit('action', actionAttributes(action), action.text);
    }
  };
  const onJudged = (record: Observation, { verdict, alerts, actions }: Judgment): void => {
    metrics.ended(record, verdict);
    memory.addRequest(record, verdict);
    disk?.log.add({ kind: 'request', record, verdict });
    const { log, otlp: exported } = configuration;
    if (log.requests || (otlp !== undefined && exported.requests)) {
      const attributes = requestAttributes(record, verdict);
      if (log.requests) options.onEvent?.('request-end', attributes, verdict.reason);
      if (exported.requests) otlp?.add('request-end', attributes, verdict.reason);
    }
    report(alerts, actions);
  };
  const callbacks = { onJudged, onShared: report, onNotice };
  let state = await openState(configuration.state, judge, callbacks);

  let faults = 0;
  let settings = createSettings(configuration, secret);
  const router = new RequestRouter(settings, {
    decide: (tenant, atMs) => state.decide(tenant, atMs),
    onStart: () => {
      memory.running++;
    },
    onUnread: () => {
      metrics.unread();
    },
    onEnd: (observation) => {
      memory.running--;
      attribution.add(observation);
      state.observe(observation);
    },
    onFault: (cause) => {
      if (faults++ === 0)
        onNotice(`A response could not be read and passed unread: ${describeCause(cause)}.`);
    },
  });
  await settings.facts.refresh();

  const { timeouts, limits } = configuration;
  const server = createProxy(router, {
    timeouts: { idleMs: timeouts.idle, clientMs: timeouts.client, requestMs: timeouts.request },
    limits: {
      requestBytes: limits.requestSize,
      readBytes: limits.readSize,
      heldBytes: limits.heldSize,
      headerBytes: limits.headerSize,
    },
  });
  const operator = createOperatorServer({
    access: { key, hosts: configuration.operator.hosts },
    page: options.page,
    endpoints: {
      '/mistletoe/api/state': (parameters) => {
        const since = Number(parameters.get('since') ?? 0);
        return ['application/json', JSON.stringify(memory.state(Number.isFinite(since) ? since : 0))];
      },
      '/mistletoe/metrics': () => {
        const { streams, tenants, measures } = judge.snapshot();
        const text = metrics.text({
          streams,
          tenants,
          measures: measures.length,
          running: memory.running,
          lostRecords: disk?.log.lost ?? 0,
          isStateConnected: state.isConnected,
        });
        return [metrics.contentType, text];
      },
      ...(disk === undefined
        ? undefined
        : {
            '/mistletoe/api/records': async (parameters: URLSearchParams) =>
              ['application/json', JSON.stringify(await disk.find(readQuery(parameters)))] as const,
          }),
    },
  });
  const timers = [
    setInterval(() => void settings.facts.refresh(), listModelsEveryMs),
    ...(configuration.metrics.compareEvery === 0
      ? []
      : [
          setInterval(() => {
            void settings.facts.readCounters().then((counters) => {
              metrics.unattributed(counters === undefined ? null : attribution.compare(counters));
            });
          }, configuration.metrics.compareEvery),
        ]),
  ];
  for (const timer of timers) timer.unref();

  const close = async (): Promise<void> => {
    for (const timer of timers) clearInterval(timer);
    await closeProxy(server, configuration.timeouts.shutdown);
    await closeProxy(operator, 1);
    settings.speculative.close();
    settings.plain?.close();
    await state.close();
    await otlp?.close();
    await disk?.close();
  };
  try {
    return {
      url: await listen(server, configuration, 'port'),
      operatorUrl: await listen(operator, configuration.operator, 'operator.port'),
      async reload(next) {
        for (const name of unchangeable(configuration, next))
          onNotice(`${name} changes only with a restart.`);
        const nextJudge = new Judge(judgeOptions(next));
        nextJudge.restore(judge.save());
        const previous = state;
        state = await openState(next.state, nextJudge, callbacks);
        judge = nextJudge;
        await previous.close();
        const before = otlp;
        otlp = openOtlp(next, version, onNotice);
        await before?.close();
        configuration = next;
        // Running requests keep their connections; idle ones to the old upstream time out.
        settings = createSettings(next, secret);
        await settings.facts.refresh();
        router.reload(settings);
      },
      close,
    };
  } catch (cause) {
    await close();
    throw cause;
  }
}

function judgeOptions({ alert, breakEven, tenant, mitigation }: GuardConfiguration): JudgeOptions {
  const { action, forEveryone, ...rest } = mitigation;
  const toAction = (name: typeof action): ActionName | undefined => (name === 'observe' ? undefined : name);
  return {
    ...alert,
    breakEven,
    tenantLimit: tenant.limit,
    measures: { ...rest, action: toAction(action), forEveryone: toAction(forEveryone) },
  };
}

function createSettings(configuration: GuardConfiguration, secret: string): RouterSettings {
  const { upstream, plainUpstream, engine, model, tenant, upstreamKeyFile, metrics } = configuration;
  const timeouts = {
    connectMs: configuration.timeouts.connect,
    firstByteMs: configuration.timeouts.firstByte,
  };
  return {
    speculative: new Upstream(upstream, timeouts),
    plain: plainUpstream === undefined ? undefined : new Upstream(plainUpstream, timeouts),
    facts: new UpstreamFacts({
      url: upstream,
      key: readKey(upstreamKeyFile),
      engine,
      model,
      metricsUrl: metrics.url,
    }),
    askForTelemetry: configuration.askForTelemetry,
    nameTenant: createTenantNamer({ ...tenant, secret }),
  };
}

function openOtlp(
  { otlp: { endpoint } }: GuardConfiguration,
  version: string,
  onNotice: (message: string) => void,
): OtlpExporter | undefined {
  return endpoint === undefined ? undefined : createOtlpExporter({ endpoint, version, onNotice });
}

function unchangeable(before: GuardConfiguration, after: GuardConfiguration): string[] {
  const names = ['host', 'port', 'operator', 'records', 'limits', 'metrics'] as const;
  return names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}

async function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  setting: string,
): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new MistletoeError(
      'usage',
      `The guard cannot listen on ${host}:${port}: ${describeCause(cause)}.`,
      {
        hint: `Set another ${setting}, or stop the program that uses it.`,
        cause,
      },
    );
  }
  const address = server.address() as AddressInfo;
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}

function readKey(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const key = readFileSync(path, 'utf8').trim();
  if (/^\S{8,}$/.test(key)) return key;
  throw new MistletoeError('usage', `${path} contains no key; expected one word of 8 or more characters.`, {
    hint: 'Create one with: openssl rand -hex 32',
  });
}

/** Values that are not numbers or kinds are left out. */
function readQuery(parameters: URLSearchParams): RecordQuery {
  const number = (name: string): number | undefined => {
    const value = Number(parameters.get(name) ?? Number.NaN);
    return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  };
  const text = (name: string): string | undefined => parameters.get(name) ?? undefined;
  const kind = (['request', 'alert', 'action'] as const).find((each) => each === text('kind'));
  const given = {
    kind,
    fromMs: number('from'),
    toMs: number('to'),
    limit: number('limit'),
    model: text('model'),
    tenant: text('tenant'),
    verdict: text('verdict'),
  };
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) satisfies RecordQuery;
}

function ignore(): void {
  // Without a listener.
}
