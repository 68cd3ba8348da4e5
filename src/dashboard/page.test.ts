import { createHash } from 'node:crypto';
import { Script } from 'node:vm';
import { parseHTML } from 'linkedom';
import { describe, expect, it } from 'vitest';
import type { PageState } from '../guard/metrics/page-state.js';
import type { ParsedNode } from '../../test/support/report/parse-document.js';
import { parsePage } from '../../test/support/report/parse-document.js';
import { start } from './client/main.js';
import { pageHandler } from './page-handler.js';
import { renderPage } from './page.js';
import { createSampleState, hostileName } from '../../test/support/dashboard/sample-state.js';

const { html, policy } = renderPage();
const page = parsePage(html);

describe('the file', () => {
  it('has one style and one script, and a policy that allows just these', () => {
    for (const name of ['style', 'script']) {
      const [, text] = new RegExp(`<${name}>([^]*?)</${name}>`).exec(html)!;
      expect(page.querySelectorAll(name)).toHaveLength(1);
      expect(policy).toContain(`${name}-src 'sha256-${createHash('sha256').update(text!).digest('base64')}'`);
    }
    expect(policy).toMatch(/^default-src 'none'; .*connect-src 'self'; .*frame-ancestors 'none'$/);
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
  });

  it('loads nothing and leads nowhere', () => {
    expect(page.querySelectorAll('img, iframe, object, embed, base, [src], [srcset], [action], [style]')).toHaveLength(0); // prettier-ignore
    const links = [...page.querySelectorAll('a, link')].map((link) => link.getAttribute('href') ?? '');
    expect(links.filter((link) => !/^#|^data:image\/svg/.test(link))).toEqual([]);
    expect(html).not.toMatch(/@import|url\(|https?:\/\/(?!www\.w3\.org\/2000\/svg)/);
    const attributes = [...page.querySelectorAll('*')].flatMap((element) => [...element.attributes]);
    expect(attributes.filter(({ name }) => name.startsWith('on'))).toEqual([]);
  });

  it('never makes markup of text', () => {
    const [, script] = /<script>([^]*?)<\/script>/.exec(html)!;
    expect(script).not.toMatch(
      /\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|Function\()/,
    );
    expect(() => new Script(script!)).not.toThrow();
  });

  it('names every control and every column', () => {
    for (const control of page.querySelectorAll('select, input')) {
      const isNamed = page.querySelector(`label[for="${control.id}"], label #${control.id}`) !== null;
      expect(isNamed, control.id).toBe(true);
    }
    expect(page.querySelectorAll('thead th[scope=col]')).toHaveLength(9);
    expect(page.querySelectorAll('[aria-live=assertive]')).toHaveLength(1);
    for (const part of page.querySelectorAll('[aria-labelledby]'))
      expect(page.querySelector(`#${part.getAttribute('aria-labelledby') ?? ''}`)).not.toBeNull();
  });
});

describe('the answer to a request', () => {
  it.each(['/mistletoe', '/mistletoe/', '/mistletoe?x=1'])('is the page at %s', (path) => {
    const answer = pageHandler(path, 'GET')!;
    expect(answer.status).toBe(200);
    expect(answer.body).toBe(html);
    expect(answer.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-length': String(Buffer.byteLength(html)),
      'content-security-policy': policy,
      'x-content-type-options': 'nosniff',
    });
  });

  it('has no body for HEAD, refuses what would change something, and leaves other paths to others', () => {
    expect(pageHandler('/mistletoe', 'HEAD')).toMatchObject({ status: 200, body: '' });
    expect(pageHandler('/mistletoe', 'POST')).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } });
    for (const path of [
      '/',
      '/mistletoes',
      '/mistletoe/api/state',
      '/mistletoe/metrics',
      '/Mistletoe',
      '/v1/models',
    ])
      expect(pageHandler(path, 'GET'), path).toBeUndefined();
  });
});

describe('the script on the page', () => {
  /** The page with a browser around it that answers with these states, one after the other. */
  async function open(...states: readonly PageState[]) {
    const { document } = parseHTML(html) as unknown as { document: ParsedNode };
    const tasks: (() => void)[] = [];
    const asked: string[] = [];
    const stored = new Map<string, string>();
    const storage = { getItem: (name: string) => stored.get(name) ?? null, setItem: (name: string, value: string) => stored.set(name, value) }; // prettier-ignore
    start({
      document: document as never,
      location: { origin: 'http://127.0.0.1:8080', pathname: '/behind/mistletoe/' },
      localStorage: storage,
      sessionStorage: storage,
      fetch: (url) => {
        const state = states[Math.min(asked.length, states.length - 1)];
        asked.push(url);
        return Promise.resolve({ ok: true, status: 200, json: () => Promise.resolve(state) });
      },
      addEventListener: () => undefined,
      setTimeout: (task) => tasks.push(task),
      clearTimeout: () => undefined,
      matchMedia: () => ({ matches: false, addEventListener: () => undefined }),
    });
    const tick = async (): Promise<void> => {
      tasks.pop()!();
      await new Promise((resolve) => setImmediate(resolve));
    };
    await tick();
    const text = (id: string): string | undefined => document.querySelector(`#${id}`)?.textContent;
    return { document, asked, tick, text };
  }

  it('fills every part of it', async () => {
    const { document, asked, text } = await open(createSampleState());
    expect(asked).toEqual(['/behind/mistletoe/api/state']);
    expect(text('name')).toBe('Mistletoe guard');
    expect(text('upstream')).toBe('in front of http://127.0.0.1:8000');
    expect(text('connection')).toBe('live');
    expect(text('count-requests')).toBe('18\u202f204');
    expect(text('count-alerts')).toBe('3');
    expect(text('shown')).toBe('40 of 18\u202f204 requests shown');
    expect(document.querySelectorAll('#streams figure')).toHaveLength(4);
    expect(document.querySelectorAll('#requests > thead + tbody')).toHaveLength(1);
    expect(document.querySelectorAll('#requests > tbody')).toHaveLength(40);
    expect(document.querySelectorAll('#alerts li')).toHaveLength(3);
    expect(document.querySelectorAll('#actions li')).toHaveLength(2);
    expect(document.querySelectorAll('#content[hidden], #no-alerts:not([hidden])')).toHaveLength(0);
    expect(text('announcer')).toBe('');
  });

  it('announces alerts that come later', async () => {
    const state = createSampleState();
    const { text, tick, asked } = await open({ ...state, alerts: [], actions: [] }, state);
    expect(text('announcer')).toBe('');
    await tick();
    expect(asked[1]).toBe(`/behind/mistletoe/api/state?since=${state.nowMs - 5000}`);
    expect(text('announcer')).toMatch(/^3 new alerts/);
  });

  it('keeps what strangers named text, in every part', async () => {
    const state = createSampleState();
    const name = { model: hostileName, route: hostileName, tenant: hostileName };
    const { document, text } = await open({
      ...state,
      upstream: hostileName,
      version: hostileName,
      streams: state.streams.map((stream) => ({ ...stream, ...name })),
      requests: state.requests.map((request) => ({ ...request, ...name, id: `${request.id}${hostileName}` })),
      alerts: state.alerts.map((alert) => ({ ...alert, ...name, text: hostileName })),
      actions: state.actions.map((action) => ({ ...action, ...name, text: hostileName })),
    });
    expect(document.querySelectorAll('img, #content script')).toHaveLength(0);
    expect(document.querySelectorAll('script')).toHaveLength(1);
    expect(text('filter-tenant')).toContain('<img src=x onerror=');
    expect(document.querySelector('#alerts p')?.textContent).toContain('<img src=x onerror=');
  });
});
