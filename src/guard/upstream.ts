/**
 * An engine's address and the connections to it. A request goes out with exactly the header fields that it is given, and
 * ends in one of two ways: an answer begins, or a failure says which of the waits was in vain.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpAgent, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { MistletoeError } from '../core/errors.js';
import { Deadline } from './deadline.js';

export interface UpstreamTimeouts {
  /** Until the connection stands; zero waits for ever, as for the others. */
  readonly connectMs: number;
  /** From the end of the request to the head of the answer: queueing and prefill. */
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

/** For clients: what happened, and not where. */
const sentences: Readonly<Record<UpstreamFailureKind, string>> = {
  unreachable: 'The engine behind this address does not accept connections.',
  'connect-timeout': 'The engine behind this address did not accept the connection in time.',
  'first-byte-timeout': 'The engine behind this address did not begin to answer in time.',
  broken: 'The engine behind this address broke off before it answered.',
};

export interface OutgoingRequest {
  readonly method: string;
  /** Path and query, as the client sent them. */
  readonly path: string;
  /** Names and values by turns, without Host. */
  readonly headers: readonly string[];
}

export interface OutgoingListeners {
  readonly onResponse: (response: IncomingMessage) => void;
  readonly onFailure: (failure: UpstreamFailure) => void;
}

export interface Outgoing {
  readonly request: ClientRequest;
  /** To be called when the last byte of the request has been handed over. */
  expectAnswer(): void;
  /** Closes the connection; nobody is called any more. */
  abandon(): void;
}

const longestRestMs = 4000;

export class Upstream {
  /** As an operator may see it: without user and password. */
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
    // A request is never sent twice, so a connection must not be one that the engine is just closing: that which rested
    // least is taken first, and none that rested longer than the shortest habit among engines (uvicorn's five seconds).
    const settings = {
      keepAlive: true,
      noDelay: true,
      scheduling: 'lifo',
      maxFreeSockets: 1024,
      timeout: longestRestMs,
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
    // An engine that asks for another protocol unasked: the connection is lost for HTTP.
    request.once('upgrade', (_response, socket) => {
      socket.destroy();
      fail('broken');
    });
    // Stays for the life of the request: what fails after the answer began is told by the answer itself.
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
      hint: 'Give it as http://HOST:PORT, with a path in front of /v1 where the engine has one.',
    });
  };
  if (!URL.canParse(text)) return refuse('is no URL');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    refuse(`begins with ${url.protocol}, not with http`);
  if (url.username !== '' || url.password !== '')
    refuse('holds a user or password, which belong into a header');
  if (url.search !== '' || url.hash !== '') refuse('has a query or a fragment');
  return url;
}
