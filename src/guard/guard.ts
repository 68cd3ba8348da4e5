/**
 * The guard as a whole: a proxy in front of an engine, what it reads there, the monitor that judges it, the measures that
 * follow, the records on disk, and pages of its own.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describeCause, MistletoeError } from '../core/errors.js';
import { isLoopback } from '../core/loopback.js';
import type { ActionEvent, Alarm } from './alarm.js';
import type { GuardConfiguration } from './guard-config.js';
import { GuardDesk } from './guard-desk.js';
import { openDisk } from './guard-disk.js';
import { GuardMemory } from './guard-memory.js';
import { createGuardMetrics } from './guard-metrics.js';
import type { Decision } from './mitigation.js';
import { Mitigation } from './mitigation.js';
import { Monitor } from './monitor.js';
import type { PageHandler } from './own-endpoints.js';
import { createOwnEndpoints } from './own-endpoints.js';
import { createPrintKey } from './prompt-print.js';
import { closeProxy, createProxy } from './proxy.js';
import { lookUpHere, lookUpInThread } from './record-lookup.js';
import type { EndedRequest } from './request-watch.js';
import type { Attributes } from './telemetry-names.js';
import { actionAttributes, alarmAttributes, requestAttributes } from './telemetry-names.js';
import { createTenantNamer, readSecret } from './tenant.js';
import { Upstream } from './upstream.js';

export type GuardEventName = 'request-end' | 'alarm' | 'action';

export interface GuardOptions {
  readonly version?: string;
  /** For the guard's own pages; overrides operator.keyFile. */
  readonly operatorKey?: string | undefined;
  readonly page?: PageHandler;
  /**
   * The index of records is kept in this thread rather than in one of its own: for programs that are bundled into a single
   * file, beside which there is none to start a thread from.
   */
  readonly isIndexedHere?: boolean;
  /** Lines of the event log, under the names of OpenTelemetry. */
  readonly onEvent?: (name: GuardEventName, attributes: Attributes, text: string) => void;
  readonly onNotice?: (message: string) => void;
}

export interface Guard {
  /** Where clients connect. */
  readonly url: string;
  /** Lets running requests end, writes what is to be written, and closes. */
  close(): Promise<void>;
}

/**
 * @example
 * const guard = await startGuard(readConfiguration({ file: { name: 'guard.yaml', text } }));
 * console.log(guard.url);
 */
export async function startGuard(
  configuration: GuardConfiguration,
  options: GuardOptions = {},
): Promise<Guard> {
  const { onNotice = ignore, onEvent = ignore } = options;
  const { timeouts, limits, tenant } = configuration;
  const key = options.operatorKey ?? readKey(configuration.operator.keyFile);
  const monitor = new Monitor({ ...configuration.alarm, tenantLimit: tenant.limit });
  const mitigation = new Mitigation({ ...configuration.mitigation, tenantLimit: tenant.limit });
  const openLookup = options.isIndexedHere === true ? lookUpHere : lookUpInThread;
  const disk = await openDisk(configuration.records, { monitor, openLookup, onNotice });
  const secret = readSecret(configuration.records.folder);
  const metrics = createGuardMetrics(configuration.metrics);
  const memory = new GuardMemory(monitor, {
    kind: 'guard',
    version: options.version ?? 'unknown',
    upstream: configuration.upstream,
  });
  const upstreamTimeouts = { connectMs: timeouts.connect, firstByteMs: timeouts.firstByte };
  const speculative = new Upstream(configuration.upstream, upstreamTimeouts);
  const plain =
    configuration.plainUpstream === undefined
      ? undefined
      : new Upstream(configuration.plainUpstream, upstreamTimeouts);

  const onAction = (action: ActionEvent): void => {
    metrics.acted(action);
    memory.addAction(action);
    disk?.log.add({ kind: 'action', action });
    onEvent('action', actionAttributes(action), action.text);
  };
  const onAlarm = (alarm: Alarm): void => {
    metrics.alarmed(alarm);
    disk?.log.add({ kind: 'alarm', alarm });
    onEvent('alarm', alarmAttributes(alarm), alarm.text);
    for (const action of mitigation.hear(alarm)) onAction(action);
  };
  const onEnd = ({ record, verdict, alarms }: EndedRequest, decision: Decision): void => {
    metrics.ended(record);
    memory.addRequest(record, verdict);
    disk?.log.add({ kind: 'request', record, verdict });
    if (configuration.log.requests) onEvent('request-end', requestAttributes(record, verdict), 'request');
    for (const alarm of alarms) onAlarm(alarm);
    for (const action of mitigation.learn(decision, record, verdict, record.endedMs)) onAction(action);
  };
  let faults = 0;
  const onFault = (cause: unknown): void => {
    if (faults++ === 0) onNotice(`An answer could not be read and passed unread: ${describeCause(cause)}.`);
  };

  const answerOwn = createOwnEndpoints({
    access: { key, hosts: configuration.operator.hosts },
    page: options.page,
    state: (sinceMs) => memory.state(sinceMs),
    metrics: {
      contentType: metrics.contentType,
      text: () => {
        const { streams, tenants } = monitor.snapshot();
        return metrics.text({ streams, tenants, running: memory.running, lostRecords: disk?.log.lost ?? 0 });
      },
    },
    find: disk?.find,
  });
  const desk = new GuardDesk({
    ...{ configuration, speculative, plain, monitor, mitigation, answerOwn, onAlarm, onEnd, onFault },
    nameTenant: createTenantNamer({ rule: tenantRule(configuration), secret, limit: tenant.limit }),
    printKey: createPrintKey(secret),
    onUnread: () => {
      metrics.unread();
    },
    onBegin: () => {
      memory.running++;
    },
    onClose: () => {
      memory.running--;
    },
  });
  const server = createProxy(desk, {
    timeouts: { idleMs: timeouts.idle, clientMs: timeouts.client, requestMs: timeouts.request },
    limits: {
      requestBytes: limits.requestSize,
      readBytes: limits.readSize,
      heldBytes: limits.heldSize,
      headerBytes: limits.headerSize,
    },
  });
  const url = await listen(server, configuration).catch(async (cause: unknown) => {
    await disk?.close();
    throw cause;
  });
  if (key === undefined && !isLoopback(configuration.host)) {
    onNotice('No operator’s key is set: /mistletoe/api and /mistletoe/metrics answer on this machine only.');
  }
  return {
    url,
    async close() {
      await closeProxy(server, timeouts.shutdown);
      speculative.close();
      plain?.close();
      await disk?.close();
    },
  };
}

async function listen(server: Server, { host, port }: GuardConfiguration): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new MistletoeError(
      'usage',
      `The guard cannot listen on ${host}:${port}: ${describeCause(cause)}.`,
      {
        hint: 'Choose another --port, or end what uses it.',
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
  throw new MistletoeError('usage', `${path} holds no key; expected one word of eight characters or more.`, {
    hint: 'Make one with: openssl rand -hex 32',
  });
}

function tenantRule({
  tenant: { from, header },
}: GuardConfiguration): Parameters<typeof createTenantNamer>[0]['rule'] {
  return from === 'header' ? { from, header: header! } : { from };
}

function ignore(): void {
  // Nobody listens.
}
