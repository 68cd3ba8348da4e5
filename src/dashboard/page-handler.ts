/**
 * The page at /mistletoe: one static file that holds no data and needs no key. What it shows it reads from
 * /mistletoe/api/state, with the key that its reader enters. Its policy allows its own style and script by their hashes.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { PageAnswer } from '../guard/proxy/operator.js';

const paths: ReadonlySet<string> = new Set(['/mistletoe', '/mistletoe/']);

let page: { readonly html: string; readonly headers: PageAnswer['headers'] } | undefined;

/**
 * Undefined if the path, which may have a query, is not the page's.
 * @example pageHandler('/mistletoe', 'GET')?.status // 200
 */
export function pageHandler(path: string, method: string): PageAnswer | undefined {
  if (!paths.has(path.replace(/[?#].*$/s, ''))) return undefined;
  if (method !== 'GET' && method !== 'HEAD') {
    return {
      status: 405,
      headers: { allow: 'GET, HEAD', 'content-type': 'text/plain; charset=utf-8' },
      body: `The page supports GET and HEAD, not ${method}.\n`,
    };
  }
  page ??= readPage();
  return { status: 200, headers: page.headers, body: method === 'HEAD' ? '' : page.html };
}

function readPage(): NonNullable<typeof page> {
  const html = readFileSync(new URL('page.html', import.meta.url), 'utf8');
  const hashOf = (name: 'script' | 'style'): string => {
    const [, text = ''] = new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(html) ?? [];
    return `sha256-${createHash('sha256').update(text).digest('base64')}`;
  };
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf('script')}'`,
    `style-src '${hashOf('style')}'`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
    "frame-ancestors 'none'",
  ];
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-length': String(Buffer.byteLength(html)),
    'content-security-policy': policy.join('; '),
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    // Another version of the server has another page, and the file is small.
    'cache-control': 'no-cache',
  };
  return { html, headers };
}
