/** The guard as a whole: a proxy in front of an engine, the judge of what passes, records, and the operator's listener. */
import { describeCause } from '../core/errors.js';
import type { GuardConfiguration } from './guard-config.js';
import { type JudgeOptions, Judge } from './judge/judge.js';
import type { ActionEvent, Alert, Judgment } from './judge/verdict.js';
import { GuardMetrics } from './metrics/guard-metrics.js';
import { PageMemory } from './metrics/page-state.js';
import {
  actionAttributes,
  alertAttributes,
  type Attributes,
  createOtlpExporter,
  requestAttributes,
} from './metrics/opentelemetry.js';
import type { Observation } from './observation.js';
import { Attribution, UpstreamFacts } from './proxy/upstream-facts.js';
import { createOperatorServer, type Page, readKey, requireKey } from './proxy/operator.js';
import { closeServer, createProxy, listen } from './proxy/proxy.js';
import { type RouterSettings, RequestRouter } from './proxy/request-router.js';
import { createTenantNamer, readSecret } from './proxy/tenant.js';
import { Upstream } from './proxy/upstream.js';
import { RecordLog } from './records/record-log.js';
import { restoreJudge, saveJudge } from './state/judge-state.js';
import { openState } from './state/redis-state.js';

export type GuardEventName = 'request-end' | 'alert' | 'action';

export interface GuardOptions {
  readonly version?: string;
  /** Overrides operator.keyFile. */
  readonly operatorKey?: string | undefined;
  readonly page?: () => Page;
  /** Lines of the event log, with OpenTelemetry's attribute names. */
  readonly onEvent?: (name: GuardEventName, attributes: Attributes, text: string) => void;
  readonly onNotice?: (message: string) => void;
}

export interface Guard {
  /** For clients. */
  readonly url: string;
  /** For page, state and metrics. */
  readonly operatorUrl: string;
  /** Applies new settings to requests that start from now on. Listeners and the records folder stay. */
  reload(configuration: GuardConfiguration): Promise<void>;
  /** Lets running requests end, writes everything, and closes. */
  close(): Promise<void>;
}

const listModelsEveryMs = 60_000;
const saveJudgeEveryMs = 60_000;

/** @example const { url, operatorUrl } = await startGuard(configureGuard({ upstream: 'http://127.0.0.1:8000' })); */
export async function startGuard(initial: GuardConfiguration, options: GuardOptions = {}): Promise<Guard> {
  const { onNotice = () => undefined, version = 'unknown' } = options;
  let configuration = initial;
  const { folder } = configuration.records;
  const key = options.operatorKey ?? readKey(configuration.operator.keyFile);
  requireKey(configuration.operator.host, key);
  let judge = new Judge(judgeOptions(configuration));
  const log =
    folder === undefined ? undefined : await RecordLog.open({ ...configuration.records, folder, onNotice });
  if (folder !== undefined) await restoreJudge(judge, folder, onNotice);
  const secret = readSecret(folder);
  const metrics = new GuardMetrics(configuration.metrics);
  const current = { snapshot: () => judge.snapshot() }; // a reload replaces the judge
  const memory = new PageMemory(current, { kind: 'guard', version, upstream: configuration.upstream });
  const attribution = new Attribution();
  const exportTo = ({ otlp: { endpoint } }: GuardConfiguration) =>
    endpoint === undefined ? undefined : createOtlpExporter({ endpoint, version, onNotice });
  let otlp = exportTo(configuration);

  const report = (alerts: readonly Alert[], actions: readonly ActionEvent[]): void => {
    const emit = (name: GuardEventName, attributes: Attributes, text: string): void => {
      options.onEvent?.(name, attributes, text);
      otlp?.add(name, attributes, text);
    };
    for (const alert of alerts) {
      metrics.alerted(alert);
      log?.add({ kind: 'alert', alert });
      emit('alert', alertAttributes(alert), alert.text);
    }
    for (const action of actions) {
      metrics.acted(action);
      memory.addAction(action);
      log?.add({ kind: 'action', action });
      emit('action', actionAttributes(action), action.text);
    }
  };
  const onJudged = (record: Observation, { verdict, alerts, actions }: Judgment): void => {
    metrics.ended(record, verdict);
    memory.addRequest(record, verdict);
    log?.add({ kind: 'request', record, verdict });
    const isExported = otlp !== undefined && configuration.otlp.requests;
    if (configuration.log.requests || isExported) {
      const attributes = requestAttributes(record, verdict);
      if (configuration.log.requests) options.onEvent?.('request-end', attributes, verdict.reason);
      if (isExported) otlp?.add('request-end', attributes, verdict.reason);
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

  const readMetrics = (): string => {
    const { streams, tenants, measures } = judge.snapshot();
    return metrics.text({
      streams,
      tenants,
      measures: measures.length,
      running: memory.running,
      lostRecords: log?.lost ?? 0,
      isStateConnected: state.isConnected,
    });
  };
  const server = createProxy(router, configuration);
  const operator = createOperatorServer({
    key,
    hosts: configuration.operator.hosts,
    readPage: options.page,
    readState: (sinceMs) => memory.state(sinceMs),
    readMetrics,
  });
  const timers = [setInterval(() => void settings.facts.refresh(), listModelsEveryMs)];
  if (folder !== undefined) timers.push(setInterval(() => void saveJudge(judge, folder), saveJudgeEveryMs));
  const { compareEvery } = configuration.metrics;
  const compare = async (): Promise<void> => {
    const counters = await settings.facts.readCounters();
    metrics.unattributed = counters === undefined ? null : attribution.compare(counters);
  };
  if (compareEvery > 0) timers.push(setInterval(() => void compare(), compareEvery));
  for (const timer of timers) timer.unref();

  const close = async (): Promise<void> => {
    for (const timer of timers) clearInterval(timer);
    await closeServer(server, configuration.timeouts.shutdown);
    await closeServer(operator, 1);
    closeUpstreams(settings);
    await state.close();
    await otlp?.close();
    await log?.close();
    if (folder !== undefined) await saveJudge(judge, folder);
  };
  const reload = async (next: GuardConfiguration): Promise<void> => {
    for (const name of ['host', 'port', 'operator', 'records', 'limits', 'metrics'] as const)
      if (JSON.stringify(configuration[name]) !== JSON.stringify(next[name]))
        onNotice(`${name} changes only with a restart.`);
    const nextJudge = new Judge(judgeOptions(next));
    nextJudge.restore(judge.save());
    const [previousState, previousOtlp] = [state, otlp];
    state = await openState(next.state, nextJudge, callbacks);
    [judge, otlp, configuration] = [nextJudge, exportTo(next), next];
    await previousState.close();
    await previousOtlp?.close();
    const previous = settings;
    settings = createSettings(next, secret);
    await settings.facts.refresh();
    router.reload(settings);
    closeUpstreams(previous);
  };
  try {
    const url = await listen(server, configuration, 'port');
    const operatorUrl = await listen(operator, configuration.operator, 'operator.port');
    return { url, operatorUrl, reload, close };
  } catch (cause) {
    await close();
    throw cause;
  }
}

function closeUpstreams({ speculative, plain }: RouterSettings): void {
  speculative.close();
  plain?.close();
}

const judgeOptions = ({ alert, breakEven, tenant, mitigation }: GuardConfiguration): JudgeOptions => ({
  ...alert,
  breakEven,
  tenantLimit: tenant.limit,
  measures: mitigation,
});

function createSettings(configuration: GuardConfiguration, secret: string): RouterSettings {
  const { upstream: url, plainUpstream, engine, model, timeouts, tenant, askForTelemetry } = configuration;
  const key = readKey(configuration.upstreamKeyFile);
  return {
    speculative: new Upstream(url, timeouts),
    plain: plainUpstream === undefined ? undefined : new Upstream(plainUpstream, timeouts),
    facts: new UpstreamFacts({ url, key, engine, model, metricsUrl: configuration.metrics.url }),
    askForTelemetry,
    nameTenant: createTenantNamer({ ...tenant, secret }),
  };
}
