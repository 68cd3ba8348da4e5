/** A server that shows of itself what an engine shows, from test/fixtures/engines, and remembers what it was asked. */
import { readFileSync } from 'node:fs';
import type { RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';

const folder = resolve(import.meta.dirname, '../fixtures/engines');
export const readFixture = (name: string): string => readFileSync(resolve(folder, name), 'utf8');

export interface EngineServer {
  readonly url: string;
  /** Method and path of each request, in order. */
  readonly asked: readonly string[];
  readonly keys: readonly (string | undefined)[];
  close(): Promise<void>;
}

/** `name` is that of a file NAME-server.json: a path to a JSON value, or to the name of a file of metrics. */
export async function startEngine(name: string, key?: string): Promise<EngineServer> {
  const pages = JSON.parse(readFixture(`${name}-server.json`)) as Record<string, unknown>;
  return startServer((request, response) => {
    if (key !== undefined && request.headers.authorization !== `Bearer ${key}`) {
      send(response, 401, 'application/json', '{"error":"Unauthorized"}');
      return;
    }
    const page = Object.hasOwn(pages, request.url ?? '') ? pages[request.url ?? ''] : undefined;
    if (page === undefined) send(response, 404, 'application/json', '{"detail":"Not Found"}');
    else if (typeof page === 'string')
      send(response, 200, 'text/plain', page === '' ? '' : readFixture(page));
    else send(response, 200, 'application/json', JSON.stringify(page));
  });
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': type }).end(body);
}

export async function startServer(listener: RequestListener): Promise<EngineServer> {
  const asked: string[] = [];
  const keys: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    keys.push(request.headers.authorization);
    listener(request, response);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    keys,
    close: () =>
      new Promise((done) => {
        server.close(() => {
          done();
        });
        server.closeAllConnections();
      }),
  };
}
