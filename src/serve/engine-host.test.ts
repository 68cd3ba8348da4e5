/** Limits, clients that leave, shutting down: what happens to requests that do not simply end. */
import { describe, expect, it } from 'vitest';
import { createScriptedApp } from '../../test/support/serve/scripted-app.js';
import type { Script } from '../../test/support/serve/scripted-worker.js';
import { untilAborted } from '../../test/support/serve/scripted-worker.js';

/** Tells one token, and ends when it is let go or aborted. */
function createHeld() {
  const releases: (() => void)[] = [];
  const script: Script = (asked, tell) => {
    tell(' begun');
    return Promise.race([
      untilAborted(asked),
      new Promise<void>((resolve) => {
        releases.push(resolve);
      }),
    ]);
  };
  return {
    script,
    release: () => {
      for (const release of releases.splice(0)) release();
    },
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

interface Body {
  readonly choices: readonly { readonly finish_reason: string; readonly stop_reason: string | null }[];
}

describe('limits', () => {
  it('refuse a body by its length, said or counted', async () => {
    const { post } = createScriptedApp({ limits: { bodyBytes: 100 } });
    const body = JSON.stringify({ prompt: 'x'.repeat(200) });
    const headers = { 'content-type': 'application/json' };
    const said = await post('/v1/completions', body, { headers: { ...headers, 'content-length': '214' } });
    const streamed = new ReadableStream({
      pull(controller) {
        controller.enqueue(Buffer.from('x'.repeat(60)));
      },
    });
    const counted = await post('/v1/completions', body, {
      headers,
      body: streamed,
      duplex: 'half',
    });
    expect([said.status, counted.status]).toEqual([413, 413]);
    expect((await post('/v1/completions', { prompt: 'x' })).status).toBe(200);
  });

  it('bound new tokens, answers at once and what the engine is told of prompts', async () => {
    const { chat, post, asked } = createScriptedApp({
      limits: { newTokens: 20, choices: 4, promptTokens: 50 },
    });
    expect((await chat({ max_tokens: 21 })).status).toBe(400);
    expect((await chat({ n: 5 })).status).toBe(400);
    expect((await post('/v1/completions', { prompt: ['a', 'b', 'c'], n: 2 })).status).toBe(400);
    expect((await chat({ n: 4 })).status).toBe(200);
    expect(asked[0]!.options).toMatchObject({ maxNewTokens: 20, maxPromptTokens: 50 });
  });

  it('let as many new tokens through as the context has, where the prompt leaves them room', async () => {
    const { chat, asked } = createScriptedApp();
    expect((await chat({ max_tokens: 2048 })).status).toBe(200);
    expect((await chat()).status).toBe(200);
    expect(asked[0]!.options).toMatchObject({ maxNewTokens: 2048, needsRoom: true });
    expect(asked[1]!.options.needsRoom).toBe(false);
  });

  it('send away who would have to wait behind too many, and say when to come again', async () => {
    const { script, release } = createHeld();
    const { chat, host } = createScriptedApp({ script, concurrency: 2, limits: { queue: 3 } });
    const running = [chat({ n: 2 }), chat(), chat({ n: 2 })];
    await turn();
    expect(host.sequences).toBe(5);
    const response = await chat();
    expect(response.status).toBe(429);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(await response.json()).toMatchObject({ error: { type: 'rate_limit_error', code: 'queue_full' } });
    release();
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200, 200]);
    const later = chat();
    await turn();
    release();
    expect((await later).status).toBe(200);
  });

  it('end an answer whose time is over with what it has', async () => {
    const { script } = createHeld();
    const { chat, logged } = createScriptedApp({ script, limits: { seconds: 0.02 } });
    const response = await chat();
    const { choices } = (await response.json()) as Body;
    expect(choices[0]).toMatchObject({
      ...{ finish_reason: 'length', stop_reason: 'time_limit', message: { content: ' begun' } },
    });
    expect(JSON.parse(logged[0]!)).toMatchObject({ status: 200, cut: 'time' });
  });

  it('refuse a request whose time was over before it began', async () => {
    const { chat } = createScriptedApp({ script: untilAborted, limits: { seconds: 0.02 } });
    const responses = [await chat(), await chat({ stream: true })];
    expect(responses.map(({ status }) => status)).toEqual([503, 503]);
  });
});

describe('a client that leaves', () => {
  it.each([false, true])('ends its answers and nobody else’s (stream: %s)', async (stream) => {
    const { script, release } = createHeld();
    const { chat, host, asked } = createScriptedApp({ script });
    const leaving = new AbortController();
    const left = chat(
      { stream, n: 2 },
      { signal: leaving.signal, headers: { 'content-type': 'application/json' }, method: 'POST' },
    );
    const staying = chat();
    await turn();
    expect(host.sequences).toBe(3);
    leaving.abort();
    await turn();
    expect(asked[0]!.options.signal!.aborted).toBe(true);
    expect(asked[1]!.options.signal!.aborted).toBe(false);
    expect(host.sequences).toBe(1);
    release();
    expect((await staying).status).toBe(200);
    await left;
  });
});

describe('shutting down', () => {
  it('takes nothing, and lets what runs finish', async () => {
    const { script, release } = createHeld();
    const { chat, app, host, isClosed } = createScriptedApp({ script });
    const running = chat();
    await turn();
    const closing = host.close(60_000);
    expect((await app.request('/health')).status).toBe(503);
    const refused = await chat();
    expect([refused.status, refused.headers.get('connection')]).toEqual([503, 'close']);
    expect(isClosed()).toBe(false);
    release();
    const { choices } = (await (await running).json()) as Body;
    expect(choices[0]!.finish_reason).toBe('stop');
    await closing;
    expect(isClosed()).toBe(true);
  });

  it('ends with what there is when the time is over', async () => {
    const { script } = createHeld();
    const { chat, host, isClosed } = createScriptedApp({ script });
    const running = [chat(), chat({ stream: true })];
    await turn();
    await host.close(0);
    const [whole, stream] = await Promise.all(running);
    expect(((await whole!.json()) as Body).choices[0]!.stop_reason).toBe('shutdown');
    expect(await stream!.text()).toMatch(/"stop_reason":"shutdown".*\n\ndata: \[DONE\]\n\n$/);
    expect(isClosed()).toBe(true);
  });
});
