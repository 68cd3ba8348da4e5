import { describe, expect, it } from 'vitest';
import { createScriptedApp } from '../../test/support/serve/scripted-app.js';
import { untilAborted } from '../../test/support/serve/scripted-worker.js';

describe('the log', () => {
  const script = (_: unknown, tell: (text: string, accepted?: number) => void) => {
    tell(' violet');
    tell(' elephant', 3);
    tell('!', 1);
  };

  it('has one line a request, without its words', async () => {
    const { chat, logged, app } = createScriptedApp({ script });
    const fields = { messages: [{ role: 'user', content: 'crimson zebra' }], user: 'eve' };
    await (await chat({ ...fields, stream: true })).text();
    await chat({ ...fields, messages: [{ role: 'crimson zebra', content: 'crimson zebra' }] });
    await chat({ ...fields, 'crimson zebra': 1 });
    await chat({ ...fields, metadata: { 'crimson zebra': 1 } });
    await app.request('/health');
    expect(logged).toHaveLength(4);
    expect(JSON.parse(logged[0]!)).toMatchObject({
      ...{ route: '/v1/chat/completions', status: 200, promptTokens: 3, completionTokens: 3 },
      ...{ stream: true, finish: 'stop', drafter: 'head', acceptedLength: 3 },
      id: expect.stringMatching(/^chatcmpl-/) as string,
      ms: expect.any(Number) as number,
    });
    expect(logged.join('')).not.toMatch(/crimson|violet|elephant/);
  });

  it('has prompts and answers where that is asked for', async () => {
    const { chat, logged } = createScriptedApp({ script, app: { logsPrompts: true } });
    await chat({ messages: [{ role: 'user', content: 'crimson zebra' }] });
    expect(logged[0]).toMatch(/crimson zebra.*violet elephant!/);
  });

  it('holds no character that steers a terminal, and says the same', async () => {
    const { chat, logged } = createScriptedApp({ script, app: { logsPrompts: true } });
    const content = 'a\u009b2Jb\u202ec\u007fd\u2066e';
    await chat({ messages: [{ role: 'user', content }] });
    expect(logged[0]).not.toMatch(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
    expect(JSON.stringify(JSON.parse(logged[0]!))).toContain(content);
  });

  it('tells of clients that left', async () => {
    const { chat, logged, records } = createScriptedApp({
      script: async (asked, tell) => {
        tell(' a');
        await untilAborted(asked);
      },
    });
    const response = await chat({ stream: true });
    await response.body!.cancel();
    await new Promise((resolve) => setImmediate(resolve));
    expect(JSON.parse(logged[0]!)).toMatchObject({ status: 499, cut: 'client', finish: 'aborted' });
    expect(records[0]).toMatchObject({ ending: 'client-left', engine: 'mistletoe', completionTokens: 1 });
  });
});
