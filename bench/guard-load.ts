/** An engine and clients on bare sockets, which cost little compared with a proxy. */
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';

export interface Sample {
  /** In milliseconds, in order of size. */
  readonly latencies: readonly number[];
  readonly perSecond: number;
}

const speculation = {
  ...{ mean_acceptance_length: 2.5, draft_acceptance_rate: 0.5, acceptance_histogram: [3, 3, 3, 3] },
  ...{ num_spec_steps: 12, num_accepted_draft_tokens: 18, num_draft_tokens: 36, num_spec_tokens: 3 },
};
const closing = {
  usage: { prompt_tokens: 20, completion_tokens: 30 },
  metrics: { speculative_decoding: speculation },
};
const common = { id: 'cmpl-1', object: 'chat.completion', created: 1, model: 'bench' };
const message = { role: 'assistant', content: 'An answer of some thirty words or so. '.repeat(4) };
const answerBody = JSON.stringify({
  ...common,
  choices: [{ index: 0, message, finish_reason: 'stop' }],
  ...closing,
});
const answer = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${answerBody.length}\r\n\r\n${answerBody}`;
const streamHead = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n';
const eventsOfStream = 100;
const eventMs = 100;

const requestBody = (isStream: boolean): string =>
  JSON.stringify({
    ...{ model: 'bench', stream: isStream, max_tokens: 64 },
    messages: [{ role: 'user', content: 'Why is the sky blue, and since when? Answer in thirty words.' }],
  });
function requestOf(isStream: boolean): string {
  const body = requestBody(isStream);
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer sk-bench-1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

const now = (): number => performance.timeOrigin + performance.now();

export async function startSocketEngine(): Promise<number> {
  const server = createServer({ noDelay: true }, (socket) => {
    let text = '';
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
      for (;;) {
        const head = text.indexOf('\r\n\r\n');
        const length = /content-length: (\d+)/i.exec(text)?.[1] ?? '0';
        if (head < 0 || text.length < head + 4 + Number(length)) return;
        const isGet = text.startsWith('GET ');
        const body = text.slice(head + 4, head + 4 + Number(length));
        text = text.slice(head + 4 + Number(length));
        if (isGet) socket.write('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n');
        else if (body.includes('"stream":true')) sendStream(socket);
        else socket.write(answer);
      }
    });
  });
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 });
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function sendStream(socket: Socket): void {
  socket.write(streamHead);
  let left = eventsOfStream;
  const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
  const send = (): void => {
    const content = `t${now().toFixed(3)}t some words`;
    const delta = { ...common, choices: [{ index: 0, delta: { content }, finish_reason: null }] };
    socket.write(chunk(`data: ${JSON.stringify(delta)}\n\n`));
    if (--left > 0 || socket.destroyed) return;
    clearInterval(timer);
    socket.write(
      `${chunk(`data: ${JSON.stringify({ ...common, choices: [], ...closing })}\n\ndata: [DONE]\n\n`)}0\r\n\r\n`,
    );
  };
  // Streams begin at random moments, so that their events do not come all at once.
  let timer = setInterval(() => undefined, 1 << 30);
  setTimeout(() => {
    clearInterval(timer);
    timer = setInterval(send, eventMs);
  }, Math.random() * eventMs);
}

export interface Load {
  readonly connections: number;
  readonly requests: number;
  /** A second, over all connections; as fast as possible without. */
  readonly rate?: number;
}

/** One request at a time on each connection. */
export async function drive(port: number, { connections, requests, rate }: Load): Promise<Sample> {
  const request = requestOf(false);
  const latencies: number[] = [];
  let left = requests;
  const begin = performance.now();
  const pauseMs = rate === undefined ? 0 : (connections / rate) * 1000;
  const work = Array.from({ length: connections }, async (_, index) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    let next = begin + (pauseMs * index) / connections;
    while (left-- > 0) {
      if (rate !== undefined) {
        next += pauseMs;
        const wait = next - performance.now();
        if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      }
      const start = performance.now();
      socket.write(request);
      await readAnswer(socket);
      latencies.push(performance.now() - start);
    }
    socket.destroy();
  });
  await Promise.all(work);
  const seconds = (performance.now() - begin) / 1000;
  return { latencies: latencies.sort((one, other) => one - other), perSecond: requests / seconds };
}

function readAnswer(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let missing = -1;
    let text = '';
    const onData = (bytes: Buffer): void => {
      if (missing < 0) {
        text += bytes.toString('latin1');
        const head = text.indexOf('\r\n\r\n');
        if (head < 0) return;
        const length = /content-length: (\d+)/i.exec(text)?.[1];
        if (length === undefined || !text.startsWith('HTTP/1.1 200')) reject(new Error(text.slice(0, 200)));
        missing = Number(length) - (text.length - head - 4);
      } else missing -= bytes.length;
      if (missing > 0) return;
      socket.off('data', onData);
      resolve();
    };
    socket.on('data', onData);
  });
}
