import { createHash } from 'node:crypto';
import { createContext, runInContext } from 'node:vm';
import { parseHTML } from 'linkedom';
import { describe, expect, it } from 'vitest';
import type { PageState } from '../guard/metrics/page-state.js';
import type { ParsedNode } from '../../test/support/report/parse-document.js';
import { parsePage } from '../../test/support/report/parse-document.js';
import { themeStyle } from '../report/page-style.js';
import { readPage } from './page.js';
import { createRequest, createSampleState, createSpeculation, hostileName, sampleNowMs } from '../../test/support/dashboard/sample-state.js'; // prettier-ignore

const { html, headers } = readPage();
const policy = headers['content-security-policy']!;
const page = parsePage(html);
const [, script = ''] = /<script>([^]*?)<\/script>/.exec(html) ?? [];

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
    expect(script).not.toMatch(
      /\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|Function\()/,
    );
  });

  it('has the colors of the reports', () => {
    expect(html).toContain(themeStyle);
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

interface Answer {
  readonly status?: number;
  readonly body: unknown;
}

/** The page with a browser around it that answers with these states, one after the other, and a clock turned by hand. */
async function open(...answers: readonly (PageState | Answer | Error)[]) {
  const { document } = parseHTML(html) as unknown as { document: ParsedNode };
  const plans: { readonly task: () => void; readonly ms: number }[] = [];
  const asked: { readonly url: string; readonly key: string | undefined }[] = [];
  const stored = new Map<string, string>();
  const storage = {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, value: string) => stored.set(name, value),
  };
  const visibility = { state: 'visible' };
  Object.defineProperty(document, 'visibilityState', { get: () => visibility.state });
  const context = createContext({
    document,
    location: { origin: 'http://127.0.0.1:8080', pathname: '/behind/mistletoe/' },
    localStorage: storage,
    sessionStorage: storage,
    AbortSignal,
    fetch(url: string, { headers }: { headers: { authorization?: string } }) {
      const answer = answers[Math.min(asked.length, answers.length - 1)]!;
      asked.push({ url, key: headers.authorization });
      if (answer instanceof Error) return Promise.reject(answer);
      const { status = 200, body } = 'body' in answer ? answer : { body: answer };
      return Promise.resolve({ ok: status === 200, status, json: () => Promise.resolve(body) });
    },
    setTimeout: (task: () => void, ms: number) => plans.push({ task, ms }),
    clearTimeout: () => plans.splice(0),
    matchMedia: () => ({ matches: false, addEventListener: () => undefined }),
  });
  runInContext(script, context);
  const tick = async (): Promise<void> => {
    plans.splice(0).at(-1)!.task();
    await new Promise((resolve) => setImmediate(resolve));
  };
  await tick();
  const text = (id: string): string | undefined => document.querySelector(`#${id}`)?.textContent;
  const emit = (id: string, kind: string): void => {
    const { Event } = parseHTML('') as unknown as { Event: new (kind: string, init: object) => unknown };
    const target = (id === '' ? document : document.querySelector(`#${id}`)) as unknown as {
      dispatchEvent(event: unknown): void;
    };
    target.dispatchEvent(new Event(kind, { cancelable: true }));
  };
  return { document, asked, plans, tick, text, emit, visibility };
}

describe('the script on the page', () => {
  it('fills every part of it', async () => {
    const { document, asked, text } = await open(createSampleState());
    expect(asked).toEqual([{ url: '/behind/mistletoe/api/state', key: undefined }]);
    expect(text('name')).toBe('Mistletoe guard');
    expect(text('upstream')).toBe('in front of http://127.0.0.1:8000');
    expect(text('connection')).toBe('live');
    expect(text('count-requests')).toBe('18\u202f204');
    expect(text('count-alerts')).toBe('3');
    expect(text('verdicts')).toMatch(/^Verdicts of the last 40 requests: \d+ normal · \d low · \d collapsed/);
    expect(text('shown')).toBe('40 of 18\u202f204 shown');
    expect(document.querySelectorAll('#streams figure')).toHaveLength(4);
    expect(document.querySelectorAll('#requests > thead + tbody')).toHaveLength(1);
    expect(document.querySelectorAll('#requests > tbody')).toHaveLength(40);
    expect(document.querySelectorAll('#alerts li')).toHaveLength(3);
    expect(document.querySelectorAll('#actions li')).toHaveLength(2);
    expect(document.querySelectorAll('#content[hidden], #no-alerts:not([hidden])')).toHaveLength(0);
    expect(text('announcer')).toBe('');
  });

  it('labels the length of a stream, and says what a baseline waits for', async () => {
    const state = createSampleState();
    const [attacked, , , young] = state.streams;
    const needed = { ...young!, learned: 10, needed: 16 };
    const { document } = await open({ ...state, streams: [attacked!, needed] });
    const [first, second] = [...document.querySelectorAll('.stream')];
    expect(first?.querySelector('.now b')?.textContent).toBe('1.08');
    expect(first?.querySelector('.now span')?.textContent).toMatch(
      /^mean over the steps of \d+ requests in the minute from \d\d:\d\d; expected 2\.30 to 3\.65, from 4\u202f210 requests$/,
    );
    expect(second?.querySelector('.now span')?.textContent).toBe('10 of 16 requests until a baseline');
    const below = attacked!.history.filter(({ acceptedLength, low }) => (acceptedLength ?? 9) < (low ?? 0));
    expect(first?.querySelectorAll('.slice.low')).toHaveLength(below.length);
    expect(first?.querySelectorAll('.slice')).toHaveLength(57);
    const line = first?.querySelector('.line')?.getAttribute('d') ?? '';
    expect(line.match(/M/g)).toHaveLength(2);
    for (const [, x, y] of line.matchAll(/(-?[\d.]+) (-?[\d.]+)/g))
      expect([x, y].every((place) => Number(place) >= 0 && Number(place) <= 1000)).toBe(true);
  });

  it('asks for what came since, keeps rows that stay, and announces new alerts', async () => {
    const state = createSampleState();
    const fresh = createRequest(0, { id: 'fresh', endedMs: sampleNowMs + 900 });
    const next = { ...state, nowMs: sampleNowMs + 1000, requests: [fresh] };
    const { document, text, tick, asked } = await open({ ...state, alerts: [], actions: [] }, next);
    const kept = document.querySelector('#requests > tbody');
    await tick();
    expect(asked[1]?.url).toBe(`/behind/mistletoe/api/state?since=${state.nowMs - 5000}`);
    expect(text('announcer')).toMatch(/^3 new alerts/);
    expect(document.querySelectorAll('#requests > tbody')).toHaveLength(41);
    expect([...document.querySelectorAll('#requests > tbody')][1]).toBe(kept);
  });

  it('forgets what it knew when the server started anew', async () => {
    const state = createSampleState();
    const restarted = { ...state, startedMs: state.startedMs + 1, requests: state.requests.slice(0, 2) };
    const { document, tick } = await open(state, restarted);
    await tick();
    expect(document.querySelectorAll('#requests > tbody')).toHaveLength(2);
  });

  it('opens a row: a box for each token, and all that is known', async () => {
    const speculation = createSpeculation(3, 2, 20);
    const request = createRequest(1, { speculation, acceptedLength: 1 + speculation.accepted / 20 });
    const { document } = await open({ ...createSampleState(), requests: [request] });
    const button = document.querySelector('.opener') as unknown as { click(): void };
    button.click();
    expect(document.querySelectorAll('.opened .step')).toHaveLength(20);
    expect(document.querySelectorAll('.opened .a')).toHaveLength(speculation.accepted);
    const facts = document.querySelector('.opened dl')?.textContent ?? '';
    expect(facts).toContain(`${speculation.accepted} accepted of 100 proposed`);
    expect(facts).toContain('58.06 tokens/s');
    button.click();
    expect(document.querySelectorAll('.opened')).toHaveLength(0);
  });

  it('shows only what is chosen', async () => {
    const { document, emit } = await open(createSampleState());
    const choose = (name: string, value: string): void => {
      Object.defineProperty(document.querySelector(`#filter-${name}`)!, 'value', { value });
      emit(`filter-${name}`, 'change');
    };
    choose('tenant', 'crawler-7');
    expect(document.querySelectorAll('#requests > tbody')).toHaveLength(8);
    expect(document.querySelectorAll('#alerts li')).toHaveLength(2);
  });

  it('asks less often while the server does not answer, and says so', async () => {
    const { text, tick, plans } = await open(new Error('refused'), { status: 500, body: {} }, { body: [] });
    expect(text('notice')).toMatch(/^DisconnectedThe server does not answer \(refused\)\./);
    expect(plans.at(-1)?.ms).toBe(3000);
    await tick();
    expect(text('notice')).toContain('status 500');
    expect(plans.at(-1)?.ms).toBe(6000);
    await tick();
    expect(text('notice')).toContain('something other than its state');
  });

  it('asks for a key, sends it, and says when it is wrong', async () => {
    const locked = { status: 401, body: {} };
    const { document, asked, plans, tick, emit, text } = await open(locked, locked, createSampleState());
    expect(text('connection')).toBe('key needed');
    expect(plans).toHaveLength(0);
    (document.querySelector('#key') as unknown as { value: string }).value = ' sesame ';
    emit('access', 'submit');
    await tick();
    expect(asked[1]?.key).toBe('Bearer sesame');
    expect(document.querySelectorAll('#refusal:not([hidden])')).toHaveLength(1);
    emit('access', 'submit');
    await tick();
    expect(text('connection')).toBe('live');
  });

  it('asks nothing while paused or hidden', async () => {
    const { plans, emit, text, visibility } = await open(createSampleState());
    emit('pause', 'click');
    expect([plans.length, text('connection')]).toEqual([0, 'paused']);
    emit('pause', 'click');
    expect(plans).toHaveLength(1);
    visibility.state = 'hidden';
    emit('', 'visibilitychange');
    expect(plans).toHaveLength(0);
  });

  it.each([
    ['vllm', '--per-request-spec-decode-metrics detailed'],
    ['tgi', 'mistletoe guard --scrape http://127.0.0.1:8000'],
    ['constructor', 'mistletoe doctor http://127.0.0.1:8000'],
  ])('names the remedy where %s reports nothing', async (engine, command) => {
    const { text } = await open({ ...createSampleState(), requests: [createRequest(1, { engine })] });
    expect(text('notice')).toContain(command);
  });

  it('treats names as text, in every part', async () => {
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
    expect(text('upstream')).toContain('⟨U+202E⟩');
  });
});
