/** Engines of a test's own on loopback: one that speaks HTTP, one that sends whatever bytes it is told to. */
import { once } from 'node:events';
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo, Server, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { afterEach } from 'vitest';

export interface Listening {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

export async function listen(server: Server | HttpServer): Promise<Listening> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    async close() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

export async function startHttp(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Listening> {
  return listen(createHttpServer({ noDelay: true, keepAliveTimeout: 60_000 }, answer));
}

/** `script` gets the connection once the head of a request has come. */
export async function startRaw(script: (socket: Socket, head: string) => void): Promise<Listening> {
  return listen(
    createServer({ noDelay: true }, (socket) => {
      let seen = '';
      const onData = (bytes: Buffer): void => {
        seen += bytes.toString('latin1');
        if (!seen.includes('\r\n\r\n')) return;
        socket.off('data', onData);
        script(socket, seen);
      };
      socket.on('data', onData);
    }),
  );
}

/** Sends bytes as they are and returns everything that came until the other side closed. */
export async function talk(port: number, bytes: string | Buffer): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const pieces: Buffer[] = [];
  socket.on('data', (piece) => pieces.push(piece));
  socket.on('error', () => undefined);
  socket.write(bytes);
  await new Promise((resolve) => socket.once('close', resolve));
  return Buffer.concat(pieces).toString('latin1');
}

export async function readAll(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}

export interface Signal<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
}

export function createSignal<T = void>(): Signal<T> {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((given) => {
    resolve = given;
  });
  return { promise, resolve };
}

/** What is kept is closed after each test, the last first. */
export function closeAfterEach(): <T extends { close(): Promise<void> }>(listening: T) => T {
  const open: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close();
  });
  return (listening) => {
    open.push(listening);
    return listening;
  };
}
