/**
 * What the guard costs on loopback: requests per second at 16 connections and latency at one connection, direct, through
 * nginx, through a plain Node proxy, and through the guard with records on. The contenders take turns within one run. The
 * engine and every proxy are processes of their own; the client is this process.
 */
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, createServer, request as sendRequest } from 'node:http';
import { type AddressInfo, connect, createServer as createSocketServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { readConfiguration } from '../src/guard/config-file.js';
import { startGuard } from '../src/guard/guard.js';
import { drive, startSocketEngine } from './guard-load.js';
import { median, printNote, printTable } from './stopwatch.js';

const [role] = process.argv.slice(2);
const rounds = 5;
const requests = 6000;
/** No round starts after this time, so that a run takes less than four minutes on a slow machine, too. */
const maxMs = 150_000;

async function startRole(name: string, ...words: string[]): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(fileURLToPath(import.meta.url), [name, ...words]);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  return { child, port };
}

/** Answers with the CPU time used until now, in microseconds, or ends. */
function listen(end: () => void): void {
  process.on('message', (message) => {
    const { user, system } = process.cpuUsage();
    if (message === 'cpu') process.send!({ cpu: user + system });
    else end();
  });
}

async function askCpu(child: ChildProcess | undefined): Promise<number> {
  if (child === undefined) return Number.NaN;
  child.send('cpu');
  const [{ cpu }] = (await once(child, 'message')) as [{ cpu: number }];
  return cpu;
}

async function runGuard(): Promise<void> {
  const [, upstream, folder] = process.argv.slice(2);
  const settings = { upstream, port: 0, operator: { port: 0 }, records: { folder }, tenant: { from: 'key' } };
  const guard = await startGuard(
    readConfiguration({ file: { name: 'bench', text: JSON.stringify(settings) } }),
  );
  listen(() => {
    void guard.close().then(() => process.exit(0));
  });
  process.send!({ port: Number(new URL(guard.url).port) });
}

/** The least that Node can do. */
async function runNode(): Promise<void> {
  const { hostname, port } = new URL(process.argv[3]!);
  const agent = new Agent({ keepAlive: true });
  const server = createServer((request, response) => {
    const { method, url: path, headers } = request;
    const outgoing = sendRequest({ agent, hostname, port, method, path, headers }, (incoming) => {
      response.writeHead(incoming.statusCode ?? 502, incoming.headers);
      incoming.pipe(response);
    });
    request.pipe(outgoing);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  listen(() => process.exit(0));
  process.send!({ port: (server.address() as AddressInfo).port });
}

async function freePort(): Promise<number> {
  const server = createSocketServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Undefined where nginx is not installed. */
async function startNginx(
  folder: string,
  engine: number,
): Promise<{ child: ChildProcess; port: number } | undefined> {
  if (spawnSync('nginx', ['-v']).status !== 0) return undefined;
  const port = await freePort();
  mkdirSync(folder);
  const config = `
    daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
    events { worker_connections 1024; }
    http {
      access_log off; client_body_temp_path ${folder}; proxy_temp_path ${folder};
      fastcgi_temp_path ${folder}; uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
      upstream engine { server 127.0.0.1:${engine}; keepalive 64; }
      server {
        listen 127.0.0.1:${port}; keepalive_requests 1000000;
        location / { proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
      }
    }`;
  writeFileSync(join(folder, 'nginx.conf'), config);
  const child = spawn('nginx', ['-c', join(folder, 'nginx.conf'), '-p', folder, '-e', `${folder}/error.log`]);
  for (let attempt = 0; attempt < 100; attempt++) {
    const socket = connect(port, '127.0.0.1');
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return { child, port };
    await sleep(50);
  }
  throw new Error('nginx did not start.');
}

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'guard-cost-'));
  const engine = await startRole('engine');
  const upstream = `http://127.0.0.1:${engine.port}`;
  const nginx = await startNginx(join(folder, 'nginx'), engine.port);
  const node = await startRole('node', upstream);
  const guard = await startRole('guard', upstream, join(folder, 'records'));
  const contenders = [
    { name: 'direct', port: engine.port, child: undefined },
    ...(nginx === undefined ? [] : [{ name: 'nginx', port: nginx.port, child: undefined }]),
    { name: 'plain Node proxy', ...node },
    { name: 'guard, records on', ...guard },
  ].map((each) => ({ ...each, rates: [] as number[], latencies: [] as number[], cpu: [] as number[] }));
  try {
    for (const { port } of contenders) await drive(port, { connections: 16, requests });
    const begin = performance.now();
    let round = 0;
    for (; round < rounds && performance.now() - begin < maxMs; round++)
      // Every other round runs backwards: the machine's speed drifts.
      for (const { port, child, rates, latencies, cpu } of round % 2 ? contenders.toReversed() : contenders) {
        const before = await askCpu(child);
        rates.push((await drive(port, { connections: 16, requests })).perSecond);
        cpu.push(((await askCpu(child)) - before) / requests);
        latencies.push(median((await drive(port, { connections: 1, requests: requests / 4 })).latencies));
      }
    printNote(
      `Medians of ${round} rounds of ${requests} requests at 16 connections and ${requests / 4} at one.`,
    );
    const [direct] = contenders;
    const plain = contenders.at(-2)!;
    printTable([
      [
        ...['', 'requests/s, 16 connections', 'of the Node proxy', 'CPU per request'],
        ...['median latency, 1 connection', 'added'],
      ],
      ...contenders.map(({ name, rates, latencies, cpu }) => [
        name,
        median(rates).toFixed(0),
        median(rates.map((rate, index) => rate / plain.rates[index]!)).toFixed(2),
        Number.isNaN(cpu[0]) ? '' : `${median(cpu).toFixed(0)} us`,
        `${median(latencies).toFixed(3)} ms`,
        `${median(latencies.map((latency, index) => latency - direct!.latencies[index]!)).toFixed(3)} ms`,
      ]),
    ]);
  } finally {
    guard.child.send('end');
    await once(guard.child, 'exit');
    node.child.send('end');
    engine.child.kill();
    nginx?.child.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (role === 'engine') process.send!({ port: await startSocketEngine() });
else if (role === 'guard') await runGuard();
else if (role === 'node') await runNode();
else await measure();
