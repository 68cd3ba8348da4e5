import { afterEach, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/program.js';
import type { EngineReport } from '../../src/guard/engines/doctor.js';
import type { EngineServer } from '../support/engine-server.js';
import { startEngine, startServer } from '../support/engine-server.js';
import { disableTimeouts } from '../support/disabled-timeouts.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';

disableTimeouts();
let server: EngineServer | undefined;
afterEach(async () => {
  await server?.close();
});

async function doctor(
  argv: readonly string[],
  options: FakeTerminalOptions = {},
): Promise<{ code: number; out: string; err: string }> {
  const terminal = createFakeTerminal(options);
  return { code: await run(['doctor', ...argv], terminal), ...terminal.written };
}

describe('mistletoe doctor', () => {
  it('says what an engine tells, and the flag to add', async () => {
    server = await startEngine('vllm');
    const { code, out, err } = await doctor([server.url]);
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/^engine +vLLM 0\.29\.1$/m);
    expect(out).toMatch(/^drafting +on: up to 3 tokens per step$/m);
    expect(out).toMatch(/^tokens per pass +2\.50 over drafted steps since the start$/m);
    expect(out).toMatch(/^per request +unknown without a generation: metrics\.speculative_decoding/m);
    expect(out).toMatch(/^add: --per-request-spec-decode-metrics summary$/m);
  });

  it('writes JSON for programs', async () => {
    server = await startEngine('sglang');
    const { code, out } = await doctor([server.url, '--format', 'json']);
    expect(code).toBe(0);
    const report = JSON.parse(out) as EngineReport;
    expect(report).toMatchObject({
      engine: 'sglang',
      drafting: { method: 'EAGLE3' },
      perRequest: { state: 'asked' },
    });
  });

  it('takes the key from the environment, and shows it nowhere', async () => {
    server = await startEngine('vllm', 'sk-secret');
    const refused = await doctor([server.url]);
    expect([refused.code, refused.out]).toEqual([2, '']);
    expect(refused.err).toMatch(/--key-env/);
    const environment = { LLM_KEY: 'sk-secret\n', EMPTY: '' };
    const { code, out, err } = await doctor([server.url, '--key-env', 'LLM_KEY'], { environment });
    expect(code).toBe(0);
    expect(out + err).not.toContain('sk-secret');
    for (const name of ['EMPTY', 'ABSENT']) {
      const outcome = await doctor([server.url, '--key-env', name], { environment });
      expect(outcome.code).toBe(2);
      expect(outcome.err).toMatch(new RegExp(`The environment variable ${name} contains no key`));
    }
  });

  it('does not let a server steer the terminal', async () => {
    server = await startServer((_, response) => {
      const id = 'm\u001b[2J\nadd: rm';
      const body = JSON.stringify({ version: '1\u001b[31m', data: [{ id, owned_by: 'vllm' }] });
      response.writeHead(200, { 'content-type': 'application/json' }).end(body);
    });
    const { code, out } = await doctor([server.url], { isTerminal: true });
    expect(code).toBe(0);
    expect(out).not.toMatch(/\u001b\[(?:2J|31m)|^add: rm/m);
  });

  it('has an exit code for each ending', async () => {
    server = await startServer((_, response) => {
      response.writeHead(404).end();
    });
    const unknown = await doctor([server.url]);
    expect(unknown.code).toBe(3);
    expect(unknown.out).toMatch(/^engine +unknown$/m);
    await server.close();
    expect((await doctor([server.url])).code).toBe(1);
    expect((await doctor(['http://'])).code).toBe(2);
    expect((await doctor([])).code).toBe(2);
    expect((await doctor([server.url, '--timeout', '0'])).code).toBe(2);
  });
});
