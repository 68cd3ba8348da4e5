/** The guard from the package's top, as it is published: transpiled to JavaScript, thread of the index and all. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startFakeEngine } from '../support/guard/fake-engine.js';
import type * as Library from '../../src/index.js';
import { disableTimeouts } from '../support/disabled-timeouts.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder: build } = transpileForTests('library-guard');
disableTimeouts();
let library: typeof Library;
const open: { close(): unknown }[] = [];

beforeAll(async () => {
  library = (await import(pathToFileURL(join(build, 'src/index.js')).href)) as typeof Library;
});
afterAll(async () => {
  for (const each of open.reverse()) await each.close();
});

describe('the guard as a library', () => {
  it('passes requests, shows its page, finds what it wrote, and what it wrote can be replayed', async () => {
    const { configureGuard, guardPage, replayFile, describeReplay, startGuard } = library;
    const engine = await startFakeEngine();
    open.push(engine);
    const folder = join(build, 'records');
    const events: string[] = [];
    const guard = await startGuard(
      configureGuard({
        ...{
          upstream: engine.url,
          port: 0,
          operator: { port: 0 },
          records: { folder },
          log: { requests: true },
        },
        timeouts: { connect: '0' }, // a busy machine may take any time
      }),
      { page: guardPage, onEvent: (name) => events.push(name) },
    );
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] });
    for (let count = 0; count < 15; count++) {
      const response = await fetch(`${guard.url}/v1/chat/completions`, { method: 'POST', body });
      expect(await response.json()).toMatchObject({ model: 'm', usage: { prompt_tokens: 12 } });
    }
    expect(await (await fetch(`${guard.operatorUrl}/mistletoe`)).text()).toContain('<html');
    await guard.close();
    expect(events).toEqual(Array.from({ length: 15 }, () => 'request-end'));
    const replay = await replayFile(folder, { falseAlerts: 0.02 });
    expect(replay).toMatchObject({ requests: 15, alertCount: 0, different: 0, unread: 0 });
    expect(describeReplay(replay)[0]).toContain('15 requests');
  });

  it('refuses settings that cannot be, in the words of the file', () => {
    const { configureGuard, MistletoeError } = library;
    const wrong = (): unknown =>
      configureGuard({ upstream: 'http://127.0.0.1:9', mitigation: { action: 'plain-upstream' } });
    expect(wrong).toThrow(MistletoeError);
    expect(wrong).toThrow('mitigation.action: plain-upstream needs plainUpstream');
  });

  it('watches counters, and calls a fall of acceptance collapsed', async () => {
    const { examineEngine, watchMetrics } = library;
    let scrapes = 0;
    let [drafts, accepted] = [0, 0];
    const server = createServer((request, response) => {
      if (request.url !== '/metrics') {
        response.writeHead(404).end();
        return;
      }
      scrapes++;
      drafts += 400;
      accepted += scrapes > 80 ? 20 : 1000 + ((scrapes * 37) % 90);
      const line = (name: string, value: number): string =>
        `vllm:spec_decode_${name}_total{model_name="m"} ${value}\n`;
      response.end(
        line('num_drafts', drafts) +
          line('num_draft_tokens', 3 * drafts) +
          line('num_accepted_tokens', accepted),
      );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    open.push(server);
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const abort = new AbortController();
    const lows: number[] = [];
    let minutes = 0;
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => 900_000 * ++minutes);
    for await (const each of watchMetrics(`${url}/metrics`, { signal: abort.signal, intervalMs: 1 })) {
      if (each.kind !== 'window') throw new Error(each.reason);
      if (each.verdict.name === 'collapsed' || each.verdict.name === 'low') lows.push(scrapes);
      if (lows.length > 0 || scrapes > 120) abort.abort();
    }
    clock.mockRestore();
    expect(lows[0]).toBeGreaterThan(80);
    expect(lows[0]).toBeLessThan(90);
    expect((await examineEngine(url)).engine).toBe('vllm');
  });
});
