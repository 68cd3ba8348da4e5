/** `mistletoe worker`: its flags and its help. */
import { maxThreads, maxWorkers } from '../../core/limits.js';
import { decimal, integer, text, textOf } from '../../core/settings.js';
import { readDeviceList } from '../../runs/worker-devices.js';
import { deviceForms } from '../../runtime/device-choice.js';
import { defineCommand } from '../command.js';
import { cacheFolderFlag, deviceFlags, queueFlag } from '../common-flags.js';
import type { FlagsOf } from '../flags.js';
import { flag, group, list } from '../flags.js';

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
    device: {
      ...deviceFlags.device,
      help: `${deviceFlags.device.help}; cuda:0,cuda:1 or cuda:all for several`,
      type: textOf(`${deviceForms}, cuda:all or several separated by commas`, readDeviceList),
    },
    workers: flag('worker processes', integer(1, maxWorkers), 'count', {
      shownDefault: 'one for each device',
    }),
    threads: flag('CPU threads of all processes together', integer(1, maxThreads), 'count', {
      rare: true,
      shownDefault: 'all',
    }),
    ...cacheFolderFlag,
  }),
};
export type WorkerFlags = FlagsOf<typeof flags>;

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
    'Ctrl-C finishes the units that run; a second one ends at once, and other workers take the units over.',
  async run(given, invocation) {
    const { runWorker } = await import('./run-worker.js');
    return runWorker(given, invocation);
  },
});
