/** The guard as a command: what it refuses, how it ends, and what a kill leaves behind. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import { readRecords } from '../support/guard/traffic.js';
import type { FakeEngine } from '../support/guard/fake-engine.js';
import { startFakeEngine } from '../support/guard/fake-engine.js';
import { createSignal, startHttp } from '../support/guard/fake-upstream.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import type { Outcome } from '../support/run-command.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const folder = mkdtempSync(join(tmpdir(), 'cli-guard-'));
const { main } = transpileForTests('cli-guard');
/** A busy machine may take any time to connect. */
const patient = join(folder, 'patient.yaml');
writeFileSync(patient, 'upstream: http://127.0.0.1:9\noperator: { port: 0 }\ntimeouts: { connect: 0 }\n');
const engines: FakeEngine[] = [];
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close();
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

async function guard(argv: readonly string[], options: FakeTerminalOptions = {}): Promise<Outcome> {
  const terminal = createFakeTerminal(options);
  const code = await run(['guard', ...argv], terminal);
  return { code, ...terminal.written };
}

async function startEngine(): Promise<FakeEngine> {
  const engine = await startFakeEngine();
  engines.push(engine);
  return engine;
}

const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] });
const ask = (url: string): Promise<Response> => fetch(`${url}/v1/chat/completions`, { method: 'POST', body });
const addressIn = (text: string): string | undefined => /^guard +(http:\S+)$/m.exec(text)?.[1];

describe('mistletoe guard', () => {
  it('shows what is in force, flags before the file', async () => {
    const file = join(folder, 'guard.yaml');
    writeFileSync(file, 'upstream: http://127.0.0.1:9\nport: 1\n');
    const { code, out } = await guard([
      '-c',
      file,
      '--port',
      '7',
      '--tenant',
      'header:X-Team',
      '--break-even',
      '1.5',
      '--show-config',
    ]);
    expect(code).toBe(0);
    expect(out).toContain('upstream: http://127.0.0.1:9\n');
    expect(out).toContain('port: 7\n');
    expect(out).toContain('  from: header\n  header: X-Team\n');
    expect(out).toContain('breakEven: 1.5\n');
  });

  it.each([
    [['--log-requests'], 'Pass --upstream'],
    [['-u', 'nowhere'], '--upstream: upstream: expected an address'],
    [['-u', 'http://a', '--tenant', 'cookie'], 'all, key or header:NAME'],
    [['-u', 'http://a', '--action', 'plain-upstream'], 'needs plainUpstream'],
    [['--scrape', 'http://a', '-u', 'http://b'], 'does not work with --scrape'],
    [['-c', '/nowhere/guard.yaml'], '/nowhere/guard.yaml'],
  ])('%j is refused', async (argv, expected) => {
    const { code, err } = await guard(argv);
    expect(code).toBe(2);
    expect(err).toContain(expected);
  });

  it('prints its help without arguments', async () => {
    const { code, out } = await guard([]);
    expect(code).toBe(0);
    expect(out).toContain('Usage: mistletoe guard');
  });

  it('refuses a file with its line and column', async () => {
    const file = join(folder, 'wrong.yaml');
    writeFileSync(file, 'upstream: http://127.0.0.1:9\nlimits:\n  readSize: much\n');
    const { code, err } = await guard(['-c', file]);
    expect(code).toBe(2);
    expect(err).toContain(`${file}:3:13: limits.readSize: expected a size`);
  });

  it('passes requests on, tells them, and ends when asked to', async () => {
    const engine = await startEngine();
    let answered: Promise<number> | undefined;
    const { code, out, err } = await guard(
      ['-c', patient, '-u', engine.url, '--port', '0', '--log-requests'],
      {
        onError(text, { interrupt }) {
          const url = addressIn(text);
          if (url === undefined) return;
          answered = ask(url).then(async (response) => {
            await response.text();
            const page = await fetch(/^operator +(http:\S+)$/m.exec(text)![1]!);
            expect(await page.text()).toContain('<html');
            interrupt();
            return response.status;
          });
        },
      },
    );
    expect(await answered).toBe(200);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ event: 'request-end', 'gen_ai.request.model': 'm' });
    expect(err).toContain('Shutting down');
  });
});

describe('mistletoe guard --scrape', () => {
  it('ends with 0 when a signal comes between two looks', async () => {
    const asked = createSignal();
    const metrics = await startHttp((_, response) => {
      response.end('vllm:spec_decode_num_drafts_total{model_name="m"} 1\n', () => {
        asked.resolve();
      });
    });
    const words = ['guard', '--scrape', `${metrics.url}/metrics`, '--interval', '3600'];
    const child = spawn(process.execPath, [main, ...words], { stdio: 'ignore' });
    const ended = once(child, 'exit');
    await asked.promise;
    child.kill('SIGINT');
    expect(await ended).toEqual([0, null]);
    await metrics.close();
  });
});

describe('mistletoe guard replay', () => {
  it('reads what the guard wrote', async () => {
    const engine = await startEngine();
    const records = join(folder, 'to-replay');
    const { child, url } = await spawnGuard(engine.url, records);
    for (let count = 0; count < 12; count++) await (await ask(url)).text();
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    const { code, out, err } = await guard(['replay', records, '--false-alerts', '0.02']);
    expect([code, err]).toEqual([0, '']);
    expect(out).toContain('12 requests');
    const asJson = await guard(['replay', records, '--format', 'json']);
    expect(JSON.parse(asJson.out)).toMatchObject({ requests: 12, unread: 0, alertCount: 0, different: 0 });
    const strict = await guard(['replay', records, '--break-even', '50']);
    expect(strict.out).toContain('12 collapsed');
    expect((await guard(['replay', records, '--port', '1'])).code).toBe(2); // a flag of guard itself
    expect((await guard(['replay', join(folder, 'none')])).code).toBe(2);
  });
});

describe('kill -9', () => {
  it('loses nothing that was written a second before, and the next start goes on', async () => {
    const engine = await startEngine();
    const records = join(folder, 'records');
    const killed = await spawnGuard(engine.url, records);
    for (let count = 0; count < 20; count++) expect((await ask(killed.url)).status).toBe(200);
    await until(async () => (await countRecords(records)) === 20);
    // One more, which may be lost: the kill comes within its second.
    await (await ask(killed.url)).text();
    const exited = once(killed.child, 'exit');
    killed.child.kill('SIGKILL');
    await exited;
    const left = await countRecords(records);
    expect([20, 21]).toContain(left);
    const { child, url } = await spawnGuard(engine.url, records);
    await (await ask(url)).text();
    await until(async () => (await countRecords(records)) === left + 1);
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  });
});

describe('SIGHUP', () => {
  it('reloads the file, and survives a file with an error', async () => {
    const [engine, other] = [await startEngine(), await startEngine()];
    const file = join(folder, 'reload.yaml');
    const write = (upstream: string): void => {
      writeFileSync(file, `upstream: ${upstream}\noperator: { port: 0 }\ntimeouts: { connect: 0 }\n`);
    };
    write(engine.url);
    const { child, url, lines } = await spawnProcess(['guard', '-c', file, '--port', '0']);
    await (await ask(url)).text();
    write('nowhere');
    child.kill('SIGHUP');
    expect(await lines.next()).toMatchObject({ value: expect.stringContaining('not reloaded') as string });
    write(other.url);
    child.kill('SIGHUP');
    expect(await lines.next()).toMatchObject({
      value: expect.stringContaining('Settings reloaded') as string,
    });
    await (await ask(url)).text();
    expect([engine.bodies.length, other.bodies.length]).toEqual([1, 1]);
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });
});

interface Spawned {
  readonly child: ChildProcess;
  readonly url: string;
  readonly operatorUrl: string;
  /** Of stderr, after the addresses. */
  readonly lines: AsyncIterator<string>;
}

const spawnGuard = (upstream: string, records: string): Promise<Spawned> =>
  spawnProcess(['guard', '-c', patient, '-u', upstream, '--port', '0', '--records', records]);

async function spawnProcess(words: readonly string[]): Promise<Spawned> {
  const child = spawn(process.execPath, [main, ...words], { stdio: ['ignore', 'ignore', 'pipe'] });
  const lines = createInterface({ input: child.stderr })[Symbol.asyncIterator]();
  let seen = '';
  for (let line = await lines.next(); line.done !== true; line = await lines.next()) {
    seen += `${line.value}\n`;
    const [, operatorUrl] = /^operator +(http:\S+)\/mistletoe$/m.exec(seen) ?? [];
    if (operatorUrl !== undefined) return { child, url: addressIn(seen)!, operatorUrl, lines };
  }
  throw new Error(seen);
}

async function countRecords(path: string): Promise<number> {
  let count = 0;
  for await (const entry of readRecords(path)) if (entry.kind === 'request') count++;
  return count;
}

/** The log is written every second; how long that takes is not looked at. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 50));
}
