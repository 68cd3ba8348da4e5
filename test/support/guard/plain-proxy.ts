/** A proxy that passes everything to one engine and remembers what it saw. */
import { promisify } from 'node:util';
import type {
  ExchangeEnding,
  ProxySettings,
  RequestHead,
  Route,
} from '../../../src/guard/proxy/exchange-route.js';
import { createProxy } from '../../../src/guard/proxy/proxy.js';
import { Upstream } from '../../../src/guard/proxy/upstream.js';
import type { Listening } from './fake-upstream.js';
import { listen } from './fake-upstream.js';

export const testSettings: ProxySettings = {
  timeouts: { connect: 0, firstByte: 0, idle: 0, client: 0, request: 0, shutdown: 0 },
  limits: { requestSize: 256 << 20, readSize: 1 << 20, heldSize: 8 << 20, headerSize: 16 << 10 },
};

export interface SeenExchange {
  readonly head: RequestHead;
  readonly body: Buffer | undefined;
  readonly status: number;
  readonly ending: ExchangeEnding;
  readonly bytes: number;
}

export interface PlainProxy extends Listening {
  readonly seen: SeenExchange[];
  /** The next exchange that ends. */
  nextEnd(): Promise<SeenExchange>;
  /** Open connections of clients. */
  connections(): Promise<number>;
}

export interface PlainOptions extends Partial<ProxySettings> {
  readonly upstream: string;
  readonly upstreamTimeouts?: { readonly connect: number; readonly firstByte: number };
  readonly route?: (route: Extract<Route, { kind: 'pass' }>, body: Buffer | undefined) => Route;
}

export async function startPlainProxy(options: PlainOptions): Promise<PlainProxy> {
  const upstream = new Upstream(options.upstream, options.upstreamTimeouts ?? { connect: 0, firstByte: 0 });
  const seen: SeenExchange[] = [];
  let waiting: ((exchange: SeenExchange) => void)[] = [];
  const server = createProxy(
    {
      wantsBody: ({ method }) => method === 'POST',
      decide(head, body) {
        let bytes = 0;
        const watcher = {
          onStart: () => undefined,
          onBytes: (piece: Buffer) => {
            bytes += piece.byteLength;
          },
          onEnd: (ending: ExchangeEnding, status: number) => {
            const exchange = { head, body, status, ending, bytes };
            seen.push(exchange);
            for (const resolve of waiting) resolve(exchange);
            waiting = [];
          },
        };
        const route = { kind: 'pass', upstream, watcher } as const;
        return options.route?.(route, body) ?? route;
      },
    },
    { ...testSettings, ...options },
  );
  const listening = await listen(server);
  return {
    ...listening,
    seen,
    nextEnd: () => new Promise((resolve) => waiting.push(resolve)),
    connections: () => promisify(server.getConnections.bind(server))(),
    async close() {
      await listening.close();
      upstream.close();
    },
  };
}
