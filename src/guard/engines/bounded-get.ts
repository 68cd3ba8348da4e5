/** One GET with limits on time and size. Redirects are followed within the origin only, so the key stays there. */
import { describeCause } from '../../core/errors.js';

export type Fetch = (url: string, options: RequestInit) => Promise<Response>;

export interface GetOptions {
  readonly fetch?: Fetch;
  /** A bearer key. */
  readonly key?: string | undefined;
  readonly timeoutMs?: number;
  readonly maxBytes?: number;
  readonly signal?: AbortSignal | undefined;
}

export interface GetResult {
  /** Null where there was no response, or a redirect elsewhere; see `failure`. */
  readonly status: number | null;
  readonly contentType: string;
  readonly engineHeader: string | null;
  readonly text: string;
  readonly failure: string | null;
  /** The response is longer than `text`. */
  readonly isCut: boolean;
}

export const defaultTimeoutMs = 5000;
const defaultBytes = 4 << 20;
const maxRedirects = 3;
const redirections: readonly number[] = [301, 302, 303, 307, 308];

export async function getBounded(address: URL, options: GetOptions = {}): Promise<GetResult> {
  const { fetch: send = fetch, key, timeoutMs = defaultTimeoutMs, maxBytes = defaultBytes } = options;
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
  const headers = {
    'user-agent': 'mistletoe',
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  };
  let url = address;
  try {
    for (let hop = 0; hop <= maxRedirects; hop++) {
      const response = await send(url.href, { headers, redirect: 'manual', signal });
      if (!redirections.includes(response.status)) return await readResponse(response, maxBytes);
      await response.body?.cancel();
      const location = response.headers.get('location') ?? '';
      const next = URL.canParse(location, url.href) ? new URL(location, url.href) : undefined;
      if (next?.origin !== address.origin) return fail('it redirects to another host');
      url = next;
    }
    return fail(`it redirects more than ${maxRedirects} times`);
  } catch (cause) {
    return fail(timeout.aborted ? `no response within ${timeoutMs / 1000} s` : describeReason(cause));
  }
}

const fail = (failure: string): GetResult => ({
  status: null,
  contentType: '',
  engineHeader: null,
  text: '',
  isCut: false,
  failure,
});

async function readResponse(response: Response, maxBytes: number): Promise<GetResult> {
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  const reader = response.body?.getReader();
  while (reader !== undefined) {
    const piece = (await reader.read()) as { readonly done: boolean; readonly value?: Uint8Array };
    const bytes = piece.value;
    if (piece.done || bytes === undefined) break;
    text += decoder.decode(bytes.subarray(0, Math.max(0, maxBytes - size)), { stream: true });
    size += bytes.length;
    if (size <= maxBytes) continue;
    await reader.cancel();
    break;
  }
  const { status, headers } = response;
  return {
    status,
    contentType: headers.get('content-type') ?? '',
    engineHeader: headers.get('x-mistletoe-engine'),
    text,
    failure: null,
    isCut: size > maxBytes,
  };
}

/** fetch throws "fetch failed" with the reason as its cause, one per address that was tried. */
function describeReason(cause: unknown): string {
  const reason = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
  const [first = reason] = reason instanceof AggregateError ? (reason.errors as unknown[]) : [];
  return describeCause(first);
}
