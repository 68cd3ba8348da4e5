import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { createAccess } from './access.js';
import { createScriptedApp } from '../../test/support/serve/scripted-app.js';

interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}
const errorOf = async (response: Response): Promise<ErrorBody['error']> =>
  ((await response.json()) as ErrorBody).error;

describe('routes', () => {
  it('answer a chat in OpenAI’s shape, and say who they are', async () => {
    const { chat } = createScriptedApp();
    const response = await chat({ model: 'tiny' });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-mistletoe-engine')).toBe('mistletoe/0.0.0');
    const body = (await response.json()) as { id: string };
    expect(response.headers.get('x-request-id')).toBe(body.id);
    expect(body).toMatchObject({
      ...{ object: 'chat.completion', model: 'tiny', system_fingerprint: 'mistletoe-0.0.0' },
      choices: [
        { index: 0, message: { role: 'assistant', content: ' fine' }, logprobs: null, finish_reason: 'stop' },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
    });
    expect(body).not.toHaveProperty('metrics');
  });

  it('hand the engine what was asked for', async () => {
    const { chat, asked } = createScriptedApp();
    await chat({
      messages: [
        { role: 'developer', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        { role: 'assistant', content: 'c', refusal: null, tool_calls: [], annotations: [] },
        { role: 'user', content: 'd' },
      ],
      ...{
        max_completion_tokens: 9,
        temperature: 0.5,
        top_p: 0.9,
        top_k: 5,
        seed: -3,
        n: 2,
        stop: ['x', 'y'],
      },
      ...{ logprobs: true, top_logprobs: 2, mistletoe: { drafter: 'ngram', draft: 'chain:2' } },
      ...{
        user: 'u',
        metadata: { a: 'b' },
        store: false,
        frequency_penalty: 0,
        response_format: { type: 'text' },
      },
    });
    expect(asked).toHaveLength(1);
    expect(asked[0]).toMatchObject({
      prompt: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'a\nb' },
        { role: 'assistant', content: 'c' },
        { role: 'user', content: 'd' },
      ],
      count: 2,
      options: {
        ...{ maxNewTokens: 9, sampling: { temperature: 0.5, topP: 0.9, topK: 5 }, seed: -3 },
        ...{ stopStrings: ['x', 'y'], topLikelihoods: 2, drafter: 'ngram', policy: 'chain:2', chat: true },
      },
    });
  });

  it('draw at temperature 1 with the server’s drafter unless told, and with another seed each time', async () => {
    const { chat, asked } = createScriptedApp();
    await chat();
    await chat({ mistletoe: { drafter: 'none' } });
    expect(asked[0]!.options).toMatchObject({
      sampling: { temperature: 1 },
      drafter: 'head',
      policy: 'chain:4',
    });
    expect(asked[1]!.options.drafter).toBeUndefined();
    expect(asked[0]!.options.seed).not.toBe(asked[1]!.options.seed);
  });

  it('continue texts and token ids', async () => {
    const { post, asked } = createScriptedApp();
    const prompts: readonly unknown[] = ['Once', [5, 6], ['a', 'b'], [[1], [2, 3]]];
    const counts: number[] = [];
    for (const prompt of prompts) {
      const response = await post('/v1/completions', { prompt, logprobs: 0 });
      const { choices } = (await response.json()) as { choices: { index: number; text: string }[] };
      counts.push(choices.length);
      expect(choices.map(({ index }) => index)).toEqual(choices.map((_, index) => index));
    }
    expect(counts).toEqual([1, 1, 2, 2]);
    expect(asked.map(({ prompt }) => prompt)).toEqual(['Once', [5, 6], 'a', 'b', [1], [2, 3]]);
    expect(asked.every(({ options }) => options.maxNewTokens === 16 && options.chat === false)).toBe(true);
  });

  it.each([
    ['frequency_penalty', 0.5],
    ['presence_penalty', -1],
    ['logit_bias', { 5: 1 }],
    ['tools', [{}]],
    ['tool_choice', 'auto'],
    ['functions', [{}]],
    ['response_format', { type: 'json_object' }],
    ['store', true],
    ['service_tier', 'flex'],
    ['modalities', ['audio']],
    ['audio', {}],
    ['prediction', {}],
    ['reasoning_effort', 'low'],
    ['verbosity', 'low'],
    ['web_search_options', {}],
    ['min_p', 0.1],
    ['temperature', 3],
    ['temperature', 'hot'],
    ['top_p', 0],
    ['top_k', -2],
    ['n', 0],
    ['n', 1.5],
    ['seed', 0.5],
    ['max_tokens', 0],
    ['max_completion_tokens', -1],
    ['stream', 'yes'],
    ['stop', ''],
    ['stop', ['a', 'b', 'c', 'd', 'e']],
    ['stop', '\ud800'],
    ['top_logprobs', 21],
    ['top_logprobs', 2],
    ['stream_options', { include_usage: true }],
    ['messages', []],
    ['mistletoe.draft', 'chain', { mistletoe: { draft: 'chain' } }],
    ['mistletoe.draft', 'a file', { mistletoe: { draft: 'tree:/etc/passwd.json' } }],
    ['mistletoe.draft', 'without drafter', { mistletoe: { drafter: 'none', draft: 'chain:2' } }],
    ['mistletoe.drafter', 'unknown', { mistletoe: { drafter: 'nobody' } }],
    ['messages.0.role', 'tool', { messages: [{ role: 'tool', content: 'x' }] }],
    ['messages.0.name', 'no text', { messages: [{ role: 'user', content: 'x', name: 5 }] }],
    ['messages.0.content', 'null of a user', { messages: [{ role: 'user', content: null }] }],
    ['max_tokens', 2049],
    ['max_tokens', 'the newer name', { max_completion_tokens: 2049 }],
    ['messages.0.content', 'image', { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }],
    ['max_tokens', 'two lengths', { max_tokens: 3, max_completion_tokens: 4 }],
  ] as [string, unknown, object?][])('refuse %s %j by its name', async (param, value, fields) => {
    const { chat, asked } = createScriptedApp();
    const response = await chat(fields ?? { [param]: value });
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({ type: 'invalid_request_error', param });
    expect(asked).toEqual([]);
  });

  it.each([
    ['echo', true],
    ['suffix', 'x'],
    ['best_of', 2],
    ['prompt', ''],
    ['prompt', []],
    ['logprobs', 6],
    ['messages', []],
  ])('refuse %s %j of a completion', async (param, value) => {
    const { post } = createScriptedApp();
    const response = await post('/v1/completions', { prompt: 'x', [param]: value });
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({ param });
  });

  it.each([
    ['no JSON', '{"messages":', 400, 'invalid_json'],
    ['no object', '[]', 400, 'invalid_value'],
    ['nothing', '', 400, 'invalid_json'],
    ['a million brackets', '['.repeat(1e6) + ']'.repeat(1e6), 400, 'invalid_json'],
  ])('refuse %s', async (_, body, status, code) => {
    const { post } = createScriptedApp();
    const response = await post('/v1/chat/completions', body);
    expect(response.status).toBe(status);
    expect(await errorOf(response)).toMatchObject({ code });
  });

  it('refuse bytes that are no text, other types and other methods', async () => {
    const { post, app } = createScriptedApp();
    const bytes = await post('/v1/completions', '', { body: Buffer.from([0x22, 0xff, 0x22]) });
    expect(await errorOf(bytes)).toMatchObject({ code: 'invalid_json' });
    const plain = await post('/v1/completions', '{}', { headers: { 'content-type': 'text/plain' } });
    expect(plain.status).toBe(415);
    const got = await app.request('/v1/chat/completions');
    expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST']);
    const posted = await post('/v1/models', {});
    expect(posted.status).toBe(405);
    const nowhere = await app.request('/v2/nothing');
    expect([nowhere.status, (await errorOf(nowhere)).code]).toEqual([404, 'not_found']);
  });

  it('know one model', async () => {
    const { app, chat } = createScriptedApp();
    expect(await (await app.request('/v1/models')).json()).toMatchObject({
      object: 'list',
      data: [{ id: 'tiny', object: 'model', owned_by: 'mistletoe', max_model_len: 2048 }],
    });
    expect((await app.request('/v1/models/tiny')).status).toBe(200);
    expect((await app.request('/v1/models/gpt-4')).status).toBe(404);
    const response = await chat({ model: 'gpt-4' });
    expect([response.status, await errorOf(response)]).toMatchObject([
      404,
      { code: 'model_not_found', param: 'model' },
    ]);
  });

  it('send those away who ask for a chat of a model without a template', async () => {
    const { chat, post } = createScriptedApp({ isChat: false });
    expect((await chat()).status).toBe(400);
    expect((await post('/v1/completions', { prompt: 'x' })).status).toBe(200);
  });

  it('refuse a host that only points to this machine', async () => {
    const { chat } = createScriptedApp();
    const headers = { 'content-type': 'application/json', host: 'evil.example' };
    expect((await chat({}, { headers })).status).toBe(403);
  });
});

describe('keys', () => {
  const access = createAccess([
    { name: 'alice', key: 'secret-of-alice' },
    { name: 'bob', key: 'secret-of-bob' },
  ]);
  const show = (authorization: string) => ({
    headers: { 'content-type': 'application/json', authorization },
  });

  it.each([
    '',
    'Bearer',
    'Bearer ',
    'Bearer secret',
    'Bearer secret-of-alic',
    'Basic secret-of-alice',
    'secret-of-alice',
  ])('keep out whoever shows "%s"', async (authorization) => {
    const { chat, app, asked } = createScriptedApp({ app: { access } });
    const response = await chat({}, show(authorization));
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    expect(await errorOf(response)).toMatchObject({ type: 'authentication_error', code: 'invalid_api_key' });
    expect((await app.request('/v1/models')).status).toBe(401);
    expect((await app.request('/health')).status).toBe(200);
    expect(asked).toEqual([]);
  });

  it('let each in under its name, and never write a key down', async () => {
    const { chat, logged, records } = createScriptedApp({ app: { access } });
    expect((await chat({}, show('Bearer secret-of-bob'))).status).toBe(200);
    expect((await chat({}, show('Bearer secret-of-eve'))).status).toBe(401);
    expect(JSON.parse(logged[0]!)).toMatchObject({ caller: 'bob', status: 200 });
    expect(records.map(({ tenant }) => tenant)).toEqual(['bob']);
    expect(logged.join('')).not.toContain('secret-of');
  });
});

describe('failures', () => {
  it('of the engine are told to the log, and to clients without details', async () => {
    const script = () => Promise.reject(new Error('segment 7 of /home/operator/x is broken'));
    const { chat, logged } = createScriptedApp({ script });
    const response = await chat();
    expect(response.status).toBe(500);
    const text = await response.text();
    expect(text).not.toMatch(/segment|operator|at /);
    expect(logged.join('')).toContain('segment 7');
  });

  it('that are the client’s have a sentence, in which no folder of this machine stands', async () => {
    const refusal = new MistletoeError('text', 'The chat template in /home/operator/tiny/x refused.');
    const { chat } = createScriptedApp({ script: () => Promise.reject(refusal) });
    const response = await chat();
    expect([response.status, (await errorOf(response)).message]).toEqual([
      400,
      'The chat template in tiny/x refused.',
    ]);
    const long = createScriptedApp({
      script: () => Promise.reject(new MistletoeError('context', 'Too long.')),
    });
    expect(await errorOf(await long.chat({ stream: true }))).toMatchObject({
      code: 'context_length_exceeded',
    });
  });

  it('in the middle of a stream end it with an error', async () => {
    const { chat, logged, records } = createScriptedApp({
      script: (_, tell) => {
        tell(' a', 2);
        throw new Error('broken');
      },
    });
    const response = await chat({ stream: true });
    expect(response.status).toBe(200);
    const events = (await response.text()).trim().split('\n\n');
    expect(events.at(-1)).toBe('data: [DONE]');
    expect(JSON.parse(events.at(-2)!.slice(6))).toMatchObject({ error: { code: 'internal_error' } });
    expect(JSON.parse(logged[0]!)).toMatchObject({ status: 200, error: 'internal_error' });
    expect(records).toMatchObject([
      { ending: 'upstream-failed', speculation: { steps: 1, accepted: 2, proposed: 4 } },
    ]);
  });

  it('of one request leave the others alone', async () => {
    const { chat, host } = createScriptedApp({
      script: async ({ options }, tell) => {
        await Promise.resolve();
        if (options.seed === 1) throw new Error('broken');
        tell(' fine');
      },
    });
    const responses = await Promise.all([1, 2, 1, 3].map((seed) => chat({ seed })));
    expect(responses.map(({ status }) => status)).toEqual([500, 200, 500, 200]);
    expect(host.sequences).toBe(0);
  });

  it('of the whole engine make the server unhealthy', async () => {
    const { chat, app, fail } = createScriptedApp();
    fail(new Error('gone'));
    await Promise.resolve();
    expect((await app.request('/health')).status).toBe(503);
    expect((await chat()).status).toBe(503);
  });
});
