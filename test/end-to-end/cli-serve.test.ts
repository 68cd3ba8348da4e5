/** `mistletoe serve` as a process of its own: what it prints, what it logs, how it ends. */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { bundledCache } from '../support/model-folders.js';
import { createRunner } from '../support/run-command.js';
import { transpileForTests } from '../support/transpiled-sources.js';
import { ask, expectServed, key, startProcess } from './serve-process.js';

const sources = transpileForTests('cli-serve');
const serve = createRunner('serve', bundledCache);

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

describe('mistletoe serve', () => {
  it('says what runs where, answers, logs without words, and ends by SIGINT', async () => {
    await expectServed(sources, 'SIGINT');
  });

  it('takes keys from the environment, and shows its requests on the operator’s page alone', async () => {
    const {
      process: child,
      url,
      written,
    } = await startProcess(sources.main, [], {
      MISTLETOE_KEYS: `${key},other-key-4567`,
    });
    const statuses = [await ask(url), await ask(url, { authorization: 'Bearer other-key-4567' })];
    expect(statuses.map(({ status }) => status)).toEqual([401, 200]);
    const [, operatorUrl] = /Page: (\S+)\/mistletoe/.exec(written.err)!;
    const page = await fetch(`${operatorUrl}/mistletoe`);
    expect([page.status, await page.text()]).toEqual([
      200,
      expect.stringContaining('<!doctype html>') as string,
    ]);
    const headers = { authorization: `Bearer ${key}` };
    expect((await fetch(`${url}/mistletoe/api/state`, { headers })).status).toBe(404);
    const state = await fetch(`${operatorUrl}/mistletoe/api/state`);
    expect(await state.json()).toMatchObject({
      kind: 'serve',
      requests: [
        { engine: 'mistletoe', route: '/v1/chat/completions', status: 200, verdict: { name: 'unreadable' } },
      ],
      counts: { requests: 1, running: 0 },
    });
    child.kill('SIGINT');
    await once(child, 'exit');
  });

  it('shows the page on another port if its own is taken', async () => {
    const other = createServer();
    const taken = new Promise<void>((resolve) => {
      other.once('listening', resolve).once('error', () => {
        resolve(); // by another program, which does as well
      });
    });
    other.listen(8002, '127.0.0.1');
    await taken;
    const {
      process: child,
      url,
      written,
    } = await startProcess(sources.main, ['--port', String(await findFreePort())]);
    expect((await fetch(`${url}/health`)).status).toBe(200);
    const [, operatorUrl = ''] = /Page: (\S+)\/mistletoe/.exec(written.err)!;
    expect(operatorUrl).not.toMatch(/:8002$/);
    expect((await fetch(`${operatorUrl}/mistletoe`)).status).toBe(200);
    child.kill('SIGINT');
    await once(child, 'exit');
    other.close();
  });

  it.each([
    [['--host', '0.0.0.0'], 'without keys'],
    [['--draft', 'chain:4'], '--draft was given without a drafter'],
    [['--drafter', 'sps', '--draft', 'chain'], 'is not understood'],
    [['--drafter', 'sps', '--drafter', 'sps'], 'was given twice'],
    [['--keys', '/nowhere/keys'], 'does not exist'],
    [['--port', '70000'], 'from 0 to 65535'],
    [['--max-body', '12'], 'a size with its unit'],
  ])('refuses %j', async (argv, message) => {
    const { code, out, err } = await serve(argv);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
  });
});
