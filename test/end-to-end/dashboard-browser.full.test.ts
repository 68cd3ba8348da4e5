/**
 * The page at /mistletoe in a real browser, against a server on loopback that tells a made-up state. The server sends the
 * page with its headers, so that the policy is in force as it is in use.
 */
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readPage } from '../../src/dashboard/page.js';
import { BrowserSession, browserPath } from '../support/dashboard/browser-session.js';
import { createRequest, createSampleState, createSpeculation, createVerdict, hostileName, sampleNowMs } from '../support/dashboard/sample-state.js'; // prettier-ignore
import type { PageState } from '../../src/guard/metrics/page-state.js';

if (browserPath === undefined)
  console.log('No Chromium or Chrome found (CHROME_PATH): skipping the page in a browser.');

/** Pictures for a reader's own eyes, where this names a folder. */
const pictures = process.env.MISTLETOE_PICTURES;

describe.skipIf(browserPath === undefined)('the page in a browser', () => {
  let server: Server;
  let origin = '';
  let browser: BrowserSession;
  let state: PageState = createSampleState();
  let key: string | null = null;
  let questions: string[] = [];
  let isGone = false;

  beforeAll(async () => {
    const { html, headers } = readPage();
    server = createServer((request, response) => {
      if (isGone) response.destroy();
      else if (request.url === '/mistletoe')
        response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', ...headers }).end(html);
      else if (request.url?.startsWith('/mistletoe/api/state') === true) {
        questions.push(request.url);
        const isAllowed = key === null || request.headers.authorization === `Bearer ${key}`;
        response.writeHead(isAllowed ? 200 : 401, { 'content-type': 'application/json' });
        response.end(isAllowed ? JSON.stringify(state) : '{}');
      } else response.writeHead(404).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    browser = await BrowserSession.open();
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    await browser.close();
    server.closeAllConnections();
    server.close();
  });
  beforeEach(async () => {
    state = createSampleState();
    key = null;
    questions = [];
    isGone = false;
    await browser.reset(origin, 1280, 1000);
  });

  const isLive = `document.querySelector('#connection.live') !== null`;
  const open = async (until = isLive): Promise<void> => {
    await browser.visit(`${origin}/mistletoe`);
    await browser.until(until);
  };

  async function keepPicture(name: string): Promise<void> {
    if (pictures === undefined) return;
    mkdirSync(pictures, { recursive: true });
    writeFileSync(join(pictures, `${name}.png`), await browser.picture());
  }

  it('shows everything, asks only its own server and complains about nothing', async () => {
    await open();
    const seen = await browser.evaluate(`({
      charts: [...document.querySelectorAll('#streams .plot')].filter((chart) => chart.getBoundingClientRect().height > 100).length,
      rows: document.querySelectorAll('#requests tbody tr').length,
      strips: [...document.querySelectorAll('#requests svg.columns')].filter((strip) => strip.getBoundingClientRect().width > 60).length,
      alerts: document.querySelectorAll('#alerts li').length,
      actions: document.querySelectorAll('#actions li').length,
      notice: document.querySelector('#notice').textContent,
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      cut: document.querySelector('.scroll').scrollWidth - document.querySelector('.scroll').clientWidth,
    })`);
    expect(seen).toEqual({
      charts: 3,
      rows: 40,
      strips: 32,
      alerts: 3,
      actions: 2,
      notice: '',
      overflow: 0,
      cut: 0,
    });
    await browser.evaluate(`document.querySelectorAll('.opener')[3].click()`);
    expect(await browser.evaluate(`document.querySelectorAll('.opened .step').length`)).toBe(160);
    expect(browser.messages).toEqual([]);
    expect(
      browser.asked.filter((url) => !url.startsWith(`${origin}/mistletoe`) && !url.startsWith('data:')),
    ).toEqual([]);
  });

  it('asks for what came since, and keeps focus and opened rows when it comes', async () => {
    await open();
    await browser.evaluate(
      `(() => { const button = document.querySelector('.opener'); button.click(); button.focus(); })()`,
    );
    const fresh = createRequest(0, { id: 'fresh', endedMs: sampleNowMs + 900, tenant: 'newcomer' });
    const alert = { ...state.alerts[0]!, id: 'alert-4', atMs: sampleNowMs + 800, text: 'Something new.' };
    state = { ...state, nowMs: sampleNowMs + 1000, requests: [fresh], alerts: [alert] };
    await browser.until(`document.querySelector('#requests tbody').textContent.includes('newcomer')`);
    const seen = await browser.evaluate(`({
      rows: document.querySelectorAll('#requests tbody').length,
      second: document.querySelectorAll('#requests tbody')[1].contains(document.activeElement),
      opened: document.querySelectorAll('.opened').length,
      announced: document.querySelector('#announcer').textContent,
    })`);
    expect(seen).toEqual({ rows: 41, second: true, opened: 1, announced: 'New alert: Something new.' });
    expect(questions[0]).toBe('/mistletoe/api/state');
    expect(questions[1]).toBe(`/mistletoe/api/state?since=${sampleNowMs - 5000}`);
  });

  it('keeps what strangers named text, and filters by it', async () => {
    const hostile = createRequest(1, { tenant: hostileName, model: hostileName, speculation: createSpeculation(1, 2, 40), acceptedLength: 3, verdict: createVerdict('normal') }); // prettier-ignore
    state = {
      ...state,
      upstream: hostileName,
      requests: [hostile, createRequest(2)],
      streams: state.streams.map((stream) => ({ ...stream, model: hostileName })),
      alerts: state.alerts.map((alert) => ({ ...alert, tenant: hostileName, text: hostileName })),
    };
    await open();
    await browser.evaluate(`(() => {
      const list = document.querySelector('#filter-tenant');
      list.selectedIndex = 1;
      list.dispatchEvent(new Event('change'));
      document.querySelector('.opener').click();
    })()`);
    const seen = await browser.evaluate(`({
      rows: document.querySelectorAll('#requests tbody').length,
      tenant: document.querySelector('#requests tbody td').textContent,
      foreign: document.querySelectorAll('img, #content script, iframe').length,
      injected: 'injected' in window,
    })`);
    expect(seen).toMatchObject({ rows: 1, foreign: 0, injected: false });
    expect((seen as { tenant: string }).tenant).toBe(hostileName.replace('\u202e', '⟨U+202E⟩'));
    expect(browser.messages).toEqual([]);
  });

  it('could not make markup of text even if it tried', async () => {
    await open();
    const tried = await browser.evaluate(`(() => {
      const caught = [];
      for (const attempt of [
        () => { document.body.innerHTML = '<b>x</b>'; },
        () => { document.querySelector('main').insertAdjacentHTML('beforeend', '<b>x</b>'); },
      ]) try { attempt(); caught.push('done'); } catch (cause) { caught.push(cause.name); }
      const script = document.createElement('script');
      try { script.textContent = 'window.injected = true'; document.body.append(script); } catch {}
      return [...caught, 'injected' in window];
    })()`);
    expect(tried).toEqual(['TypeError', 'TypeError', false]);
  });

  it('is light or dark as the system is, or as its reader wants', async () => {
    const background = `getComputedStyle(document.body).backgroundColor`;
    const press = `document.querySelector('#theme').click()`;
    await browser.prefer('light');
    await open();
    const light = await browser.evaluate(background);
    await keepPicture('light');
    await browser.prefer('dark');
    const dark = await browser.evaluate(background);
    await browser.evaluate(`document.querySelectorAll('.opener')[3].click()`);
    await keepPicture('dark');
    expect(dark).not.toBe(light);
    await browser.evaluate(press);
    expect(await browser.evaluate(background)).toBe(light);
    await open();
    expect(await browser.evaluate(background)).toBe(light);
    expect(await browser.evaluate(`document.querySelector('#theme').textContent`)).toBe('Dark');
  });

  it('says when nothing has come, when the engine is silent, and when the server is gone', async () => {
    state = { ...state, requests: [], alerts: [], actions: [], streams: [], counts: { requests: 0, running: 0, withoutTelemetry: 0, failed: 0 } }; // prettier-ignore
    await open();
    const notice = `document.querySelector('#notice').textContent`;
    expect(await browser.evaluate(notice)).toContain(`${origin}/v1`);
    await keepPicture('nothing-yet');
    state = {
      ...state,
      requests: [createRequest(1)],
      counts: { ...state.counts, requests: 1, withoutTelemetry: 1 },
    };
    await browser.until(`${notice}.includes('--per-request-spec-decode-metrics')`);
    await keepPicture('silent');
    isGone = true;
    await browser.until(`document.querySelector('#connection.lost') !== null`);
    expect(await browser.evaluate(notice)).toMatch(
      /^DisconnectedThe server does not answer .*Last answer at/,
    );
    await keepPicture('disconnected');
    isGone = false;
    await browser.until(isLive);
  });

  it('asks for the key where one is set', async () => {
    key = 'open sesame';
    await open(`!document.querySelector('#access').hidden`);
    const give = (value: string): Promise<unknown> =>
      browser.evaluate(`(() => {
        document.querySelector('#key').value = ${JSON.stringify(value)};
        document.querySelector('#access').requestSubmit();
      })()`);
    await give('wrong');
    await browser.until(`!document.querySelector('#refusal').hidden`);
    await keepPicture('key');
    await give(key);
    await browser.until(isLive);
    expect(await browser.evaluate(`document.querySelector('#access').hidden`)).toBe(true);
    expect(await browser.evaluate(`location.href + document.documentElement.outerHTML`)).not.toContain(key);
  });

  it('stands still while paused', async () => {
    await open();
    await browser.evaluate(`document.querySelector('#pause').click()`);
    await browser.until(`document.querySelector('#connection.paused') !== null`);
    // Coming back to a tab makes the page plan a question at once, unless it is paused.
    const plans = await browser.evaluate(`(() => {
      const plan = setTimeout;
      let plans = 0;
      window.setTimeout = (...given) => { plans += 1; return plan(...given); };
      document.dispatchEvent(new Event('visibilitychange'));
      return plans;
    })()`);
    expect(plans).toBe(0);
    state = { ...state, counts: { ...state.counts, running: 77 } };
    await browser.evaluate(`document.querySelector('#pause').click()`);
    await browser.until(`document.querySelector('#count-running').textContent === '77'`);
  });

  it('fits a phone without scrolling sideways', async () => {
    await browser.resize(390, 844);
    await open();
    await browser.evaluate(`document.querySelectorAll('.opener')[3].click()`);
    const widest = `Math.max(...[...document.querySelectorAll('main > *, .card, .scroll, .filters, .figures')].map((part) => part.getBoundingClientRect().right)) - innerWidth`;
    expect(
      await browser.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`),
    ).toBe(0);
    expect(await browser.evaluate(widest)).toBeLessThanOrEqual(0);
    await keepPicture('phone');
  });

  it.each([1, 5])('draws the charts of %i streams at every width', async (count) => {
    const streams = Array.from({ length: count }, (_, index) => ({
      ...state.streams[index % 3]!,
      model: `model-${index}`,
    }));
    state = { ...state, streams };
    await open();
    const overflow = `Math.max(...[...document.querySelectorAll('.stream .plot')].map((plot) => plot.getBoundingClientRect().right - plot.closest('.card').getBoundingClientRect().right))`;
    for (const [width, height] of [
      [1400, 900],
      [700, 900],
      [390, 844],
    ] as const) {
      // prettier-ignore
      await browser.resize(width, height);
      expect(await browser.evaluate(overflow)).toBeLessThan(0);
      expect(await browser.evaluate(`document.querySelectorAll('.stream .plot').length`)).toBe(count);
      for (const scheme of ['light', 'dark'] as const) {
        await browser.prefer(scheme);
        await keepPicture(`${count}-streams-${width}-${scheme}`);
      }
    }
  });

  it('is walked through by keyboard', async () => {
    await open();
    const walked: unknown[] = [];
    for (let press = 0; press < 11; press++) {
      await browser.press('Tab', 9);
      walked.push(await browser.evaluate(`document.activeElement.id || document.activeElement.className`));
    }
    expect(walked.slice(0, 10)).toEqual(['skip', 'pause', 'theme', 'filter-model', 'filter-tenant', 'filter-verdict', 'alerts', 'actions', 'scroll', 'opener']); // prettier-ignore
    await browser.press('Enter', 13);
    expect(await browser.evaluate(`document.querySelectorAll('.opened').length`)).toBe(1);
  });
});
