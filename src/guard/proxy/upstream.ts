/** An engine's address and its connections. */
import type { ClientRequest } from 'node:http';
import { Agent as HttpAgent, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { MistletoeError } from '../../core/errors.js';
import type { ErrorResponse, RawHeaders } from './message-headers.js';

/** In milliseconds; 0 for no limit. */
export interface UpstreamTimeouts {
  readonly connect: number;
  /** From the end of the request to the response head: queueing and prefill. */
  readonly firstByte: number;
}

/** Sent to clients, so without addresses. */
const failures = {
  unreachable: [502, 'The engine does not accept connections.'],
  'connect-timeout': [504, 'The engine did not accept the connection in time.'],
  'first-byte-timeout': [504, 'The engine did not start a response in time.'],
  broken: [502, 'The engine closed the connection before it responded.'],
} as const;

export type UpstreamFailure = keyof typeof failures;

export function describeFailure(kind: UpstreamFailure): ErrorResponse {
  const [status, message] = failures[kind];
  return { status, message, code: `upstream_${kind.replaceAll('-', '_')}` };
}

/** Below the keep-alive time of engines (uvicorn: 5 s): a request is never sent twice, so it must not meet a closing connection. */
const maxIdleMs = 4000;

export class Upstream {
  /** The socket's event when it can be used. */
  readonly connectEvent: 'connect' | 'secureConnect';
  private readonly agent: HttpAgent | HttpsAgent;
  private readonly host: string;
  private readonly hostHeader: string;
  private readonly port: number;
  private readonly basePath: string;

  constructor(
    url: string,
    readonly timeouts: UpstreamTimeouts,
  ) {
    const { protocol, hostname, port, pathname, host } = checkUrl(url);
    const isSecure = protocol === 'https:';
    this.connectEvent = isSecure ? 'secureConnect' : 'connect';
    this.host = hostname.replace(/^\[|\]$/g, '');
    this.hostHeader = host;
    this.port = port === '' ? (isSecure ? 443 : 80) : Number(port);
    this.basePath = pathname.replace(/\/+$/, '');
    const pool = { keepAlive: true, scheduling: 'lifo', maxFreeSockets: 1024, timeout: maxIdleMs } as const;
    const settings = { ...pool, noDelay: true };
    this.agent = isSecure ? new HttpsAgent(settings) : new HttpAgent(settings);
  }

  /**
   * @param path path and query, as the client sent them
   * @param headers without Host
   */
  request(method: string, path: string, headers: RawHeaders): ClientRequest {
    const { agent, host, port } = this;
    return (agent instanceof HttpsAgent ? requestHttps : requestHttp)({
      ...{ agent, host, port, method, path: this.basePath + path },
      headers: ['Host', this.hostHeader, ...headers],
    });
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
