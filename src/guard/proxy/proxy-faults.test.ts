/** What goes wrong between a client and an engine: each ends where it began, and the next request is answered. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer, request as requestHttp } from 'node:http';
import type { Socket } from 'node:net';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import {
  closeAfterEach,
  createSignal,
  listen,
  readAll,
  startHttp,
  startRaw,
  talk,
} from '../../../test/support/guard/fake-upstream.js';
import { startPlainProxy, testSettings } from '../../../test/support/guard/plain-proxy.js';

const keep = closeAfterEach();

async function post(
  url: string,
  body = '{}',
): Promise<{ status: number; error: { code?: string } | undefined }> {
  const response = await fetch(url, { method: 'POST', body });
  const { error } = (await response.json()) as { error?: { code?: string } };
  return { status: response.status, error };
}

const streamHead = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';
const event = 'b\r\ndata: one\n\n\r\n';

/** Everything until the connection ended, and whether it ended as it should. */
async function drain(url: string): Promise<{ text: string; isWhole: boolean }> {
  const request = requestHttp(url, { method: 'POST', headers: { 'content-length': '2' } });
  request.end('{}');
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let text = '';
  response.on('data', (bytes: Buffer) => (text += bytes.toString()));
  return new Promise((resolve) => {
    response.once('error', () => undefined);
    response.once('close', () => {
      resolve({ text, isWhole: response.complete });
    });
  });
}

describe('an engine that', () => {
  it('refuses connections is a 502 as OpenAI’s clients know it', async () => {
    const gone = await listen(createServer());
    await gone.close();
    const proxy = keep(await startPlainProxy({ upstream: gone.url }));
    const { status, error } = await post(proxy.url);
    expect([status, error?.code]).toEqual([502, 'upstream_unreachable']);
    expect(JSON.stringify(error)).not.toContain(String(gone.port));
    expect(proxy.seen).toMatchObject([{ status: 502, ending: 'upstream-failed' }]);
  });

  it('says garbage instead of HTTP is a 502', async () => {
    const engine = keep(await startRaw((socket) => socket.end('\u0000\u0001 what is this?\r\n\r\n')));
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    expect(await post(proxy.url)).toMatchObject({ status: 502, error: { code: 'upstream_broken' } });
  });

  it('closes before it answers is a 502', async () => {
    const engine = keep(await startRaw((socket) => socket.destroy()));
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    expect(await post(proxy.url)).toMatchObject({ status: 502, error: { code: 'upstream_broken' } });
  });

  it('never begins to answer is a 504', async () => {
    const engine = keep(await startRaw(() => undefined));
    const upstreamTimeouts = { connect: 0, firstByte: 30 };
    const proxy = keep(await startPlainProxy({ upstream: engine.url, upstreamTimeouts }));
    expect(await post(proxy.url)).toMatchObject({
      status: 504,
      error: { code: 'upstream_first_byte_timeout' },
    });
  });

  it('falls silent within an answer is given up, and what came before arrives', async () => {
    const engine = keep(await startRaw((socket) => socket.write(streamHead + event)));
    const timeouts = { ...testSettings.timeouts, idle: 50 };
    const proxy = keep(await startPlainProxy({ upstream: engine.url, timeouts }));
    expect(await drain(proxy.url)).toEqual({ text: 'data: one\n\n', isWhole: false });
    expect(proxy.seen).toMatchObject([{ status: 200, ending: 'upstream-failed' }]);
  });

  it.each([
    ['between two events', event],
    ['in the middle of an event', `${event}6\r\ndata: \r\n`],
    ['in the middle of a chunk', `${event}ff\r\ndata: tw`],
  ])('dies %s breaks the answer off there', async (_, sent) => {
    const engine = keep(
      await startRaw((socket) => {
        socket.write(streamHead + sent, () => {
          setImmediate(() => socket.resetAndDestroy());
        });
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const { text, isWhole } = await drain(proxy.url);
    expect(isWhole).toBe(false);
    expect(text.startsWith('data: one\n\n')).toBe(true);
    expect(proxy.seen).toMatchObject([{ ending: 'upstream-failed' }]);
    expect((await post(proxy.url).catch(() => undefined)) === undefined).toBe(true);
  });

  it('promises more than it sends breaks the answer off, too', async () => {
    const engine = keep(
      await startRaw((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    expect(await drain(proxy.url)).toEqual({ text: 'half', isWhole: false });
  });

  it('answers before it has read the request is heard', async () => {
    const engine = keep(
      await startRaw((socket) => {
        socket.end('HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}');
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const socket = connect(proxy.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n');
    socket.write(Buffer.alloc(100_000));
    const [first] = (await once(socket, 'data')) as [Buffer];
    expect(first.toString()).toContain('413 Too Large');
    socket.destroy();
  });

  it('sends 100 MB is passed on with flat memory', async () => {
    const piece = Buffer.alloc(1 << 20, 'x');
    let sent = 0;
    const engine = keep(
      await startHttp((_, response) => {
        const more = (): void => {
          while (sent < 100 << 20) {
            sent += piece.byteLength;
            if (!response.write(piece)) {
              response.once('drain', more);
              return;
            }
          }
          response.end();
        };
        more();
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const request = requestHttp(proxy.url);
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    let received = 0;
    let mostUnderway = 0;
    for await (const bytes of response) {
      received += (bytes as Buffer).byteLength;
      mostUnderway = Math.max(mostUnderway, sent - received);
    }
    expect(received).toBe(100 << 20);
    // What is neither here nor there lies in the kernel's buffers and in the proxy.
    expect(mostUnderway).toBeLessThan(32 << 20);
  });
});

describe('a client that', () => {
  it('leaves ends the work of the engine', async () => {
    let engineSocket: Socket | undefined;
    const engine = keep(
      await startRaw((socket) => {
        engineSocket = socket;
        socket.write(streamHead + event);
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const request = requestHttp(proxy.url, { method: 'POST', headers: { 'content-length': '2' } });
    request.on('error', () => undefined);
    request.end('{}');
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => undefined);
    await once(response, 'data');
    const closed = once(engineSocket!, 'close');
    const ended = proxy.nextEnd();
    request.destroy();
    await closed;
    expect(await ended).toMatchObject({ ending: 'client-left', status: 200, bytes: 11 });
  });

  it('leaves before the engine answers ends its work as well', async () => {
    const arrived = createSignal<Socket>();
    const engine = keep(
      await startRaw((socket) => {
        arrived.resolve(socket);
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const request = requestHttp(proxy.url, { method: 'POST', headers: { 'content-length': '2' } });
    request.on('error', () => undefined);
    request.end('{}');
    const socket = await arrived.promise;
    const closed = once(socket, 'close');
    const ended = proxy.nextEnd();
    request.destroy();
    await closed;
    expect(await ended).toMatchObject({ ending: 'client-left', status: 0 });
  });

  it('leaves in the middle of its body reaches no engine', async () => {
    let requests = 0;
    const engine = keep(
      await startHttp((_, response) => {
        requests++;
        response.end('{}');
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const socket = connect(proxy.port, '127.0.0.1');
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"half":');
    await once(socket, 'ready');
    socket.destroy();
    await post(proxy.url);
    expect(requests).toBe(1);
  });

  it('reads nothing holds the engine back instead of filling memory', async () => {
    const piece = Buffer.alloc(64 << 10, 'x');
    let written = 0;
    const engine = keep(
      await startHttp(({ url }, response) => {
        if (url === '/other') {
          response.end('{}');
          return;
        }
        const more = (): void => {
          // Endless: only a full pipe stops it.
          for (;;) {
            written += piece.byteLength;
            if (!response.write(piece)) break;
          }
          response.once('drain', more);
        };
        more();
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const socket = connect(proxy.port, '127.0.0.1');
    socket.pause();
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    // Others go on meanwhile. All of this is one process: what passes while they are answered is all that can pass.
    for (let before = -1; written !== before && written < 64 << 20;) {
      before = written;
      for (let count = 0; count < 20; count++)
        expect(await post(`${proxy.url}/other`)).toMatchObject({ status: 200 });
    }
    // The kernel's buffers of four sockets; without backpressure it would never stop.
    expect(written).toBeGreaterThan(0);
    expect(written).toBeLessThan(64 << 20);
    socket.destroy();
  });

  it('takes nothing for too long is let go, and the engine with it', async () => {
    const piece = Buffer.alloc(64 << 10, 'x');
    const closed = createSignal();
    const engine = keep(
      await startHttp((_, response) => {
        const more = (): void => {
          while (response.write(piece));
          response.once('drain', more);
        };
        response.once('close', () => {
          closed.resolve();
        });
        more();
      }),
    );
    const timeouts = { ...testSettings.timeouts, client: 100 };
    const proxy = keep(await startPlainProxy({ upstream: engine.url, timeouts }));
    const ended = proxy.nextEnd();
    const socket = connect(proxy.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.pause();
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await closed.promise;
    expect(await ended).toMatchObject({ ending: 'client-left' });
    socket.destroy();
  });

  it('sends more than may pass is refused, announced or not', async () => {
    const engine = keep(
      await startHttp((request, response) => {
        request.on('error', () => undefined);
        void readAll(request)
          .then(() => response.end('{}'))
          .catch(() => undefined);
      }),
    );
    const limits = { ...testSettings.limits, requestSize: 100_000, readSize: 1000 };
    const proxy = keep(await startPlainProxy({ upstream: engine.url, limits }));
    const announced = await talk(proxy.port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n');
    expect(announced).toContain('413 Payload Too Large');
    expect(announced).toContain('request_too_large');
    const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`;
    const unannounced = await talk(
      proxy.port,
      `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(10)}`,
    );
    expect(unannounced).toContain('413 Payload Too Large');
    expect((await fetch(proxy.url, { method: 'POST', body: '{}' })).status).toBe(200);
  });
});

describe('a request that two readers could read differently', () => {
  const head = (lines: string, target = '/v1/x'): string => `POST ${target} HTTP/1.1\r\n${lines}\r\n\r\n`;
  it.each([
    ['both lengths', head('Host: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked') + '0\r\n\r\n', 400],
    ['two lengths', head('Host: a\r\nContent-Length: 3\r\nContent-Length: 4') + 'abcd', 400],
    ['the same length twice', head('Host: a\r\nContent-Length: 3\r\nContent-Length: 3') + 'abc', 400],
    ['a signed length', head('Host: a\r\nContent-Length: +3') + 'abc', 400],
    ['two encodings', head('Host: a\r\nTransfer-Encoding: chunked, chunked') + '0\r\n\r\n', 400],
    ['an encoding not known', head('Host: a\r\nTransfer-Encoding: xchunked') + '0\r\n\r\n', 400],
    ['a disguised encoding', head('Host: a\r\nTransfer-Encoding : chunked') + '0\r\n\r\n', 400],
    ['a folded header', head('Host: a\r\nX-A: b\r\n Content-Length: 3'), 400],
    ['a bare line feed', 'POST / HTTP/1.1\nHost: a\nContent-Length: 0\n\n', 400],
    ['a broken chunk', head('Host: a\r\nTransfer-Encoding: chunked') + 'zz\r\nabc\r\n0\r\n\r\n', 400],
    ['no host', head('X-A: b\r\nContent-Length: 0'), 400],
    ['two hosts', head('Host: a\r\nHost: b\r\nContent-Length: 0'), 400],
    ['a host with a user', head('Host: a@b\r\nContent-Length: 0'), 400],
    ['a host with a path', head('Host: a/b\r\nContent-Length: 0'), 400],
    ['another host as target', head('Host: a\r\nContent-Length: 0', 'http://169.254.169.254/latest'), 400],
    ['no path as target', head('Host: a\r\nContent-Length: 0', '*'), 400],
    ['CONNECT', 'CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n', 405],
    ['TRACE', 'TRACE / HTTP/1.1\r\nHost: a\r\n\r\n', 405],
    ['an upgrade', 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n', 501],
    ['another protocol', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['garbage', '\u0016\u0003\u0001\u0002\u0000\u0001\r\n\r\n', 400],
    ['headers without end', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`, 431],
  ])('is refused: %s', async (_, bytes, status) => {
    let requests = 0;
    const engine = keep(
      await startHttp((request, response) => {
        requests++;
        request.on('error', () => undefined);
        response.end('ENGINE');
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    // A second request behind it must not come to life either.
    const answer = await talk(proxy.port, `${bytes}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer.match(/HTTP\/1\.1 \d/g)).toHaveLength(1);
    expect(answer).toContain('"error"');
    expect(answer).not.toContain('ENGINE');
    expect(requests).toBe(0);
  });

  it('loses the fields of the connection, those that Connection names among them', async () => {
    const engine = keep(await startHttp((request, response) => response.end(request.rawHeaders.join('|'))));
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const answer = await talk(
      proxy.port,
      'GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Mine, Content-Length\r\nX-Mine: 1\r\nX-Other: 2\r\n' +
        'Keep-Alive: 5\r\nProxy-Authorization: secret\r\nTE: trailers, deflate\r\n\r\n',
    );
    expect(answer).toContain('X-Other|2');
    for (const gone of ['X-Mine', 'Keep-Alive|', 'secret', 'TE|']) expect(answer).not.toContain(gone);
  });
});
