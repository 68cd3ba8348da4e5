/** The server with real models, through the official client. */
import { request as httpRequest } from 'node:http';
import { BadRequestError, NotFoundError } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateText } from '../../src/decode/generate.js';
import { openTarget } from '../../src/decode/target.js';
import type { Target } from '../../src/decode/target.js';
import { bundledTarget } from '../../src/core/package-files.js';
import { parsePrometheusText } from '../../src/guard/engines/counters.js';
import { findSpeculation } from '../../src/guard/engines/engine-list.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { bundledCache } from '../support/model-folders.js';
import type { StartedServer } from '../support/openai-server.js';
import { startTestServer } from '../support/openai-server.js';
import { transpileForTests } from '../support/transpiled-sources.js';
import { ask, expectPlainAnswers, expectSameStreams, greedy, long, model, sky } from './served-answers.js';

const { folder: build } = transpileForTests('serve');
const runtime = createOnnxRuntime({ threads: 1 });
let started: StartedServer;
let target: Target;

beforeAll(async () => {
  started = await startTestServer(build, {
    ...{ drafters: { eagle3: 'eagle3', sps: 'sps', ngram: 'ngram' }, draft: 'chain:4', concurrency: 16 },
    metricsLevel: 'summary',
  });
  target = await openTarget(bundledTarget, { runtime, cacheFolder: bundledCache });
});
afterAll(async () => {
  await started.server.close();
  await runtime.dispose();
});

describe('the official client', () => {
  it('lists the model', async () => {
    const ids: string[] = [];
    for await (const { id } of await started.client.models.list()) ids.push(id);
    expect(ids).toEqual([model]);
    expect(await started.client.models.retrieve(model)).toMatchObject({ id: model, owned_by: 'mistletoe' });
  });

  it('gets the answer that plain decoding gives here, with what drafts came to', async () => {
    const alone = await generateText(target, sky, { maxNewTokens: 24 });
    const answer = await started.client.chat.completions.create({ ...greedy, messages: ask(sky) });
    expect(answer.choices[0]).toMatchObject({
      message: { role: 'assistant', content: alone.text },
      finish_reason: alone.finishReason,
    });
    expect(answer.usage).toEqual({
      prompt_tokens: alone.promptTokenIds.length,
      completion_tokens: alone.tokenIds.length,
      total_tokens: alone.promptTokenIds.length + alone.tokenIds.length,
    });
    const { engine, speculation } = findSpeculation(answer);
    expect(engine).toBe('mistletoe');
    expect(speculation!.steps).toBeLessThan(alone.tokenIds.length);
    expect(speculation!.accepted).toBeGreaterThan(0);
  });

  it('streams the same, in several pieces, with usage', async () => {
    const alone = await generateText(target, sky, { maxNewTokens: 24 });
    const stream = await started.client.chat.completions.create({
      ...{ ...greedy, messages: ask(sky), stream: true, stream_options: { include_usage: true } },
    });
    const pieces: string[] = [];
    let usage: unknown;
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) pieces.push(chunk.choices[0].delta.content);
      usage = chunk.usage ?? usage;
    }
    expect(pieces.join('')).toBe(alone.text);
    expect(pieces.length).toBeGreaterThan(2);
    expect(usage).toMatchObject({ completion_tokens: alone.tokenIds.length });
  });

  it('gets two answers of which each is that of its seed', async () => {
    const fieldsOf = (seed: number, n: number) => ({
      ...{ model, temperature: 2, max_completion_tokens: 12, messages: ask(long), seed, n },
    });
    const both = await started.client.chat.completions.create(fieldsOf(40, 2));
    const texts = both.choices.map(({ message }) => message.content);
    const alone = [40, 41].map((seed) => started.client.chat.completions.create(fieldsOf(seed, 1)));
    for (const [index, answer] of (await Promise.all(alone)).entries())
      expect(answer.choices[0]!.message.content).toBe(texts[index]);
    expect(texts[0]).not.toBe(texts[1]);
    expect(both.usage!.prompt_tokens).toBeGreaterThan(33);
  });

  it('gets text that ends before a stop, and is told which', async () => {
    const whole = await generateText(target, sky, { maxNewTokens: 24 });
    const stop = whole.text.slice(12, 15);
    const answer = await started.client.chat.completions.create({
      ...{ ...greedy, messages: ask(sky), stop: ['never there', stop] },
    });
    expect(answer.choices[0]).toMatchObject({
      ...{ finish_reason: 'stop', stop_reason: stop },
      message: { content: whole.text.slice(0, whole.text.indexOf(stop)) },
    });
  });

  it('gets likelihoods that are the same with and without drafts', async () => {
    const asked = { ...greedy, messages: ask(sky), logprobs: true, top_logprobs: 3 };
    const plain = { ...asked, mistletoe: { drafter: 'none' } };
    const [drafted, undrafted] = await Promise.all([
      started.client.chat.completions.create(asked),
      started.client.chat.completions.create(plain),
    ]);
    const [first, second] = [drafted, undrafted].map(({ choices }) => choices[0]!.logprobs!.content!);
    expect(first!.map(({ token }) => token)).toEqual(second!.map(({ token }) => token));
    expect(first!.map(({ token }) => token).join('')).toContain(drafted.choices[0]!.message.content!.trim());
    for (const [index, { logprob, top_logprobs: top }] of first!.entries()) {
      expect(logprob).toBeCloseTo(second![index]!.logprob, 3);
      expect(top).toHaveLength(3);
      expect(top[0]!.logprob).toBe(logprob); // greedy: the likeliest is the one that was taken
      expect(top[0]!.logprob).toBeGreaterThanOrEqual(top[1]!.logprob);
    }
    expect(undrafted).toMatchObject({ metrics: { speculative_decoding: null } });
  });

  it('gets the answers of plain decoding with drafters, two to one prompt', async () => {
    await expectPlainAnswers(started, [sky], ['eagle3', 'ngram']);
  });

  it('gets streams that are token for token what each is alone, eight at once', async () => {
    await expectSameStreams(started, 8);
  });

  it('continues texts and token ids', async () => {
    const ids = await target.tokenizer.encode('def add(a, b):');
    const create = (prompt: string | number[]) =>
      started.client.completions.create({ model, prompt, temperature: 0, max_tokens: 8, logprobs: 2 });
    const [text, tokens] = await Promise.all([create('def add(a, b):'), create(ids)]);
    const alone = await generateText(target, 'def add(a, b):', { maxNewTokens: 8, chat: false });
    expect(text.choices[0]!.text).toBe(alone.text);
    expect(tokens.choices[0]!.text).toBe(alone.text);
    expect(text.choices[0]!.logprobs!.tokens).toHaveLength(alone.tokenIds.length);
  });

  it('chooses drafter and policy by request', async () => {
    const metricsOf = async (mistletoe: object): Promise<unknown> => {
      const fields = { ...greedy, messages: ask('Count: one two one two one two'), mistletoe };
      return ((await started.client.chat.completions.create(fields)) as { metrics?: unknown }).metrics;
    };
    expect(await metricsOf({ drafter: 'sps', draft: 'chain:2', metrics: 'detailed' })).toMatchObject({
      speculative_decoding: { num_spec_tokens: 2 },
      mistletoe: { drafter: 'sps', draft: 'chain:2' },
    });
    expect(await metricsOf({ draft: 'dynamic:8,2,2' })).toMatchObject({
      speculative_decoding: { is_tree: true },
    });
  });

  it('is told what is wrong', async () => {
    const { client } = started;
    const create = (fields: object) =>
      client.chat.completions.create({ ...greedy, messages: ask(sky), ...fields });
    await expect(create({ frequency_penalty: 1 })).rejects.toMatchObject({
      status: 400,
      param: 'frequency_penalty',
    });
    await expect(create({ frequency_penalty: 1 })).rejects.toBeInstanceOf(BadRequestError);
    await expect(create({ model: 'gpt-4' })).rejects.toBeInstanceOf(NotFoundError);
    await expect(create({ messages: ask('word '.repeat(5000)) })).rejects.toMatchObject({
      ...{ status: 400, code: 'context_length_exceeded' },
    });
    await expect(create({ mistletoe: { drafter: 'ngram', draft: 'dynamic:8,2,2' } })).rejects.toMatchObject({
      ...{ status: 400, message: expect.stringContaining('makes chains') as string },
    });
  });

  it.each([true, false])('frees what it held when it leaves (stream: %s)', async (stream) => {
    const { client, server, nextLog } = started;
    const leaving = new AbortController();
    const line = nextLog();
    const fields = {
      ...greedy,
      messages: ask('Tell me a very long story.'),
      max_completion_tokens: 1500,
      seed: 1,
    };
    const drawn = { ...fields, temperature: 2 }; // goes on and on
    const asked = client.chat.completions.create({ ...drawn, stream }, { signal: leaving.signal });
    if (stream) {
      const chunks = (await asked) as AsyncIterable<unknown>;
      await chunks[Symbol.asyncIterator]().next();
      leaving.abort();
    } else {
      await waitFor(async () => (await server.load()).running === 1);
      leaving.abort();
      await expect(asked).rejects.toThrow();
    }
    expect(await line).toMatchObject({ status: 499, cut: 'client' });
    expect(await server.load()).toEqual({ running: 0, waiting: 0, usedBytes: 0 });
  });
});

async function waitFor(isThere: () => Promise<boolean>): Promise<void> {
  while (!(await isThere()));
}

describe('the server', () => {
  it('has metrics that are read', async () => {
    await started.client.chat.completions.create({ ...greedy, messages: ask(sky) });
    const text = await (await fetch(`${started.server.url}/metrics`)).text();
    const samples = parsePrometheusText(text);
    const drafts = samples.find(({ name }) => name === 'vllm:spec_decode_num_drafts_total')!;
    expect(samples).toHaveLength(text.match(/^[^#\n]/gm)!.length);
    expect(drafts.value).toBeGreaterThan(0);
    expect(drafts.labels.get('model_name')).toBe(model);
  });

  it('refuses a body that is too large while it is sent', async () => {
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const url = new URL('/v1/completions', started.server.url);
      const request = httpRequest(url, { method: 'POST', headers: { 'content-type': 'application/json' } });
      request.on('response', (response) => {
        resolve(response.statusCode);
        request.destroy();
      });
      request.on('error', reject);
      const piece = Buffer.alloc(2 ** 16, 32);
      for (let sent = 0; sent < 5 * 2 ** 20; sent += piece.length) request.write(piece);
    });
    expect(status).toBe(413);
  });

  it('ends gracefully: who runs is answered, who comes is refused, the thread is gone', async () => {
    const own = await startTestServer(build, { concurrency: 2 });
    const asked = { ...greedy, max_completion_tokens: 40, messages: ask(sky) };
    const running = own.client.chat.completions.create(asked);
    await waitFor(async () => (await own.server.load()).running === 1);
    const closing = own.server.close({ graceMs: 3_600_000 });
    const alone = await generateText(target, sky, { maxNewTokens: 40 });
    expect((await running).choices[0]!.message.content).toBe(alone.text);
    await closing;
    expect(await own.server.ended).toBeUndefined();
    await expect(fetch(`${own.server.url}/health`)).rejects.toThrow();
  });

  it('ends at once where it has to, with what there is', async () => {
    const own = await startTestServer(build, { concurrency: 2 });
    const drawn = { ...greedy, temperature: 2, seed: 1, max_completion_tokens: 1500 };
    const running = own.client.chat.completions.create({ ...drawn, messages: ask('Tell me a story.') });
    await waitFor(async () => (await own.server.load()).running === 1);
    await own.server.close({ graceMs: 0 });
    expect((await running).choices[0]).toMatchObject({ finish_reason: 'length', stop_reason: 'shutdown' });
  });

  it('does not listen for strangers without keys', async () => {
    await expect(startTestServer(build, { host: '0.0.0.0' })).rejects.toMatchObject({ code: 'usage' });
    const { server } = started;
    const { port } = new URL(server.url);
    await expect(startTestServer(build, { port: Number(port) })).rejects.toThrow('cannot listen');
  });
});
