/**
 * The guard's own pages, below /mistletoe. The page itself, which holds no data, and /mistletoe/health are for everybody;
 * what is behind them is the operator's.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describeCause } from '../core/errors.js';
import { answerError } from './error-answer.js';
import type { OperatorAccess } from './operator-access.js';
import { refuseOperator } from './operator-access.js';
import type { PageState } from './page-state.js';
import type { RecordQuery } from './record-index.js';
import type { FoundRecords } from './record-lookup.js';

export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Undefined where the path is not the page's. */
export type PageHandler = (path: string, method: string) => PageAnswer | undefined;

export interface OwnSources {
  readonly access: OperatorAccess;
  readonly page?: PageHandler | undefined;
  readonly state: (sinceMs: number) => PageState;
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  /** Undefined where no records are kept. */
  readonly find: ((query: RecordQuery) => Promise<FoundRecords>) | undefined;
}

const safety = [
  ...['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff'],
  ...['Cross-Origin-Resource-Policy', 'same-origin', 'Content-Security-Policy', "default-src 'none'"],
];

export function createOwnEndpoints(
  sources: OwnSources,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  return (request, response) => {
    const { url = '', method = '' } = request;
    if (!/^\/mistletoe(?:[/?]|$)/.test(url)) return false;
    request.resume();
    answer(sources, request, response).catch((cause: unknown) => {
      answerError(response, { status: 500, message: describeCause(cause), code: 'guard_failed' });
    });
    return method !== '';
  };
}

async function answer(
  sources: OwnSources,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method = '' } = request;
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://guard');
  const page = sources.page?.(pathname, method);
  if (page !== undefined) {
    response.writeHead(page.status, { ...page.headers }).end(page.body);
    return;
  }
  if (method !== 'GET' && method !== 'HEAD') {
    const headers = ['Allow', 'GET, HEAD'];
    answerError(response, {
      status: 405,
      message: 'Only GET is answered here.',
      code: 'bad_request',
      headers,
    });
    return;
  }
  if (pathname === '/mistletoe/health') {
    send(response, method, 'application/json', '{"status":"ok"}\n');
    return;
  }
  const refusal = refuseOperator(request, sources.access);
  if (refusal !== undefined) {
    const headers = refusal.status === 401 ? ['WWW-Authenticate', 'Bearer realm="mistletoe"'] : [];
    answerError(response, { ...refusal, code: 'operator_only', headers });
    return;
  }
  switch (pathname) {
    case '/mistletoe/api/state': {
      const since = Number(searchParams.get('since') ?? 0);
      const state = sources.state(Number.isFinite(since) ? since : 0);
      send(response, method, 'application/json', JSON.stringify(state));
      return;
    }
    case '/mistletoe/metrics':
      send(response, method, sources.metrics.contentType, await sources.metrics.text());
      return;
    case '/mistletoe/api/records': {
      if (sources.find === undefined) break;
      const found = await sources.find(readQuery(searchParams));
      send(response, method, 'application/json', JSON.stringify(found));
      return;
    }
    default:
  }
  answerError(response, {
    status: 404,
    message: 'The guard has nothing under this path.',
    code: 'not_found',
  });
}

/** What is no number or no kind is left out: the index holds nothing that could be asked for by it. */
function readQuery(parameters: URLSearchParams): RecordQuery {
  const number = (name: string): number | undefined => {
    const value = Number(parameters.get(name) ?? Number.NaN);
    return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  };
  const text = (name: string): string | undefined => parameters.get(name) ?? undefined;
  const kind = (['request', 'alarm', 'action'] as const).find((each) => each === text('kind'));
  const given = {
    ...{ kind, fromMs: number('from'), toMs: number('to'), limit: number('limit') },
    ...{ model: text('model'), tenant: text('tenant'), verdict: text('verdict') },
  };
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) satisfies RecordQuery;
}

function send(response: ServerResponse, method: string, type: string, body: string): void {
  const length = String(Buffer.byteLength(body));
  response.writeHead(200, ['Content-Type', type, 'Content-Length', length, ...safety]);
  response.end(method === 'HEAD' ? undefined : body);
}
