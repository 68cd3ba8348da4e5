/** An engine's address and its connections. A request ends with a response or with a failure that names its reason. */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpAgent, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { MistletoeError } from '../../core/errors.js';
import { Deadline } from './deadline.js';

export interface UpstreamTimeouts {
  /** 0 for no limit, as below. */
  readonly connectMs: number;
  /** From the end of the request to the response head: queueing and prefill. */
  readonly firstByteMs: number;
}

export type UpstreamFailureKind = 'unreachable' | 'connect-timeout' | 'first-byte-timeout' | 'broken';

export class UpstreamFailure extends Error {
  constructor(
    readonly kind: UpstreamFailureKind,
    cause?: unknown,
  ) {
    super(sentences[kind], { cause });
    this.name = 'UpstreamFailure';
  }

  get status(): 502 | 504 {
    return this.kind === 'first-byte-timeout' || this.kind === 'connect-timeout' ? 504 : 502;
  }
}

/** Sent to clients, so without addresses. */
const sentences: Readonly<Record<UpstreamFailureKind, string>> = {
  unreachable: 'The engine does not accept connections.',
  'connect-timeout': 'The engine did not accept the connection in time.',
  'first-byte-timeout': 'The engine did not start a response in time.',
  broken: 'The engine closed the connection before it responded.',
};

export interface OutgoingRequest {
  readonly method: string;
  /** Path and query, as the client sent them. */
  readonly path: string;
  /** Names and values alternate, without Host. */
  readonly headers: readonly string[];
}

export interface OutgoingListeners {
  readonly onResponse: (response: IncomingMessage) => void;
  readonly onFailure: (failure: UpstreamFailure) => void;
}

export interface Outgoing {
  readonly request: ClientRequest;
  /** Call after the last byte of the request. */
  expectAnswer(): void;
  /** Closes the connection; no listener is called afterwards. */
  abandon(): void;
}

/** Below the keep-alive time of engines (uvicorn: 5 s): a request is never sent twice, so it must not meet a closing connection. */
const maxIdleMs = 4000;

export class Upstream {
  readonly address: string;
  private readonly agent: HttpAgent | HttpsAgent;
  private readonly isSecure: boolean;
  private readonly host: string;
  private readonly hostHeader: string;
  private readonly port: number;
  private readonly basePath: string;

  constructor(
    url: string,
    private readonly timeouts: UpstreamTimeouts,
  ) {
    const { protocol, hostname, port, pathname, host, origin } = checkUrl(url);
    this.isSecure = protocol === 'https:';
    this.host = hostname.replace(/^\[|\]$/g, '');
    this.hostHeader = host;
    this.port = port === '' ? (this.isSecure ? 443 : 80) : Number(port);
    this.basePath = pathname.replace(/\/+$/, '');
    this.address = `${origin}${this.basePath}`;
    const settings = {
      keepAlive: true,
      noDelay: true,
      scheduling: 'lifo',
      maxFreeSockets: 1024,
      timeout: maxIdleMs,
    } as const;
    this.agent = this.isSecure ? new HttpsAgent(settings) : new HttpAgent(settings);
  }

  open(outgoing: OutgoingRequest, { onResponse, onFailure }: OutgoingListeners): Outgoing {
    const { timeouts } = this;
    const deadline = new Deadline();
    let isOver = false;
    const request = (this.isSecure ? requestHttps : requestHttp)({
      agent: this.agent,
      host: this.host,
      port: this.port,
      method: outgoing.method,
      path: this.basePath + outgoing.path,
      headers: ['Host', this.hostHeader, ...outgoing.headers],
    });
    const fail = (kind: UpstreamFailureKind, cause?: unknown): void => {
      if (isOver) return;
      isOver = true;
      deadline.clear();
      request.destroy();
      onFailure(new UpstreamFailure(kind, cause));
    };
    let isConnected = false;
    let isSent = false;
    const waitForAnswer = (): void => {
      if (!isConnected || !isSent || isOver) return;
      deadline.wait(timeouts.firstByteMs, () => {
        fail('first-byte-timeout');
      });
    };
    request.once('socket', (socket) => {
      isConnected = !socket.connecting;
      if (isConnected) waitForAnswer();
      else {
        deadline.wait(timeouts.connectMs, () => {
          fail('connect-timeout');
        });
        socket.once(this.isSecure ? 'secureConnect' : 'connect', () => {
          isConnected = true;
          deadline.clear();
          waitForAnswer();
        });
      }
    });
    request.once('response', (response) => {
      if (isOver) return;
      isOver = true;
      deadline.clear();
      onResponse(response);
    });
    // An unrequested upgrade ends the connection for HTTP.
    request.once('upgrade', (_response, socket) => {
      socket.destroy();
      fail('broken');
    });
    // Stays for the life of the request; failures after the response began come through the response.
    request.on('error', (cause) => {
      fail(isConnected ? 'broken' : 'unreachable', cause);
    });
    return {
      request,
      expectAnswer() {
        isSent = true;
        waitForAnswer();
      },
      abandon() {
        isOver = true;
        deadline.clear();
        request.destroy();
      },
    };
  }

  close(): void {
    this.agent.destroy();
  }
}

function checkUrl(text: string): URL {
  const refuse = (wrong: string): never => {
    throw new MistletoeError('usage', `The upstream's address ${wrong}.`, {
      hint: 'Pass http://HOST:PORT, plus a path before /v1 if the engine has one.',
    });
  };
  if (!URL.canParse(text)) return refuse('is not a URL');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    refuse(`starts with ${url.protocol} instead of http`);
  if (url.username !== '' || url.password !== '')
    refuse('contains a user name or password, which belong in a header');
  if (url.search !== '' || url.hash !== '') refuse('has a query or a fragment');
  return url;
}
