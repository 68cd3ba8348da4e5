/** A redis-server of the test's own on a loopback port. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';

export const hasRedis = spawnSync('redis-server', ['--version']).status === 0;

export interface TestRedis {
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
}

export interface RedisOptions {
  /** Keeps its data there; by default nowhere. */
  readonly folder?: string | undefined;
  readonly password?: string | undefined;
}

/** @param port a free one by default; give one to restart a server where it was */
export async function startRedis(port?: number, { folder, password }: RedisOptions = {}): Promise<TestRedis> {
  const chosen = port ?? (await findFreePort());
  const server = spawn(
    'redis-server',
    [
      ...['--port', String(chosen), '--bind', '127.0.0.1', '--save', ''],
      ...(folder === undefined
        ? ['--appendonly', 'no']
        : ['--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always']),
      ...(password === undefined ? [] : ['--requirepass', password]),
    ],
    // In the temporary folder of the run, which finds it there if a test is interrupted.
    { cwd: tmpdir(), stdio: ['ignore', 'pipe', 'ignore'] },
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
    url: `redis://${password === undefined ? '' : `:${password}@`}127.0.0.1:${chosen}`,
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
