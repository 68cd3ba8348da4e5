import { createServer } from 'node:http';
import { hostname } from 'node:os';
import { openAuditPool, parseAuditUnit, type QueueAuditOptions } from '../../audit/units/queue-audits.js';
import { MistletoeError } from '../../core/errors.js';
import { countText } from '../../core/number-text.js';
import { decimal, integer, text } from '../../core/settings.js';
import { closeServer, listen } from '../../guard/proxy/proxy.js';
import { parseQueueUrl, QueueConnection } from '../../runs/queue/queue-connection.js';
import { serveQueue } from '../../runs/queue/queue-worker.js';
import { findDevices } from '../../runs/run-device.js';
import { chooseDevice } from '../../runtime/device-choice.js';
import { defineCommand, type Invocation } from '../command.js';
import { cacheFolderFlag, devicesFlag, queueFlag, workerFlags } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { flag, type FlagsOf, group, list } from '../flags.js';
import { runInterruptibly } from '../long-runs.js';
import { createNotice } from '../terminal.js';
import { queueOf } from './audit-flags.js';

const flags = {
  ...group('Queue', {
    ...queueFlag,
    name: flag('name of this worker in progress and reports', text, 'text', {
      shownDefault: 'the name of the machine',
    }),
    lease: flag(
      'time after which the units of a worker that is gone are given to others',
      decimal({ min: 1, max: 3600 }),
      'seconds',
      { default: 30, rare: true },
    ),
    idleExit: flag('end once no run has been open for this long', decimal({ min: 0, max: 1e6 }), 'seconds', {
      shownDefault: 'never',
    }),
    metricsPort: flag('Prometheus metrics on this port of 127.0.0.1', integer(0, 65_535), 'number', {
      shownDefault: 'none',
    }),
    metricsHost: flag('address for the metrics', text, 'address', { default: '127.0.0.1', rare: true }),
  }),
  ...group('Models and machine', {
    models: list('folder with models, or of one model', text, 'dir'),
    ...devicesFlag,
    workers: {
      ...workerFlags.workers,
      help: 'worker processes on this machine; one that dies is replaced',
      rare: false,
    },
    ...cacheFolderFlag,
  }),
};
type WorkerFlags = FlagsOf<typeof flags>;

export const worker = defineCommand({
  name: 'worker',
  description:
    'Runs units of audits that `mistletoe audit --queue` submits. Models are found by their content in --models, the Hugging Face cache and the package; a run whose models, version or device this machine does not have is refused.',
  flags,
  examples: [
    ['mistletoe worker --queue redis://queue:6379 --models /models', ''],
    [
      'mistletoe worker --queue rediss://queue:6379 --device cuda:all --workers 16',
      'two processes on each of 8 GPUs',
    ],
    [
      'MISTLETOE_QUEUE=redis://:secret@queue:6379 mistletoe worker',
      'a password that lists of processes do not show',
    ],
  ],
  notes:
    'A run brings its CPU threads per process: results depend on them.\n\nCtrl-C finishes the units that run; a second one ends at once, and other workers take the units over.',
  run: runWorker,
});

async function runWorker(flags: WorkerFlags, { terminal }: Invocation): Promise<number> {
  const url = queueOf(flags, terminal);
  if (url === undefined) {
    throw new MistletoeError('usage', '--queue was not given, so there is nothing to work on.', {
      hint: 'Give --queue redis://HOST:6379, or set MISTLETOE_QUEUE.',
    });
  }
  const onNotice = createNotice(terminal);
  const address = parseQueueUrl(url);
  const devices = await listDevices(flags);
  const audits: QueueAuditOptions = {
    modelFolders: flags.models,
    devices,
    cacheFolder: flags.cacheFolder,
    onNotice,
  };
  const connection = await QueueConnection.open(address, onNotice);
  const units = { completed: 0, failed: 0 };
  const stopMetrics = await serveMetrics(flags, () => renderMetrics(connection, units), onNotice);
  onNotice(`Waits for runs at ${address.shown} with ${countText(devices.length, 'process')}.`);
  try {
    return await runInterruptibly(terminal, async (signal) => {
      await serveQueue(connection, {
        name: flags.name ?? hostname(),
        parse: parseAuditUnit,
        openExecutor: (notice) => openAuditPool(notice, audits),
        leaseMs: 1000 * flags.lease,
        idleExitMs: flags.idleExit === undefined ? undefined : 1000 * flags.idleExit,
        signal,
        onNotice,
        onUnit: (outcome, key) => {
          units[outcome] += 1;
          onNotice(`${outcome} ${key}`);
        },
      });
      return signal.aborted ? exitCodes.interrupted : exitCodes.success;
    });
  } finally {
    await stopMetrics();
    connection.close();
  }
}

/** One for each process. */
async function listDevices({ device, workers }: WorkerFlags): Promise<QueueAuditOptions['devices']> {
  const several = await findDevices(device);
  const count = workers ?? several?.length ?? 1;
  const choice = several === undefined ? await chooseDevice({ device }) : undefined;
  return Array.from({ length: count }, (_, index) => {
    if (choice?.kind === 'cpu') return { kind: 'cpu' };
    const { ordinal, name } = choice ?? several![index % several!.length]!;
    return { kind: 'cuda', ordinal, name };
  });
}

async function serveMetrics(
  { metricsPort, metricsHost }: WorkerFlags,
  render: () => Promise<string>,
  onNotice: (message: string) => void,
): Promise<() => Promise<void>> {
  if (metricsPort === undefined) return () => Promise.resolve();
  const server = createServer((request, response) => {
    const isFound = request.method === 'GET' && request.url === '/metrics';
    void (isFound ? render() : Promise.resolve('Not found; /metrics was expected.\n')).then(
      (body) =>
        response.writeHead(isFound ? 200 : 404, { 'content-type': 'text/plain; version=0.0.4' }).end(body),
      () => response.writeHead(503).end('The queue cannot be reached.\n'),
    );
  });
  const url = await listen(server, { host: metricsHost, port: metricsPort }, '--metrics-port');
  onNotice(`Metrics are at ${url}/metrics.`);
  return () => closeServer(server, 1);
}

// Prometheus metrics of a worker: its units, and the jobs of the runs that are open.
const states = ['waiting', 'active', 'delayed', 'completed', 'failed'] as const;

async function renderMetrics(
  connection: QueueConnection,
  units: Readonly<Record<'completed' | 'failed', number>>,
): Promise<string> {
  const lines = [
    '# HELP mistletoe_worker_units_total Units that this worker ran.',
    '# TYPE mistletoe_worker_units_total counter',
    ...Object.entries(units).map(
      ([outcome, count]) => `mistletoe_worker_units_total{outcome="${outcome}"} ${count}`,
    ),
    '# HELP mistletoe_queue_units Units of open runs in the queue.',
    '# TYPE mistletoe_queue_units gauge',
  ];
  const { bull, client } = connection;
  for (const { queue } of await connection.listRuns()) {
    const handle = new bull.Queue(queue, { connection: client, skipMetasUpdate: true });
    handle.on('error', () => undefined);
    try {
      const counts = await handle.getJobCounts(...states);
      for (const state of states)
        lines.push(`mistletoe_queue_units{run="${queue}",state="${state}"} ${counts[state] ?? 0}`);
    } finally {
      await handle.close();
    }
  }
  return `${lines.join('\n')}\n`;
}
