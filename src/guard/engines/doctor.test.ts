import { afterEach, describe, expect, it } from 'vitest';
import type { EngineServer } from '../../../test/support/engine-server.js';
import { startEngine, startServer } from '../../../test/support/engine-server.js';
import { disableTimeouts } from '../../../test/support/disabled-timeouts.js';
import { examineEngine } from './doctor.js';

const timeouts = disableTimeouts();
const open: EngineServer[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});
async function start(starting: Promise<EngineServer>): Promise<EngineServer> {
  const server = await starting;
  open.push(server);
  return server;
}

const flag = '--per-request-spec-decode-metrics summary';
const sinceStart = { value: 2.5, over: 'drafted steps since the start' };

describe('examineEngine', () => {
  it.each([
    [
      'vllm',
      {
        engine: 'vllm',
        version: '0.29.1',
        models: ['meta-llama/Llama-3.1-8B-Instruct'],
        drafting: { isOn: true, draftLength: 3 },
        perRequest: { state: 'unseen', remedy: flag },
        aggregate: { state: 'on', remedy: null },
        acceptedLength: sinceStart,
      },
    ],
    [
      'vllm-developer',
      {
        engine: 'vllm',
        drafting: { method: 'eagle3', draftLength: 3 },
        perRequest: { state: 'on', remedy: null },
      },
    ],
    [
      'vllm-plain',
      {
        engine: 'vllm',
        drafting: { isOn: false },
        perRequest: { state: 'off', remedy: `vLLM 0.29 or later with ${flag}` },
        aggregate: { state: 'off' },
        acceptedLength: null,
      },
    ],
    [
      'sglang',
      {
        engine: 'sglang',
        version: '0.5.12',
        drafting: {
          isOn: true,
          method: 'EAGLE3',
          drafter: 'Tengyunw/qwen3_8b_eagle3',
          draftLength: 3,
          isTree: false,
        },
        perRequest: { state: 'asked' },
        aggregate: { state: 'on' },
        acceptedLength: { value: 2.52 },
      },
    ],
    [
      'sglang-tree',
      {
        engine: 'sglang',
        drafting: { draftLength: 5, isTree: true },
        aggregate: { state: 'off', remedy: '--enable-metrics' },
      },
    ],
    [
      'tensorrt-llm',
      {
        engine: 'tensorrt-llm',
        version: '1.3.0rc12',
        drafting: { isOn: true, draftLength: 3 },
        perRequest: { state: 'on' },
        aggregate: { state: 'on' },
        acceptedLength: { value: 2.5, over: 'the last batches' },
      },
    ],
    [
      'llama-cpp',
      {
        engine: 'llama-cpp',
        version: 'b6912-1a2b3c4d',
        drafting: { isOn: true },
        perRequest: { state: 'on' },
        aggregate: { state: 'off', remedy: '--metrics' },
      },
    ],
    [
      'llama-cpp-counting',
      {
        engine: 'llama-cpp',
        drafting: { isOn: true, draftLength: 3 },
        aggregate: { state: 'on' },
        acceptedLength: { over: 'all passes since the start' },
      },
    ],
    [
      'lmdeploy',
      {
        engine: 'lmdeploy',
        drafting: { isOn: true, draftLength: 3 },
        perRequest: { state: 'never' },
        aggregate: { state: 'on' },
        acceptedLength: sinceStart,
      },
    ],
    [
      'tgi',
      {
        engine: 'tgi',
        version: '3.3.6',
        models: ['mistralai/Mistral-7B'],
        perRequest: { state: 'never' },
        acceptedLength: sinceStart,
      },
    ],
    [
      'mistletoe',
      {
        engine: 'mistletoe',
        drafting: { isOn: true, method: 'chain:3', drafter: 'eagle3' },
        perRequest: { remedy: flag },
        aggregate: { state: 'on' },
        acceptedLength: sinceStart,
      },
    ],
  ])('knows %s', async (name, expected) => {
    const { url } = await start(startEngine(name));
    expect(await examineEngine(url)).toMatchObject({ url, ...expected });
    expect(await examineEngine(`${url}/v1/`)).toMatchObject({ url, ...expected });
  });

  it('counts all passes of an n-gram drafter, not only the drafted one', async () => {
    const { url } = await start(startEngine('llama-cpp-ngram'));
    const { acceptedLength, notes } = await examineEngine(url);
    expect(acceptedLength?.value.toFixed(2)).toBe('1.07');
    expect(notes.join()).toContain('1 of 75 passes had a draft; the accepted length over those is 6.00.');
  });

  it('reads, and asks nothing that does something', async () => {
    for (const name of ['vllm', 'sglang', 'tensorrt-llm', 'llama-cpp']) {
      const server = await start(startEngine(name));
      await examineEngine(server.url);
      expect(server.asked.filter((line) => !line.startsWith('GET '))).toEqual([]);
      expect(server.asked.filter((line) => /generate|completion|health|perf_metrics/.test(line))).toEqual([]);
      // TensorRT-LLM's metrics are gone once they are read.
      expect(server.asked.includes('GET /metrics')).toBe(name !== 'tensorrt-llm');
    }
  });

  it('needs the key where the server wants one, and shows it nowhere', async () => {
    const server = await start(startEngine('vllm', 'sk-secret'));
    await expect(examineEngine(server.url)).rejects.toThrow(/rejects requests without a valid key/);
    const report = await examineEngine(server.url, { key: 'sk-secret' });
    expect(report.engine).toBe('vllm');
    expect(JSON.stringify(report)).not.toContain('sk-secret');
  });

  it('follows redirects within the host, and to no other', async () => {
    const other = await start(startEngine('sglang'));
    const server = await start(
      startServer(({ url }, response) => {
        if (url === '/version') response.writeHead(307, { location: '/there' }).end();
        else if (url === '/there')
          response.writeHead(200, { 'content-type': 'application/json' }).end('{"version":"7"}');
        else response.writeHead(302, { location: other.url + (url ?? '') }).end();
      }),
    );
    const report = await examineEngine(server.url, { key: 'sk-secret' });
    expect(report).toMatchObject({ engine: 'unknown', version: '7' });
    expect(report.probes.find(({ path }) => path === '/v1/models')).toMatchObject({
      status: null,
      failure: 'it redirects to another host',
    });
    expect(other.asked).toEqual([]);
  });

  it('is not held up, filled or misled by a server that is none', async () => {
    let pages = 0;
    let isOver = false;
    const server = await start(
      startServer(({ url }, response) => {
        response.writeHead(200, { 'content-type': 'text/html' });
        if (url === '/v1/models') return; // never ends
        pages++;
        response.once('close', () => {
          pages--;
          if (pages === 0 && !isOver) timeouts.expire();
        });
        const page = '<html>'.padEnd(1 << 20, 'x');
        const more = (): void => {
          while (!response.destroyed && response.write(page));
        };
        response.on('drain', more);
        more();
      }),
    );
    const report = await examineEngine(server.url, { timeoutMs: 1500 });
    isOver = true;
    expect(report).toMatchObject({ engine: 'unknown', version: null, models: [] });
    expect(report.probes.find(({ path }) => path === '/v1/models')?.failure).toMatch(
      /no response within 1.5 s/,
    );
  });

  it('takes nothing from bodies that make no sense', async () => {
    const bodies = [
      '[]',
      'null',
      '{"data":5}',
      '{"data":[null,{"owned_by":"constructor","id":7}]}',
      '{"internal_states":{}}',
      '\u0000',
    ];
    for (const body of bodies) {
      const server = await start(
        startServer((_, response) => {
          response.writeHead(200, { 'content-type': 'application/json' }).end(body);
        }),
      );
      expect((await examineEngine(server.url)).version).toBeNull();
    }
  });

  it.each([
    ['ftp://localhost', /is not the address of a server/],
    ['localhost:8000', /is not the address of a server/],
    ['http://localhost/?a=1', /is not the address of a server/],
    ['http://me:secret@localhost', /contains a user name or a password/],
  ])('refuses %s', async (url, message) => {
    await expect(examineEngine(url)).rejects.toThrow(message);
  });

  it('says when nothing answers', async () => {
    const server = await startServer(() => undefined);
    await server.close();
    await expect(examineEngine(server.url)).rejects.toMatchObject({
      code: 'network',
      message: expect.stringMatching(/ECONNREFUSED/) as string,
    });
  });
});
