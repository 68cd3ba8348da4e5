/** `guard --scrape` against counters on loopback. Its clock and its pauses are the test's: a baseline takes hours to learn. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import timers from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { disableTimeouts } from '../../../test/support/disabled-timeouts.js';
import { createFakeTerminal } from '../../../test/support/fake-terminal.js';
import { replaceBuiltin } from '../../../test/support/replaced-builtin.js';
import { run } from '../program.js';

disableTimeouts();
replaceBuiltin(timers, 'setTimeout', () => () => Promise.resolve(undefined as never));

let server: Server;
afterEach(() => {
  vi.restoreAllMocks();
  server.close();
});

const quarterHour = 900_000;
const normalScrapes = 80;

/** vLLM's counters, which grow with every look at them; after `normalScrapes` nearly nothing is accepted any more. */
async function startCounters(): Promise<{ url: string; looks: () => number }> {
  let [looks, drafts, accepted] = [0, 0, 0];
  server = createServer((_, response) => {
    looks++;
    drafts += 400;
    accepted += looks > normalScrapes ? 20 : 1000 + ((looks * 37) % 90);
    const counters = { num_drafts: drafts, num_draft_tokens: 3 * drafts, num_accepted_tokens: accepted };
    response.end(
      Object.entries(counters)
        .map(([name, value]) => `vllm:spec_decode_${name}_total{model_name="m"} ${value}\n`)
        .join(''),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  vi.spyOn(Date, 'now').mockImplementation(() => looks * quarterHour);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`, looks: () => looks };
}

interface Line {
  readonly event: string;
  readonly message: string;
}

const linesOf = (text: string): Line[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

describe('mistletoe guard --scrape', () => {
  it('prints every window, and an alert when acceptance falls, and ends with 0 on Ctrl-C', async () => {
    const { url, looks } = await startCounters();
    const terminal = createFakeTerminal({
      onWrite({ interrupt }) {
        if (linesOf(terminal.written.out).at(-1)!.event === 'alert' || looks() > normalScrapes + 40)
          interrupt();
      },
    });
    expect(await run(['guard', '--scrape', url], terminal)).toBe(0);
    const { out, err } = terminal.written;
    expect(err).toContain(`Reading ${url} every 15 s`);
    const lines = linesOf(out);
    const [first] = lines;
    expect(first).toMatchObject({ event: 'scrape', 'gen_ai.request.model': 'm' });
    expect(first!.message).toMatch(/^m: mean accepted length 3\.\d\d over 400 steps$/);
    const alerted = lines.findIndex(({ event }) => event === 'alert');
    // The first look has nothing to be compared with.
    expect(alerted).toBeGreaterThan(normalScrapes - 1);
    expect(lines[alerted - 1]!.message).toContain('mean accepted length 1.05');
    expect(lines[alerted]!.message.length).toBeGreaterThan(20);
  });

  it('says once that nothing can be read, and goes on', async () => {
    const { url } = await startCounters();
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
    let notices = 0;
    const terminal = createFakeTerminal({
      onError(text, { interrupt }) {
        if (!text.includes('cannot be used')) return;
        notices++;
        setTimeout(interrupt, 0);
      },
    });
    expect(await run(['guard', '--scrape', url], terminal)).toBe(0);
    expect(notices).toBe(1);
    expect(terminal.written.out).toBe('');
  });
});
