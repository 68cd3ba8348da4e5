/** The page as an answer to a request, for whichever server asks: the guard's and our own are built differently. */
import { renderPage } from './page.js';

export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const paths: ReadonlySet<string> = new Set(['/mistletoe', '/mistletoe/']);

/**
 * Undefined where the path is not the page's, which may have a query. The page itself holds no data and needs no key;
 * what it shows it asks of /mistletoe/api/state, with the key that its reader gives it.
 * @example pageHandler('/mistletoe', 'GET')?.status // 200
 */
export function pageHandler(path: string, method: string): PageAnswer | undefined {
  if (!paths.has(path.replace(/[?#].*$/s, ''))) return undefined;
  if (method !== 'GET' && method !== 'HEAD') {
    return {
      status: 405,
      headers: { allow: 'GET, HEAD', 'content-type': 'text/plain; charset=utf-8' },
      body: `The page answers GET and HEAD, not ${method}.\n`,
    };
  }
  const { html, policy } = renderPage();
  return {
    status: 200,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-length': String(Buffer.byteLength(html)),
      'content-security-policy': policy,
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      // Another version of the server has another page, and the file is small.
      'cache-control': 'no-cache',
    },
    body: method === 'HEAD' ? '' : html,
  };
}
