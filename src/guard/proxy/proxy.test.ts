/** Through the proxy or without it: an engine and a client must not be able to tell, whatever they send. */
import type { IncomingMessage } from 'node:http';
import { Agent, request as requestHttp } from 'node:http';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  closeAfterEach,
  readAll,
  startHttp,
  startRaw,
  talk,
} from '../../../test/support/guard/fake-upstream.js';
import { startPlainProxy } from '../../../test/support/guard/plain-proxy.js';

const keep = closeAfterEach();

interface Message {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly string[];
  readonly pieces: readonly Uint8Array[];
  readonly isChunked: boolean;
}

interface Received {
  readonly line: string;
  readonly headers: readonly string[];
  readonly body: string;
}

const connectionFields = /^(?:connection|keep-alive|transfer-encoding|host|te|date)$/i;
const withoutConnection = (raw: readonly string[]): string[] =>
  raw.filter((_, index) => !connectionFields.test(raw[index - (index % 2)]!));

async function receive(message: IncomingMessage, line: string): Promise<Received> {
  const body = (await readAll(message)).toString('latin1');
  return { line, headers: withoutConnection(message.rawHeaders), body };
}

async function exchange(url: string, sent: Message, agent: Agent): Promise<Received> {
  const { port } = new URL(url);
  const length = sent.pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const framing = sent.isChunked ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', String(length)];
  const request = requestHttp({
    host: '127.0.0.1',
    port,
    agent,
    method: sent.method,
    path: sent.path,
    headers: ['Host', 'a.test', ...sent.headers, ...framing],
  });
  for (const piece of sent.pieces) request.write(piece);
  request.end();
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve).once('error', reject);
  });
  return receive(response, `${response.statusCode} ${response.statusMessage}`);
}

const token = fc.stringMatching(/^[a-zA-Z][\w-]{0,12}$/).map((name) => `X-${name}`);
const value = fc.stringMatching(/^[!-~\u00a0-\u00ff](?:[ -~\u00a0-\u00ff]{0,30}[!-~\u00a0-\u00ff])?$/);
const headers = fc.array(fc.tuple(token, value), { maxLength: 6 });
const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 3000 }), { maxLength: 6 });

describe('bytes', () => {
  it('are the same with and without the proxy, both ways, with their header fields', async () => {
    let answer: Omit<Message, 'method' | 'path'> & { status: number; reason: string };
    let received: Received[] = [];
    const engine = keep(
      await startHttp((request, response) => {
        void receive(request, `${request.method} ${request.url}`).then((message) => {
          received.push(message);
          response.sendDate = false;
          const length = answer.pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
          response.writeHead(answer.status, answer.reason, [
            ...answer.headers,
            ...(answer.isChunked ? [] : ['Content-Length', String(length)]),
          ]);
          for (const piece of answer.pieces) response.write(piece);
          response.end();
        });
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const agent = new Agent({ keepAlive: true });
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          method: fc.constantFrom('POST', 'PUT', 'GET', 'DELETE', 'PATCH'),
          path: fc.stringMatching(/^\/[!-"$-~]{0,40}$/),
          headers: headers.map((pairs) => pairs.flat()),
          pieces,
          isChunked: fc.boolean(),
        }),
        fc.record({
          status: fc.constantFrom(200, 201, 400, 404, 429, 500, 503),
          reason: fc.constantFrom('OK', 'Fine', ''),
          headers: headers.map((pairs) => pairs.flat()),
          pieces,
          isChunked: fc.boolean(),
        }),
        async (sent, given) => {
          answer = given;
          received = [];
          const direct = await exchange(engine.url, sent, agent);
          const through = await exchange(proxy.url, sent, agent);
          expect(through).toEqual(direct);
          expect(received[1]).toEqual(received[0]);
        },
      ),
      { numRuns: 150 },
    );
    agent.destroy();
    expect(proxy.seen.every(({ ending }) => ending === 'complete')).toBe(true);
  });

  it('of a stream pass as they come, and the head before them', async () => {
    const steps: (() => void)[] = [];
    const engine = keep(
      await startRaw((socket) => {
        const parts = [
          'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n',
          'b\r\ndata: one\n\n\r\n',
          '6\r\ndata: \r\n', // half an event
          '5\r\ntwo\n\n\r\n0\r\n\r\n',
        ];
        for (const part of parts) steps.push(() => socket.write(part));
        steps[0]!();
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const response = await fetch(proxy.url, { method: 'POST', body: '{}' });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const reader = response.body!.getReader();
    const seen: string[] = [];
    for (const step of steps.slice(1)) {
      step();
      // Each part is only sent once the one before has come through: what is held back would hang here.
      const { value } = (await reader.read()) as { readonly value: Uint8Array };
      seen.push(Buffer.from(value).toString());
    }
    expect(seen).toEqual(['data: one\n\n', 'data: ', 'two\n\n']);
    expect((await reader.read()).done).toBe(true);
  });

  it('are read whole where they are wanted, and may be replaced', async () => {
    const engine = keep(
      await startHttp((request, response) => {
        void readAll(request).then((body) =>
          response.end(`${request.headers['content-length']} ${body.toString()}`),
        );
      }),
    );
    const proxy = keep(
      await startPlainProxy({
        upstream: engine.url,
        route: (route, body) => ({ ...route, body: Buffer.from(`[${body?.toString() ?? ''}]`) }),
      }),
    );
    const response = await fetch(proxy.url, { method: 'POST', body: '{"a":1}' });
    expect(await response.text()).toBe('9 [{"a":1}]');
  });

  it('of bodies larger than may be read pass unread', async () => {
    const engine = keep(
      await startHttp((request, response) => {
        void readAll(request).then((body) => response.end(String(body.byteLength)));
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    for (const isChunked of [false, true]) {
      const agent = new Agent();
      const { body } = await exchange(
        proxy.url,
        {
          method: 'POST',
          path: '/',
          headers: [],
          pieces: Array.from({ length: 30 }, () => new Uint8Array(100_000)),
          isChunked,
        },
        agent,
      );
      expect(body).toBe('3000000');
    }
    expect(proxy.seen.map(({ body }) => body)).toEqual([undefined, undefined]);
  });

  it('of several requests share a connection until the engine closes it', async () => {
    let connections = 0;
    const engine = keep(
      await startRaw((socket) => {
        connections++;
        let requests = 0;
        const respond = (): void => {
          const isLast = ++requests === 2;
          const close = isLast ? 'Connection: close\r\n' : '';
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${close}\r\n{}`);
          if (isLast) socket.end();
        };
        respond();
        socket.on('data', respond);
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    for (let count = 0; count < 5; count++) {
      const response = await fetch(proxy.url, { method: 'POST', body: '{}' });
      expect([response.status, await response.text()]).toEqual([200, '{}']);
    }
    expect(connections).toBe(3);
  });

  it('wait for "100 Continue" no longer than the proxy', async () => {
    const engine = keep(
      await startHttp((request, response) => {
        void readAll(request).then((body) => response.end(`${request.headers.expect} ${body.toString()}`));
      }),
    );
    const proxy = keep(await startPlainProxy({ upstream: engine.url }));
    const answer = await talk(
      proxy.port,
      'POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok',
    );
    expect(answer).toContain('HTTP/1.1 100 Continue');
    expect(answer).toContain('undefined ok');
  });
});
