import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { guardSchema } from './guard-config.js';
import { findPromptTail, PromptTails } from './prompt-tail.js';
import { readRecordLine } from './record-schema.js';
import { createResponseReader } from './response-reader.js';
import { askForTelemetry } from './telemetry-request.js';
import { createRecord } from '../../test/support/guard/traffic.js';

const folder = resolve(import.meta.dirname, '../../test/fixtures/engines');
const bytesOf = (name: string): Buffer => readFileSync(resolve(folder, name));
/** Of the twenty tokens in the fixtures. */
const told = { tokens: 20, surprisal: 1.325 };
const tokens = (count: number, logprob: number): unknown[] =>
  Array.from({ length: count }, (_, index) => ({ [index]: { logprob, rank: 1, decoded_token: 'x' } }));

describe('the end of a prompt', () => {
  it.each([
    'vllm-prompt-logprobs.json',
    'vllm-completion-prompt-logprobs.json',
    'sglang-native-prompt-logprobs.json',
  ])('is read from %s beside what is told of drafts', (name) => {
    const reader = createResponseReader('application/json');
    reader.push(bytesOf(name), 0);
    expect(reader.finish()).toMatchObject({ promptTail: told, speculation: { steps: 6, accepted: 9 } });
  });

  it('is read from a stream, in whose last events it is not repeated', () => {
    const body = JSON.parse(bytesOf('sglang-native-prompt-logprobs.json').toString()) as object;
    const reader = createResponseReader('text/event-stream');
    reader.push(Buffer.from(`data: ${JSON.stringify(body)}\n\ndata: {"text":"x"}\n\ndata: [DONE]\n\n`), 0);
    expect(reader.finish().promptTail).toEqual(told);
  });

  it('is that of the last 32 tokens', () => {
    const body = { prompt_logprobs: [null, ...tokens(100, -9), ...tokens(32, -2)] };
    expect(findPromptTail(body)).toEqual({ tokens: 32, surprisal: 2 });
  });

  it('is cut where an engine says that a token cannot be', () => {
    const body = { prompt_logprobs: [null, ...tokens(15, 0), ...tokens(1, -9999)] };
    expect(findPromptTail(body)).toEqual({ tokens: 16, surprisal: 30 / 16 });
  });

  it.each([
    [{}],
    [null],
    [{ prompt_logprobs: null }],
    [{ prompt_logprobs: [null, ...tokens(7, -1)] }],
    [{ prompt_logprobs: [null, ...tokens(20, -1), { 5: { logprob: -1 }, 6: { logprob: -2 } }] }],
    [{ prompt_logprobs: [null, ...tokens(20, 3)] }],
    [{ prompt_logprobs: [...tokens(20, -1), 'x'] }],
    [{ choices: [{ prompt_logprobs: tokens(20, -1) }, { prompt_logprobs: tokens(20, -1) }] }],
    [{ meta_info: { input_token_logprobs: [[null, 1, null], ...new Array<unknown>(20).fill(['x'])] } }],
  ])('is not known from %j', (body) => {
    expect(findPromptTail(body)).toBeNull();
  });

  it('is kept in a record as two numbers', () => {
    const record = createRecord([1, 2, 3], { id: 'a', promptTail: told });
    expect(readRecordLine(JSON.parse(JSON.stringify(record)))).toEqual({ record });
    const older = createRecord([1, 2, 3], { id: 'a' });
    expect(readRecordLine(JSON.parse(JSON.stringify(older)))).toEqual({ record: older });
  });
});

describe('asking for it', () => {
  const ask = (engine: 'vllm' | 'sglang' | 'llama-cpp', body: string, promptLogprobs = true): string => {
    const asked = askForTelemetry(engine, Buffer.from(body), { promptLogprobs });
    return asked === undefined ? body : Buffer.from(asked).toString();
  };

  it('adds the fields of engines that have such', () => {
    expect(ask('vllm', '{"messages":[]}')).toBe('{"prompt_logprobs":0,"messages":[]}');
    expect(ask('vllm', '{"prompt":"x"}')).toBe('{"prompt_logprobs":0,"prompt":"x"}');
    expect(ask('sglang', '{"text":"x"}')).toBe('{"return_logprob":true,"logprob_start_len":0,"text":"x"}');
  });

  it.each([
    ['vllm', '{"messages":[],"prompt_logprobs":null}'],
    ['sglang', '{"text":"x","return_logprob":false}'],
    ['sglang', '{"text":"x","logprob_start_len":5}'],
    ['llama-cpp', '{"messages":[]}'],
  ] as const)('leaves to %s what the client has said: %s', (engine, body) => {
    expect(ask(engine, body)).toBe(body);
  });

  it('asks for it in no stream of vLLM, which refuses that, and nowhere unless told to', () => {
    expect(ask('vllm', '{"messages":[],"stream":true}')).not.toContain('prompt_logprobs');
    expect(ask('sglang', '{"messages":[]}')).not.toContain('logprob');
    expect(ask('vllm', '{"messages":[]}', false)).toBe('{"messages":[]}');
  });

  it('is off, and needs that requests may be changed', () => {
    const upstream = 'http://127.0.0.1:8000';
    expect(guardSchema.parse({ upstream }).askForPromptLogprobs).toBe(false);
    const given = { upstream, askForPromptLogprobs: true };
    expect(guardSchema.safeParse(given).error?.issues[0]).toMatchObject({ path: ['askForPromptLogprobs'] });
    expect(guardSchema.parse({ ...given, askForTelemetry: true }).askForPromptLogprobs).toBe(true);
  });
});

describe('what prompts usually end with', () => {
  it('is not taught by odd ends that are some of many', () => {
    const tails = new PromptTails();
    for (let request = 0; request < 500; request++)
      tails.learnUsual('m', { tokens: 32, surprisal: request % 6 === 0 ? 12 : 2 + (request % 7) / 7 });
    expect(tails.findUnlikely('m', { tokens: 32, surprisal: 12 })).toBeDefined();
  });

  it('is known after some, by model, and over a restart', () => {
    const random = createRandom(1, 'tails');
    const tails = new PromptTails();
    const odd = { tokens: 32, surprisal: 9 };
    for (let request = 0; request < 300; request++) {
      if (request === 50) expect(tails.findUnlikely('m', odd)).toBeUndefined();
      tails.learnUsual('m', { tokens: 32, surprisal: 1 + 4 * random.next() });
    }
    const found = tails.findUnlikely('m', odd)!;
    expect(found.surprisal).toBe(9);
    // The middle of 1 to 5 is 3, and the upper quarter begins at 4.
    expect(found.usual).toBeGreaterThan(6.5);
    expect(found.usual).toBeLessThan(7.5);
    expect(tails.findUnlikely('m', { tokens: 32, surprisal: 7.4 })).toBeUndefined();
    expect(tails.findUnlikely('other', odd)).toBeUndefined();
    const copy = new PromptTails();
    copy.restore(tails.save());
    expect(copy.findUnlikely('m', odd)).toEqual(found);
    copy.forget('m');
    expect(copy.findUnlikely('m', odd)).toBeUndefined();
  });
});
