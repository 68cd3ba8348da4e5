/** `mistletoe serve` as a process of its own, for the tests of both tiers. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { bundledCache } from '../support/model-folders.js';
import type { TranspiledSources } from '../support/transpiled-sources.js';

export interface Started {
  readonly process: ChildProcess;
  readonly url: string;
  readonly written: { out: string; err: string };
}

export async function startProcess(
  main: string,
  argv: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): Promise<Started> {
  const args = [main, 'serve', '--port', '0', '--threads', '1', '--cache-dir', bundledCache, ...argv];
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

export const key = 'key-of-alice-0123';
export const question = 'Name the crimson zebra.';
export const ask = (url: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ messages: [{ role: 'user', content: question }], max_tokens: 4 }),
  });

/** The server says what runs where, answers, logs no words of a prompt, and ends by the signal. */
export async function expectServed(
  { folder, main }: TranspiledSources,
  signal: 'SIGINT' | 'SIGTERM',
): Promise<void> {
  const keys = join(folder, 'keys.txt');
  writeFileSync(keys, `alice ${key}\n`);
  const {
    process: child,
    url,
    written,
  } = await startProcess(main, [
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
}
