/** A redis-server of the test's own on a loopback port, without persistence. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';

export const hasRedis = spawnSync('redis-server', ['--version']).status === 0;

export interface TestRedis {
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
}

/** @param port a free one by default; give one to restart a server where it was */
export async function startRedis(port?: number): Promise<TestRedis> {
  const chosen = port ?? (await findFreePort());
  const server = spawn(
    'redis-server',
    [...['--port', String(chosen), '--bind', '127.0.0.1'], ...['--save', '', '--appendonly', 'no']],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  const ended = once(server, 'exit');
  let output = '';
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.stdout.on('data', (text: Buffer) => {
      output += text.toString();
      if (output.includes('Ready to accept connections')) resolve();
    });
    void ended.then(() => {
      reject(new Error(`redis-server ended: ${output}`));
    });
  });
  return {
    url: `redis://127.0.0.1:${chosen}`,
    port: chosen,
    async stop() {
      server.kill('SIGKILL');
      await ended;
    },
  };
}

async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
