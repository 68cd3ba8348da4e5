/** `mistletoe serve` as a process of its own: what it prints, what it logs, how it ends. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../src/checkpoint/testing/temporary-folder.js';
import { createRunner } from '../support/run-command.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { main } = transpileForTests('cli-serve');
const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
const cache = join(temporary.path, 'cache');
const serve = createRunner('serve', cache);

interface Started {
  readonly process: ChildProcess;
  readonly url: string;
  readonly written: { out: string; err: string };
}

async function start(argv: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<Started> {
  const args = [main, 'serve', '--port', '0', '--threads', '1', '--cache-dir', cache, ...argv];
  const child = spawn(process.execPath, args, { env: { ...process.env, ...environment } });
  const written = { out: '', err: '' };
  child.stdout.on('data', (text: Buffer) => (written.out += text.toString()));
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr.on('data', (text: Buffer) => {
      written.err += text.toString();
      const [, found] = /, at (http:\S+)\nTry: .*\n/.exec(written.err) ?? [];
      if (found !== undefined) resolve(found);
    });
    child.once('exit', () => {
      reject(new Error(written.err));
    });
  });
  return { process: child, url, written };
}

const key = 'key-of-alice-0123';
const question = 'Name the crimson zebra.';
const ask = (url: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ messages: [{ role: 'user', content: question }], max_tokens: 4 }),
  });

describe('mistletoe serve', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)(
    'says what runs where, answers, logs without words, and ends by %s',
    async (signal) => {
      const keys = join(temporary.path, 'keys.txt');
      writeFileSync(keys, `alice ${key}\n`);
      const {
        process: child,
        url,
        written,
      } = await start([
        ...['--drafter', 'eagle3', '--draft', 'chain:3', '--keys', keys],
        ...['--per-request-spec-decode-metrics', 'summary', '--served-model-name', 'mine'],
      ]);
      expect(written.err).toContain(
        'Serves mine, drafted by eagle3 (chain:3), on the CPU in float32, at http://127',
      );
      expect(written.err).toContain(`Try: curl ${url}/v1/chat/completions -H 'Authorization: Bearer KEY'`);
      expect((await ask(url)).status).toBe(401);
      const response = await ask(url, { authorization: `Bearer ${key}` });
      expect(await response.json()).toMatchObject({
        model: 'mine',
        metrics: { mistletoe: { draft: 'chain:3' } },
      });
      child.kill(signal);
      const [code] = (await once(child, 'exit')) as [number | null];
      expect(code).toBe(0);
      const lines = written.out.trimEnd().split('\n');
      expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
        { status: 401, caller: 'anonymous' },
        { status: 200, caller: 'alice', completionTokens: expect.any(Number) as number },
      ]);
      expect(written.out + written.err).not.toMatch(/crimson|key-of-alice/);
    },
  );

  it('takes keys from the environment, and shows its requests on a page to those who have one', async () => {
    const { process: child, url } = await start([], { MISTLETOE_KEYS: `${key},other-key-4567` });
    const statuses = [await ask(url), await ask(url, { authorization: 'Bearer other-key-4567' })];
    expect(statuses.map(({ status }) => status)).toEqual([401, 200]);
    const page = await fetch(`${url}/mistletoe`);
    expect([page.status, await page.text()]).toEqual([
      200,
      expect.stringContaining('<!doctype html>') as string,
    ]);
    expect((await fetch(`${url}/mistletoe/api/state`)).status).toBe(401);
    const state = await fetch(`${url}/mistletoe/api/state`, { headers: { authorization: `Bearer ${key}` } });
    expect(await state.json()).toMatchObject({
      kind: 'serve',
      requests: [{ engine: 'mistletoe', route: '/v1/chat/completions', status: 200, verdict: 'unknown' }],
      counts: { requests: 1, running: 0 },
    });
    child.kill('SIGINT');
    await once(child, 'exit');
  });

  it('guards requests where it is told to: they change drafters, say so, and answer as without drafts', async () => {
    const started = await start([
      ...['--drafter', 'eagle3', '--drafter', 'eagle', '--drafter', 'sps', '--guarded'],
      ...['--per-request-spec-decode-metrics', 'detailed'],
      ...['--floor', '0.999'], // one failure is evidence enough
    ]);
    const { process: child, url, written } = started;
    expect(written.err).toContain('drafted by eagle3, eagle, sps (guarded)');
    expect(written.err).toContain('Guarded requests of eagle3 cannot go on with eagle:');
    const answer = async (mistletoe: object) => {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          ...{ messages: [{ role: 'user', content: question }], max_tokens: 48, temperature: 0, mistletoe },
        }),
      });
      return (await response.json()) as {
        choices: [{ message: { content: string } }];
        metrics: { mistletoe: { ladder?: string[]; switches?: { from: string; reason: string }[] } | null };
      };
    };
    const [guarded, unguarded, plain] = await Promise.all(
      [{}, { guarded: false }, { drafter: 'none' }].map((mistletoe) => answer(mistletoe)),
    );
    const [text] = plain!.choices;
    expect([guarded!.choices[0].message, unguarded!.choices[0].message]).toEqual([
      text.message,
      text.message,
    ]);
    const told = guarded!.metrics.mistletoe!;
    expect(told.ladder).toEqual(['eagle3', 'sps', 'ngram']);
    expect(told.switches!.map(({ from }) => from)).toContain('eagle3');
    expect(unguarded!.metrics.mistletoe).not.toHaveProperty('switches');
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const counted = [...metrics.matchAll(/^mistletoe_drafter_switches_total\{reason="(\S+?)".*\} (\d+)$/gm)];
    expect(counted.reduce((sum, [, , count]) => sum + Number(count), 0)).toBe(told.switches!.length);
    const state = (await (await fetch(`${url}/mistletoe/api/state`)).json()) as {
      actions: { action: string }[];
    };
    expect(state.actions.map(({ action }) => action)).toContain('switch-drafter');
    child.kill('SIGINT');
    await once(child, 'exit');
    expect(written.out).toContain('"switches":[{"from":"eagle3"');
  });

  it('ends where the ladder names a drafter that is not there', async () => {
    await expect(start(['--drafter', 'sps', '--ladder', 'sps,other'])).rejects.toThrow('names "other"');
  });

  it('ends where the model is not there', async () => {
    await expect(start(['--target', '/nowhere/model'])).rejects.toThrow('/nowhere/model');
  });

  it.each([
    [['--host', '0.0.0.0'], 'without keys'],
    [['--draft', 'chain:4'], '--draft was given without a drafter'],
    [['--drafter', 'sps', '--draft', 'chain'], 'is not understood'],
    [['--drafter', 'sps', '--drafter', 'sps'], 'was given twice'],
    [['--keys', '/nowhere/keys'], 'is not there'],
    [['--guarded'], 'there is no drafter'],
    [['--drafter', 'sps', '--slowdown', '0'], 'above 0 and up to 10'],
    [['--port', '70000'], 'from 0 to 65535'],
    [['--max-body', '12'], 'a size with its unit'],
  ])('refuses %j', async (argv, message) => {
    const { code, out, err } = await serve(argv);
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain(message);
  });
});
