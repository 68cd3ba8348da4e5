/** An engine and clients on bare sockets, which cost little compared with a proxy. */
import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

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

const body = JSON.stringify({
  ...{ model: 'bench', stream: false, max_tokens: 64 },
  messages: [{ role: 'user', content: 'Why is the sky blue, and since when? Answer in thirty words.' }],
});
const request = `POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer sk-bench-1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

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
        text = text.slice(head + 4 + Number(length));
        socket.write(isGet ? 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n' : answer);
      }
    });
  });
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 });
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

export interface Load {
  readonly connections: number;
  readonly requests: number;
}

/** One request at a time on each connection. */
export async function drive(port: number, { connections, requests }: Load): Promise<Sample> {
  const latencies: number[] = [];
  let left = requests;
  const begin = performance.now();
  const work = Array.from({ length: connections }, async () => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    while (left-- > 0) {
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
