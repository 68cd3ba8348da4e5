/**
 * The page at /mistletoe: one static file that holds no data and needs no key. What it shows it reads from
 * /mistletoe/api/state, with the key that its reader enters. Its policy allows its own style and script by their hashes.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Page } from '../guard/proxy/operator.js';

/** @example await startGuard(settings, { page: guardPage }); */
export function readPage(): Page {
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
