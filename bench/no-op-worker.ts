/** A worker of a queue whose units do nothing, in a process of its own (fleet-queue.ts). Words: URL and name. */
import type { UnitExecutor } from '../src/runs/unit.js';
import { parseQueueUrl, QueueConnection } from '../src/runs/queue/queue-connection.js';
import { serveQueue } from '../src/runs/queue/queue-worker.js';

const [url = '', name = ''] = process.argv.slice(2);
const executor: UnitExecutor = {
  capacity: 64,
  run({ key }, hooks) {
    hooks.onPart({ key, data: null, steps: [], timing: null }, { name, pid: null });
    return Promise.resolve();
  },
  close: () => Promise.resolve(),
};
const abort = new AbortController();
process.on('message', () => process.send!(process.cpuUsage()));
process.on('disconnect', () => {
  abort.abort();
});
const connection = await QueueConnection.open(parseQueueUrl(url), (message) => {
  console.error(message);
});
process.send!('ready');
await serveQueue(connection, {
  name,
  signal: abort.signal,
  parse: (input) => input,
  openExecutor: () => Promise.resolve(executor),
  onNotice: () => undefined,
});
connection.close();
