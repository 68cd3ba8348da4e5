import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { parseQueueUrl, QueueConnection } from './queue-connection.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Answers every command as a Redis server of one client may; the hash of runs has the entries given. */
async function connect(entries: Readonly<Record<string, string>> = {}) {
  const bulk = (text: string): string => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
  const hash = Object.entries(entries).flat();
  const server = createServer((socket) => {
    socket.setEncoding('latin1').on('data', (text: string) => {
      for (const [, name] of text.matchAll(/\*\d+\r\n\$\d+\r\n(\w+)/g))
        if (/^info$/i.test(name!)) socket.write(bulk('redis_version:7.2.0\r\nloading:0\r\n'));
        else if (/^hgetall$/i.test(name!)) socket.write(`*${hash.length}\r\n${hash.map(bulk).join('')}`);
        else socket.write('+OK\r\n');
    });
    socket.on('error', () => undefined);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => new Promise((resolve) => void server.close(resolve)));
  const notices: string[] = [];
  const { port } = server.address() as AddressInfo;
  const url = parseQueueUrl(`redis://127.0.0.1:${port}`);
  const connection = await QueueConnection.open(url, (message) => void notices.push(message));
  closing.push(() => {
    connection.close();
  });
  return { connection, notices, shown: `redis://127.0.0.1:${port}` };
}

function failureOf(run: () => unknown): unknown {
  try {
    run();
  } catch (cause) {
    return cause;
  }
  return undefined;
}

describe('a fault of a queue', () => {
  it('is one of an entry, of an answer, or of the connection', async () => {
    const { connection, notices, shown } = await connect();
    const corrupt = failureOf(() => JSON.parse('{oops'));
    connection.noteError(corrupt);
    connection.noteError(corrupt); // BullMQ meets it again
    connection.noteError(Object.assign(new Error('OOM command not allowed'), { name: 'ReplyError' }));
    const lost = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    connection.noteError(lost);
    connection.noteError(lost);
    expect(notices).toEqual([
      expect.stringMatching(`^The queue at ${shown} has an entry that cannot be read: .*JSON`),
      `The queue at ${shown} answered with an error: OOM command not allowed.`,
      `The queue at ${shown} cannot be reached: connect ECONNREFUSED. Waiting for it.`,
    ]);
  });

  it('leaves the other runs', async () => {
    const notice = {
      ...{ schema: 'mistletoe.run/1', command: 'audit', version: '1' },
      models: [{ name: 'tiny', sha256: 'ab'.repeat(32) }],
      ...{ device: { kind: 'cpu', dtype: 'float32', name: '' }, threads: 1 },
    };
    const queueOf = (digit: string): string => `mistletoe-${digit.repeat(16)}`;
    const { connection } = await connect({
      [queueOf('0')]: '{oops',
      [queueOf('1')]: JSON.stringify({ ...notice, models: new Array(100_000).fill({}) }),
      [queueOf('2')]: `${' '.repeat(2 ** 20)}${JSON.stringify(notice)}`,
      elsewhere: JSON.stringify(notice),
      [queueOf('3')]: JSON.stringify(notice),
    });
    expect(await connection.listRuns()).toEqual([{ queue: queueOf('3'), notice }]);
  });
});
