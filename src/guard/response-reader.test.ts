import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ReaderLimits, ReadResponse } from './response-reader.js';
import { createResponseReader } from './response-reader.js';
import type { StreamChunk } from './stream-chunk.js';

const folder = resolve(import.meta.dirname, '../../test/fixtures/engines');
const bytesOf = (name: string): Buffer => readFileSync(resolve(folder, name));
const typeOf = (name: string): string => (name.endsWith('.sse') ? 'text/event-stream' : 'application/json');

interface Whole extends ReadResponse {
  readonly given: readonly StreamChunk[];
}

function read(type: string, bytes: Uint8Array, cuts: readonly number[] = [], limits?: ReaderLimits): Whole {
  const reader = createResponseReader(type, limits);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  const given = places
    .slice(1)
    .flatMap((end, index) => reader.push(bytes.subarray(places[index], end), 1000));
  return { given, ...reader.finish() };
}
const readFixture = (name: string): Whole => read(typeOf(name), bytesOf(name));

const answer = {
  usage: { promptTokens: 21, completionTokens: 16 },
  refusal: null,
  unread: null,
  isWhole: true,
};
const counted = { steps: 6, accepted: 9, proposed: 18 };

describe('createResponseReader', () => {
  it.each([
    [
      'vllm-detailed.json',
      { engine: 'vllm', model: 'meta-llama/Llama-3.1-8B-Instruct', speculation: counted },
    ],
    ['vllm-silent.json', { engine: 'vllm', speculation: null, estimate: null }],
    ['sglang-native.json', { engine: 'sglang', id: 'a3f0c5d2e1b94c61', speculation: counted }],
    ['llama-cpp-native.json', { engine: 'llama-cpp', model: 'qwen3-8b-q4_k_m.gguf', speculation: counted }],
    ['vllm-stream.sse', { engine: 'vllm', chunks: 7, speculation: { ...counted, draftLength: 3 } }],
    ['sglang-stream.sse', { engine: 'sglang', model: 'Qwen/Qwen3-8B', speculation: counted }],
    ['sglang-native-stream.sse', { engine: 'sglang', chunks: 7, speculation: counted }],
    ['tensorrt-llm-stream.sse', { engine: 'tensorrt-llm', speculation: { steps: 6, accepted: 10 } }],
    ['llama-cpp-stream.sse', { engine: 'llama-cpp', chunks: 16, speculation: counted, usage: {} }],
  ])('reads %s', (name, expected) => {
    expect(readFixture(name)).toMatchObject({ ...answer, ...expected });
  });

  it.each(['llama-cpp-stream-per-token.sse', 'sglang-native-stream.sse'])(
    'gives out the steps that %s tells as it goes',
    (name) => {
      const told = readFixture(name).given.flatMap((chunk) => chunk.told ?? []);
      expect(told.map(({ accepted }) => accepted)).toEqual([3, 1, 0, 2, 1, 2]);
      expect(told.map(({ steps, proposed }) => [steps, proposed])).toEqual(new Array(6).fill([1, 3]));
    },
  );

  it.each(['vllm-stream-token-ids.sse', 'vllm-stream-continuous-usage.sse', 'sglang-native-stream.sse'])(
    'counts the tokens of every chunk of %s',
    (name) => {
      expect(readFixture(name).given.map(({ tokens }) => tokens)).toEqual([1, 4, 2, 1, 3, 2, 3]);
    },
  );

  it.each(['vllm-stream-token-ids.sse', 'vllm-stream-continuous-usage.sse'])(
    'estimates the steps of %s, whose engine tells nothing',
    (name) => {
      const { speculation, estimate } = readFixture(name);
      expect(speculation).toBeNull();
      expect(estimate).toMatchObject({
        unit: 'chunk',
        speculation: { evidence: 'estimated', steps: 6, accepted: 9, perStepAccepted: [3, 1, 0, 2, 1, 2] },
      });
    },
  );

  it('estimates the mean from the usage where chunks cannot be counted', () => {
    const { estimate, given } = readFixture('vllm-stream-silent.sse');
    expect(given.map(({ tokens }) => tokens)).toEqual(new Array(7).fill(null));
    expect(estimate).toMatchObject({
      detail: 'mean',
      speculation: { steps: 6, accepted: 9, perStepAccepted: null },
    });
  });

  it('reads what can be read of a broken stream', () => {
    const { given, id, isWhole, unread, engine, usage } = readFixture('broken-stream.sse');
    expect(given.map(({ characters }) => characters)).toEqual(['Grüße 🌿'.length, 4]);
    expect({ id, isWhole, engine }).toEqual({ id: 'in-two-lines', isWhole: false, engine: 'unknown' });
    expect(usage).toEqual({ promptTokens: 3, completionTokens: null });
    expect(unread).toMatch(/3 events are no JSON objects and 0 too long/);
  });

  it('estimates nothing where choices come mixed', () => {
    const event = (index: number): string =>
      `data: ${JSON.stringify({ choices: [{ index, delta: { content: 'x' }, token_ids: [1, 2] }] })}\n\n`;
    const bytes = Buffer.from([0, 1, 0, 1, 0, 1].map(event).join(''));
    expect(read('text/event-stream', bytes)).toMatchObject({ chunks: 6, estimate: null });
  });

  it('says why it has not read', () => {
    const body = bytesOf('vllm-summary.json');
    const json = 'application/json; charset=utf-8';
    expect(read(json, gzipSync(body), [], { contentEncoding: 'gzip' })).toMatchObject({
      speculation: null,
      unread: 'The answer is compressed (gzip).',
    });
    expect(read(json, body, [5, 9], { bodyBytes: 100 })).toMatchObject({
      speculation: null,
      bytes: body.length,
      unread: 'The answer has more than 100 bytes.',
    });
    expect(read('text/html', body)).toMatchObject({ unread: 'The answer is text/html.', bytes: body.length });
    expect(read(json, body.subarray(0, 50))).toMatchObject({
      unread: 'The answer is not JSON.',
      isWhole: false,
    });
    expect(read(json, body)).toMatchObject({ unread: null, speculation: counted });
    const stream = bytesOf('vllm-stream.sse');
    expect(read('text/event-stream', stream, [], { eventCharacters: 400 }).unread).toMatch(
      /0 events .* 1 too long/,
    );
  });

  it('takes an engine that speaks like vLLM for what its header says', () => {
    const body = bytesOf('vllm-summary.json');
    expect(read('application/json', body, [], { engine: 'mistletoe' }).engine).toBe('mistletoe');
    expect(read('application/json', body, [], { engine: 'sglang' }).engine).toBe('vllm');
    expect(read('application/json', bytesOf('error.json'), [], { engine: 'tgi' }).engine).toBe('tgi');
  });

  it('never depends on how the bytes of an answer are cut', () => {
    const names = readdirSync(folder).filter((name) => /\.(?:sse|json)$/.test(name));
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.array(fc.nat(), { maxLength: 40 }), (name, cuts) => {
        expect(read(typeOf(name), bytesOf(name), cuts)).toEqual(readFixture(name));
      }),
      { numRuns: 300, seed: 13 },
    );
  });

  it('never throws on damaged answers, nor depends on how they are cut', () => {
    const names = readdirSync(folder).filter((name) => /\.(?:sse|json)$/.test(name));
    const damage = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 20 });
    fc.assert(
      fc.property(fc.constantFrom(...names), damage, fc.array(fc.nat()), (name, changes, cuts) => {
        const bytes = Buffer.from(bytesOf(name));
        for (const [place, value] of changes) bytes[place % bytes.length] = value;
        expect(read(typeOf(name), bytes, cuts)).toEqual(read(typeOf(name), bytes));
      }),
      { numRuns: 500, seed: 13 },
    );
  });

  it('never throws on bytes that are nothing', () => {
    const type = fc.constantFrom('text/event-stream', 'application/json', 'x', '');
    fc.assert(
      fc.property(type, fc.uint8Array(), fc.array(fc.nat()), (given, bytes, cuts) => {
        expect(read(given, bytes, cuts)).toEqual(read(given, bytes));
      }),
      { seed: 13 },
    );
  });
});
