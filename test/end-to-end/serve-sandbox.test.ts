/** A served tokenizer of no published structure stays in its sandboxed process: a prompt can end that, and nothing else. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import type { StartedServer } from '../support/openai-server.js';
import { startTestServer } from '../support/openai-server.js';
import { plainTokenizer, tiny, writeDecoder } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder: build } = transpileForTests('serve-sandbox');
const temporary = makeTemporaryFolder();
let started: StartedServer;

beforeAll(async () => {
  const target = writeDecoder(join(temporary.path, 'target'), tiny);
  const letters = plainTokenizer(Array.from('abcdefghijklmnopqrstuvwx'));
  const splitter = {
    type: 'Split',
    pattern: { Regex: `${'[bc]?'.repeat(40)}[bc]{40}` },
    behavior: 'Isolated',
    invert: false,
  };
  writeFileSync(join(target, 'tokenizer.json'), JSON.stringify({ ...letters, pre_tokenizer: splitter }));
  started = await startTestServer(build, { target, modelName: 'letters' });
});
afterAll(async () => {
  await started.server.close();
  temporary.remove();
});

interface Reply {
  readonly status: number;
  readonly text: string | undefined;
  readonly error: Readonly<Record<string, string | null>> | undefined;
}

async function complete(prompt: string): Promise<Reply> {
  const response = await fetch(`${started.server.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: 3, temperature: 0 }),
  });
  const body = (await response.json()) as { choices?: { text: string }[]; error?: Reply['error'] };
  return { status: response.status, text: body.choices?.[0]?.text, error: body.error };
}

/** The split steps back over it until its time is up, or until the library panics. */
const fatal = 'bc'.repeat(22);

function sandboxes(): readonly number[] {
  const ofThisProcess = ['-o', 'pid=,args=', '--ppid', String(process.pid)];
  return execFileSync('ps', ofThisProcess, { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes('encoder-process.js'))
    .map((line) => Number.parseInt(line, 10));
}

describe.skipIf(process.platform !== 'linux')('a prompt that ends the sandboxed process', () => {
  it('is refused; other clients are answered as before', async () => {
    const prompts = ['abc', 'cab', 'bca'];
    const alone = [];
    for (const prompt of prompts) alone.push(await complete(prompt));
    expect(alone.map(({ status }) => status)).toEqual([200, 200, 200]);
    const [first, refused, second, again, third] = await Promise.all(
      ['abc', fatal, 'cab', fatal, 'bca'].map(complete),
    );
    expect([first, second, third]).toEqual(alone);
    for (const reply of [refused, again]) {
      expect(reply).toMatchObject({
        status: 400,
        error: { type: 'invalid_request_error', code: 'invalid_value' },
      });
      expect(reply!.error!.message).toMatch(/^letters\/tokenizer\.json cannot encode a text: /);
    }
  });

  it('is not needed: a process that dies while it is idle is replaced', async () => {
    const before = await complete('abc');
    const killed = sandboxes(); // those that other suites left idle in this process among them
    for (const pid of killed) process.kill(pid, 'SIGKILL');
    while (sandboxes().some((pid) => killed.includes(pid))) await nextTurn();
    expect(await complete('abc')).toEqual(before);
    expect(sandboxes()).toHaveLength(1);
  });
});
