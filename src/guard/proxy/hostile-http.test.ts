/** Clients and engines that try to split, smuggle, truncate or starve: nothing is lost or changed without an error. */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import {
  closeAfterEach,
  readAll,
  startHttp,
  startRaw,
  talk,
} from '../../../test/support/guard/fake-upstream.js';
import { startPlainProxy, testSettings } from '../../../test/support/guard/plain-proxy.js';
import type { Route } from './exchange-route.js';

const keep = closeAfterEach();
const response = (...lines: string[]): string => ['HTTP/1.1 200 OK', ...lines, '', ''].join('\r\n');
const chunked = response('Transfer-Encoding: chunked');
const post = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}';

describe('a response', () => {
  it.each([
    ['two lengths', response('Content-Length: 2', 'Content-Length: 7')],
    ['a list of lengths', response('Content-Length: 2, 2')],
    ['a negative length', response('Content-Length: -1')],
    ['a hexadecimal length', response('Content-Length: 0x2')],
    ['an empty length', response('Content-Length:')],
    ['a length beyond all integers', response('Content-Length: 99999999999999999999')],
    ['length and chunks', response('Content-Length: 2', 'Transfer-Encoding: chunked')],
    ['two codings', response('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')],
    ['an unknown coding', response('Transfer-Encoding: chunked, identity')],
    ['a folded field', response('X: a', '\tb')],
    ['a bare line feed in a field', response('X: a\nSet-Cookie: b')],
    ['a bare carriage return in a field', response('X: a\rSet-Cookie: b')],
    ['a zero byte in a field', response('X: a\0b')],
    ['a field without a name', response(': a')],
    ['a field without a colon', response('X')],
    ['a switch of protocols', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n'],
    ['another major version', 'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\n'],
    ['too many fields', response(...Array.from({ length: 20_000 }, (_, index) => `X${index}: a`))],
  ])('with %s is a 502, never passed on', async (_, head) => {
    const engine = keep(await startRaw((socket) => socket.end(`${head}{}`)));
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const answer = await talk(proxy.port, post);
    expect(answer).toMatch(/^HTTP\/1\.1 502 /);
    expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(answer).not.toContain('Set-Cookie');
  });

  it.each([
    ['a negative size', '-2\r\n{}\r\n0\r\n\r\n'],
    ['a size with a prefix', '0x2\r\n{}\r\n0\r\n\r\n'],
    ['a size of nine digits', '100000002\r\n{}\r\n0\r\n\r\n'],
    ['a bare line feed after the size', '2\n{}\r\n0\r\n\r\n'],
    ['a bare line feed in an extension', '2;a\nb\r\n{}\r\n0\r\n\r\n'],
    ['no line end after the data', '2\r\n{}0\r\n\r\n'],
    ['data longer than its size', '1\r\n{}\r\n0\r\n\r\n'],
  ])('whose chunk has %s is broken off', async (_, body) => {
    const engine = keep(await startRaw((socket) => socket.end(`${chunked}${body}`)));
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const answer = await talk(proxy.port, post);
    expect(answer).not.toMatch(/\r\n0\r\n\r\n$/);
    expect(proxy.seen).toMatchObject([{ ending: 'upstream-failed' }]);
  });

  it.each([
    ['two bodies', response('Content-Length: 2') + '{}' + response('Content-Length: 4') + 'evil'],
    ['trailers', `${chunked}2\r\n{}\r\n0\r\nContent-Length: 4\r\nX-Evil: evil\r\n\r\n`],
    ['chunk extensions', `${chunked}2;x="evil"\r\n{}\r\n0;evil\r\n\r\n`],
    ['interim responses', `HTTP/1.1 103 Early\r\nX: evil\r\n\r\n${response('Content-Length: 2')}{}`],
  ])('with %s passes as one body', async (_, bytes) => {
    const engine = keep(
      await startRaw((socket) => socket.write(bytes) && socket.on('data', () => socket.write(bytes))),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    for (let count = 0; count < 2; count++) {
      const answer = await fetch(proxy.url, { method: 'POST', body: '{}' });
      expect([answer.status, await answer.text(), answer.headers.get('x-evil')]).toEqual([200, '{}', null]);
    }
  });

  it('of 204 that announces a body does not lend its connection to the next request', async () => {
    let connections = 0;
    const engine = keep(
      await startRaw((socket) => {
        connections++;
        socket.write('HTTP/1.1 204 No Content\r\nContent-Length: 60\r\n\r\n');
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    for (let count = 0; count < 2; count++)
      expect((await fetch(proxy.url, { method: 'POST', body: '{}' })).status).toBe(204);
    expect(connections).toBe(2);
  });

  it('that breaks off is a reset for a client of HTTP/1.0, to which an end would be the end of the body', async () => {
    let engineSocket: Socket | undefined;
    const engine = keep(
      await startRaw((socket) => {
        engineSocket = socket;
        socket.write(`${chunked}5\r\nhello\r\n`);
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const client = connect({ port: proxy.port, host: '127.0.0.1' });
    client.write('GET / HTTP/1.0\r\nHost: a\r\n\r\n');
    let text = '';
    while (!text.endsWith('hello')) text += String((await once(client, 'data'))[0]);
    let code: string | undefined;
    client.on('error', (error: NodeJS.ErrnoException) => (code = error.code));
    const closed = new Promise((resolve) => client.once('close', resolve));
    engineSocket!.resetAndDestroy();
    await closed;
    expect(code).toBe('ECONNRESET');
  });
});

describe('a response that is held to take fields out', () => {
  const strip = { dropsUsage: false, dropsNullUsage: false, fields: [['added']] };
  const route = (pass: Extract<Route, { kind: 'pass' }>): Route => ({ ...pass, strip });
  const head = ['Content-Type: application/json'];

  it('passes as it is where it is too long to hold', async () => {
    const text = `{"added":1,"text":"${'x'.repeat(20 << 20)}"}`;
    const engine = keep(
      await startHttp((_, answer) => answer.setHeader('content-type', 'application/json').end(text)),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url, route }));
    const answer = await fetch(proxy.url, { method: 'POST', body: '{}' });
    expect((await answer.text()) === text).toBe(true);
  });

  it.each([
    ['that is complete', 12, '200 OK', '{"text":1}'],
    ['that breaks off', 99, '502 Bad Gateway', 'upstream_broken'],
  ])('%s', async (_, length, status, body) => {
    const engine = keep(
      await startRaw((socket) =>
        socket.end(`${response(...head, `Content-Length: ${length + 8}`)}{"added":1,"text":1}`),
      ),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url, route }));
    const answer = await talk(proxy.port, post);
    expect(answer).toContain(`HTTP/1.1 ${status}\r\n`);
    expect(answer).toContain(body);
  });
});

describe('a client', () => {
  it('cannot hide the length of its body behind many fields', async () => {
    const seen: string[] = [];
    const engine = keep(
      await startHttp((request, answer) => {
        seen.push(`${request.method} ${request.url}`);
        void readAll(request).then((body) => answer.end(`<${body.toString()}>`));
      }),
    );
    const limits = { ...testSettings.limits, headerSize: 32 << 10 };
    const proxy = keep(await startPlainProxy({ upstream: engine.url, limits }));
    const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n';
    const answer = await talk(
      proxy.port,
      `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${'a:\r\n'.repeat(5000)}` +
        `Content-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
    );
    expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(seen.filter((line) => line.includes('smuggled'))).toEqual([]);
    if (answer.startsWith('HTTP/1.1 200')) expect(answer).toContain(`<${smuggled}>`);
  });

  it.each(['/../b/v1', '/v1/%2e%2E/../b', '/..%2fb', '/x\\..\\..\\b', '/..;/b', '/..?x'])(
    'cannot leave the path of the upstream with %s',
    async (path) => {
      const seen: (string | undefined)[] = [];
      const engine = keep(await startHttp(({ url }, answer) => seen.push(url) && answer.end('{}')));
      const proxy = keep(await startPlainProxy({ upstream: `${engine.url}/a` }));
      const request = (target: string): string =>
        `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`;
      expect(await talk(proxy.port, request(path))).toMatch(/^HTTP\/1\.1 400 /);
      expect(await talk(proxy.port, request('/v1/x..y?z=/../'))).toMatch(/^HTTP\/1\.1 200 /);
      expect(seen).toEqual(['/a/v1/x..y?z=/../']);
    },
  );

  it('is named by its tenant header, however many fields come before it', async () => {
    const engine = keep(await startHttp((_, answer) => answer.end('{}')));
    const limits = { ...testSettings.limits, headerSize: 32 << 10 };
    const proxy = keep(await startPlainProxy({ upstream: engine.url, limits }));
    await talk(
      proxy.port,
      `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n${'a:\r\n'.repeat(5000)}X-Tenant: bad\r\n\r\n`,
    );
    expect(proxy.seen[0]?.head.rawHeaders.slice(-2)).toEqual(['X-Tenant', 'bad']);
  });

  it('that reads nothing after the engine has finished is let go', async () => {
    const engine = keep(await startHttp((_, answer) => answer.end(Buffer.alloc(64 << 20, 'x'))));
    const timeouts = { ...testSettings.timeouts, client: 100 };
    const proxy = keep(await startPlainProxy({ upstream: engine.url, timeouts }));
    const socket = connect({ port: proxy.port, host: '127.0.0.1' });
    socket.on('error', () => undefined).pause();
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(await proxy.nextEnd()).toMatchObject({ ending: 'client-left' });
    while ((await proxy.connections()) > 0) await new Promise(setImmediate);
    socket.destroy();
  });
});
