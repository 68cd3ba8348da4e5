/**
 * The HTML report in a real browser. The page stands in a frame of a small page of ours, which can look into it and
 * press its buttons; what it sees comes back as JSON in the dumped document. The report's own policy forbids every
 * script but its own, so nothing could be put into the report itself.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browserPath } from '../support/dashboard/browser-session.js';
import { escapeMarkup } from '../../src/report/markup.js';
import { createAuditReport } from '../../src/report/audit/audit-report.js';
import { renderReportHtml } from '../../src/report/document.js';
import { createSampleAudit } from '../support/report/sample-audit.js';
import { judge } from '../../src/report/audit/verdict.js';

const renderHtml = (...parts: Parameters<typeof createAuditReport>): string =>
  renderReportHtml(createAuditReport(...parts));

if (browserPath === undefined)
  console.log('No Chromium or Chrome found (CHROME_PATH): skipping the report in a browser.');

interface Seen {
  readonly title: string;
  readonly sections: readonly string[];
  readonly scripts: number;
  readonly images: number;
  readonly requests: readonly string[];
  readonly overflow: number;
  readonly backgrounds: readonly string[];
  readonly buttonTexts: readonly string[];
  readonly drawnCharts: number;
  readonly openAfterClick: boolean;
  readonly focused: string;
  readonly accepted: string;
  readonly own: string;
  readonly lost: string;
  /** The font of answers that are code, and of others. */
  readonly fonts: readonly string[];
  /** Whether both sides of every unfolded answer show the same text. */
  readonly sameText: readonly boolean[];
  /** How far a part that may scroll inside itself sticks out of the page. */
  readonly widest: number;
  readonly injected: boolean;
}

const probe = `
const frame = document.querySelector('iframe');
const look = () => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const background = () => view.getComputedStyle(page.body).backgroundColor;
  const button = page.getElementById('theme');
  const backgrounds = [background()], buttonTexts = [button.textContent];
  for (let press = 0; press < 2; press++) { button.click(); backgrounds.push(background()); buttonTexts.push(button.textContent); }
  const summary = page.querySelector('details.prompt:not([open]) > summary');
  summary.focus(); summary.click();
  const style = (selector) => { const of = view.getComputedStyle(page.querySelector(selector)); return of.backgroundColor + ' ' + of.outlineStyle; };
  const seen = {
    title: page.title,
    sections: [...page.querySelectorAll('main > [id]')].filter((part) => part.getBoundingClientRect().height > 100).map((part) => part.id),
    scripts: page.scripts.length,
    images: page.images.length,
    requests: view.performance.getEntriesByType('resource').map((entry) => entry.name),
    overflow: page.documentElement.scrollWidth - view.innerWidth,
    backgrounds, buttonTexts,
    drawnCharts: [...page.querySelectorAll('figure svg.plot')].filter((chart) => chart.getBoundingClientRect().height > 100).length,
    openAfterClick: summary.parentElement.open,
    focused: page.activeElement.tagName,
    accepted: style('.sides .a'),
    own: style('.sides .r'),
    lost: style('.sides .l'),
    fonts: ['.sides .text.code', '.sides .text:not(.code)'].map((selector) => view.getComputedStyle(page.querySelector(selector)).fontFamily),
    sameText: [...page.querySelectorAll('.sides')].map((side) => { const [left, right] = side.querySelectorAll('.text'); return left.textContent === right.textContent; }),
    widest: Math.max(...[...page.querySelectorAll('main > *, .card, .figures, .scroll, .sides > div, .aside, .asked')].map((part) => part.getBoundingClientRect().right)) - view.innerWidth,
    injected: view.injected === true,
  };
  document.getElementById('seen').textContent = JSON.stringify(seen);
  console.info('probe done');
};
if (frame.contentDocument.readyState === 'complete' && frame.contentDocument.getElementById('theme')) look();
else frame.addEventListener('load', look);
`;

describe.skipIf(browserPath === undefined)('the HTML report in a browser', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'mistletoe-browser-'));
  });
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  const { result, timings } = createSampleAudit();
  const report = renderHtml(result, timings, judge(result, { failIfDrop: 0.3 }));

  async function openReport(
    text: string,
    width: number,
    flags: readonly string[] = [],
  ): Promise<{ seen: Seen; messages: string[] }> {
    const path = join(folder, 'frame.html');
    writeFileSync(
      path,
      `<!doctype html><meta charset="utf-8"><body style="margin:0"><pre id="seen"></pre>` +
        `<iframe style="width:${width}px;height:900px;border:0" srcdoc="${escapeMarkup(text)}"></iframe><script>${probe}</script></body>`,
    );
    const { out, err } = await runBrowser(folder, [...flags, '--dump-dom', pathToFileURL(path).href]);
    const json = /<pre id="seen">(.*?)<\/pre>/s.exec(out)?.[1] ?? '';
    const plain = json.replace(/&lt;/g, '<').replace(/&gt;/g, '>').replace(/&amp;/g, '&');
    return {
      seen: JSON.parse(plain) as Seen,
      messages: [...err.matchAll(/CONSOLE.*?\] "(.*?)", source/g)].map((match) => match[1] ?? ''),
    };
  }

  it('shows every part, runs nothing but its own script and asks for nothing', async () => {
    const { seen, messages } = await openReport(report, 1280);
    expect(seen.sections).toEqual([
      'verdict',
      'rows',
      'prompts',
      'depth',
      'search',
      'answers',
      'transfer',
      'universal',
      'setup',
    ]);
    expect(seen.title).toBe('Mistletoe audit of reference/target: collapsed');
    expect(seen).toMatchObject({
      scripts: 1,
      images: 0,
      requests: [],
      drawnCharts: 9,
      openAfterClick: true,
    });
    expect(seen.focused).toBe('SUMMARY');
    expect(messages).toEqual(['probe done']);
  });

  it('turns dark and light, and tells accepted tokens apart without colour', async () => {
    const { seen } = await openReport(report, 1280);
    const [light, dark, again] = seen.backgrounds;
    expect(dark).not.toBe(light);
    expect(again).toBe(light);
    expect(seen.buttonTexts).toEqual(['Dark', 'Light', 'Dark']);
    expect(seen.accepted).toMatch(/ none$/);
    expect(seen.own).toMatch(/rgba\(0, 0, 0, 0\) solid$/);
    expect(seen.lost).toMatch(/^rgb\(.*\) solid$/);
    const preferred = await openReport(report, 1280, ['--blink-settings=preferredColorScheme=0']);
    expect(preferred.seen.backgrounds).toEqual([dark, light, dark]);
  });

  it('shows one text on both sides of every answer, and code in a font of its own', async () => {
    const { seen } = await openReport(report, 1280);
    expect(seen.sameText).toHaveLength(16);
    expect(seen.sameText).not.toContain(false);
    const [code, prose] = seen.fonts;
    expect(code).toContain('monospace');
    expect(prose).not.toContain('monospace');
  });

  it('fits a phone without scrolling sideways', async () => {
    const { seen } = await openReport(report, 400);
    expect(seen.overflow).toBeLessThanOrEqual(0);
    expect(seen.widest).toBeLessThanOrEqual(0);
    expect(seen.drawnCharts).toBe(9);
  });

  it('would stop a script even if an escape were missing', async () => {
    const broken = report.replace(
      '</main>',
      '<script>window.injected = true</script><img src="https://example.invalid/x.png"></main>',
    );
    const { seen, messages } = await openReport(broken, 1280);
    expect(seen.scripts).toBe(2);
    expect(seen.injected).toBe(false);
    expect(messages.filter((message) => message.includes('Content Security Policy'))).toHaveLength(2);
  });
});

function runBrowser(folder: string, args: readonly string[]): Promise<{ out: string; err: string }> {
  const quiet =
    '--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking ' +
    '--disable-component-update --disable-sync --disable-dev-shm-usage --enable-logging=stderr --virtual-time-budget=2000';
  return new Promise((resolve, reject) => {
    const child = spawn(browserPath!, [
      ...quiet.split(' '),
      '--window-size=1300,1000',
      `--user-data-dir=${mkdtempSync(join(folder, 'profile-'))}`,
      ...args,
    ]);
    let out = '';
    let err = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (out += chunk));
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (err += chunk));
    child.on('error', reject);
    child.on('close', () => {
      resolve({ out, err });
    });
  });
}
