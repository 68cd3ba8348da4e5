/**
 * A real browser without a window, spoken to over two pipes in its own protocol: what it logged, what it asked of the
 * network, what its page holds and what it looks like. Nothing waits for a clock; everything waits for an event.
 */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

export const browserPath = [
  process.env.CHROME_PATH ?? '',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
].find((path) => path !== '' && existsSync(path));

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
  readonly sessionId?: string;
}

const flags =
  '--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking ' +
  '--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe about:blank';

export class BrowserSession {
  /** Lines of the console, refusals of the policy among them, and exceptions that nobody caught. */
  readonly messages: string[] = [];
  /** Addresses that the page asked for, its own included. */
  readonly asked: string[] = [];
  private readonly child: ChildProcess;
  private readonly folder = mkdtempSync(join(tmpdir(), 'mistletoe-page-'));
  private readonly waiting = new Map<number, (message: Message) => void>();
  private readonly ended: Promise<void>;
  private count = 0;
  private sessionId = '';
  private onLoad: () => void = () => undefined;

  private constructor() {
    this.child = spawn(browserPath!, [...flags.split(' '), `--user-data-dir=${this.folder}`], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    });
    this.ended = new Promise((resolve) =>
      this.child.once('close', () => {
        resolve();
      }),
    );
    let rest = '';
    (this.child.stdio[4] as Readable).setEncoding('utf8').on('data', (chunk: string) => {
      const parts = (rest + chunk).split('\0');
      rest = parts.pop()!;
      for (const part of parts) this.hear(JSON.parse(part) as Message);
    });
  }

  static async open(): Promise<BrowserSession> {
    const session = new BrowserSession();
    const { targetInfos } = await session.send('Target.getTargets');
    const page = (targetInfos as { type: string; targetId: string }[]).find(({ type }) => type === 'page')!;
    const { sessionId } = await session.send('Target.attachToTarget', {
      targetId: page.targetId,
      flatten: true,
    });
    session.sessionId = String(sessionId);
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await session.send(`${domain}.enable`);
    return session;
  }

  /** As if it had just been started, for the next test. */
  async reset(origin: string, width: number, height: number): Promise<void> {
    await this.visit('about:blank');
    await this.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
    await this.prefer('light');
    await this.resize(width, height);
    this.messages.length = 0;
    this.asked.length = 0;
  }

  async resize(width: number, height: number): Promise<void> {
    const metrics = { width, height, deviceScaleFactor: 1, mobile: false };
    await this.send('Emulation.setDeviceMetricsOverride', metrics);
  }

  async prefer(scheme: 'light' | 'dark'): Promise<void> {
    const features = [{ name: 'prefers-color-scheme', value: scheme }];
    await this.send('Emulation.setEmulatedMedia', { features });
  }

  async visit(url: string): Promise<void> {
    const loaded = new Promise<void>((resolve) => (this.onLoad = resolve));
    await this.send('Page.navigate', { url });
    await loaded;
  }

  /** What an expression gives; a promise is waited for. */
  async evaluate(expression: string): Promise<unknown> {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails !== undefined)
      throw new Error(`In the page: ${JSON.stringify(exceptionDetails).slice(0, 600)}`);
    return (result as { value?: unknown }).value;
  }

  /** Resolves when the condition, an expression of the page, has become true; asked at every change of the document. */
  async until(condition: string): Promise<void> {
    await this.evaluate(`new Promise((resolve) => {
      const look = () => { try { if (!(${condition})) return; } catch { return; } watcher.disconnect(); resolve(true); };
      const watcher = new MutationObserver(look);
      watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
      look();
    })`);
  }

  async press(key: string, code: number): Promise<void> {
    const event = { key, code: key, windowsVirtualKeyCode: code, text: key === 'Enter' ? '\r' : '' };
    await this.send('Input.dispatchKeyEvent', { ...event, type: 'keyDown' });
    await this.send('Input.dispatchKeyEvent', { ...event, type: 'keyUp' });
  }

  async picture(): Promise<Buffer> {
    const { data } = await this.send('Page.captureScreenshot', { captureBeyondViewport: true });
    return Buffer.from(String(data), 'base64');
  }

  async close(): Promise<void> {
    // Asked rather than killed, so that its helpers have stopped writing when it is gone.
    this.sessionId = '';
    (this.child.stdio[3] as Writable).write(
      `${JSON.stringify({ id: ++this.count, method: 'Browser.close' })}\0`,
    );
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }

  send(method: string, params: object = {}): Promise<Readonly<Record<string, unknown>>> {
    const id = ++this.count;
    const session = this.sessionId === '' ? {} : { sessionId: this.sessionId };
    return new Promise((resolve, reject) => {
      this.waiting.set(id, ({ result, error }) => {
        if (error === undefined) resolve(result ?? {});
        else reject(new Error(`${method}: ${error.message}`));
      });
      (this.child.stdio[3] as Writable).write(`${JSON.stringify({ id, method, params, ...session })}\0`);
    });
  }

  private hear(message: Message): void {
    if (message.id !== undefined) {
      this.waiting.get(message.id)?.(message);
      this.waiting.delete(message.id);
      return;
    }
    const { method, params } = message;
    if (method === 'Page.loadEventFired') this.onLoad();
    if (method === 'Network.requestWillBeSent')
      this.asked.push((params as { request: { url: string } }).request.url);
    if (/^(?:Runtime\.(?:consoleAPICalled|exceptionThrown)|Log\.entryAdded)$/.test(method ?? ''))
      this.messages.push(JSON.stringify(params));
  }
}
