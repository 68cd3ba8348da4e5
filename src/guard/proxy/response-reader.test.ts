import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ReadResponse, ReaderOptions } from './response-reader.js';
import { createResponseReader } from './response-reader.js';

const folder = resolve(import.meta.dirname, '../../../test/fixtures/engines');
const bytesOf = (name: string): Buffer => readFileSync(resolve(folder, name));
const typeOf = (name: string): string => (name.endsWith('.sse') ? 'text/event-stream' : 'application/json');

function read(
  type: string,
  bytes: Buffer,
  cuts: readonly number[] = [],
  options?: ReaderOptions,
): ReadResponse {
  const reader = createResponseReader(type, options);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  for (const [index, end] of places.slice(1).entries()) reader.push(bytes.subarray(places[index], end));
  return reader.finish();
}
const readFixture = (name: string): ReadResponse => read(typeOf(name), bytesOf(name));

const response = { promptTokens: 21, completionTokens: 16 };
const counted = { steps: 6, accepted: 9, proposed: 18 };
const passes = { ...counted, steps: 7 };

describe('createResponseReader', () => {
  it.each([
    ['vllm-detailed.json', { engine: 'vllm', speculation: counted }],
    ['vllm-silent.json', { engine: 'vllm', speculation: null }],
    ['sglang-native.json', { engine: 'sglang', id: 'a3f0c5d2e1b94c61', speculation: counted }],
    ['llama-cpp-native.json', { engine: 'llama-cpp', speculation: passes }],
    ['vllm-stream.sse', { engine: 'vllm', speculation: { ...counted, draftLength: 3 } }],
    ['sglang-stream.sse', { engine: 'sglang', speculation: counted }],
    ['sglang-native-stream.sse', { engine: 'sglang', speculation: counted }],
    ['tensorrt-llm-stream.sse', { engine: 'tensorrt-llm', speculation: { steps: 6, accepted: 10 } }],
    ['llama-cpp-stream.sse', { engine: 'llama-cpp', promptTokens: null, speculation: passes }],
    [
      'vllm-stream-token-ids.sse',
      { promptTokens: null, completionTokens: null, speculation: { steps: 6, accepted: 9 } },
    ],
    ['vllm-stream-continuous-usage.sse', { speculation: { evidence: 'estimated', steps: 6, accepted: 9 } }],
    ['vllm-stream-silent.sse', { speculation: { evidence: 'estimated', steps: 6, accepted: 9 } }],
    [
      'llama-cpp-recorded.sse',
      { promptTokens: null, completionTokens: 24, speculation: { steps: 13, accepted: 11, proposed: 43 } },
    ],
    ['llama-cpp-recorded-responses.json', { completionTokens: 16, speculation: null }],
    ['llama-cpp-recorded-messages.json', { promptTokens: 1, completionTokens: 16, speculation: null }],
    ['broken-stream.sse', { id: 'in-two-lines', promptTokens: 3, completionTokens: null, speculation: null }],
  ])('reads %s', (name, expected) => {
    expect(readFixture(name)).toMatchObject({ ...response, ...expected });
  });

  it('knows that a chunk of a known engine is a step, or a token', () => {
    const bytes = bytesOf('vllm-stream-silent.sse');
    const speculation = (engine: string): ReadResponse['speculation'] =>
      read('text/event-stream', bytes, [], { engine }).speculation;
    expect(speculation('vllm')).toMatchObject({ evidence: 'derived', steps: 6 });
    expect(speculation('llama-cpp')).toBeNull();
  });

  it.each([
    [
      'responses',
      { type: 'response.output_text.delta', delta: 'x' },
      { type: 'response.completed', response: { id: 'r', usage: { input_tokens: 9, output_tokens: 21 } } },
    ],
    [
      'messages',
      { type: 'content_block_delta', delta: { text: 'x' } },
      { type: 'message_delta', usage: { output_tokens: 21 } },
    ],
  ])('estimates streams of /v1/%s', (_, chunk, last) => {
    const events = [...new Array<object>(21).fill(chunk), last];
    const text = events.map((event) => `event: x\ndata: ${JSON.stringify(event)}\n\n`).join('');
    expect(read('text/event-stream', Buffer.from(text), [], { engine: 'vllm' })).toMatchObject({
      completionTokens: 21,
      speculation: { evidence: 'derived', steps: 20, accepted: 0 },
    });
  });

  it('reads nothing that is compressed, too long, or not JSON', () => {
    const body = bytesOf('vllm-summary.json');
    const json = 'application/json; charset=utf-8';
    const isRead = (type: string, bytes: Buffer, options?: ReaderOptions): boolean =>
      read(type, bytes, [5, 9], options).speculation !== null;
    expect(isRead(json, gzipSync(body), { contentEncoding: 'gzip' })).toBe(false);
    expect(isRead(json, body, { bodyBytes: 100 })).toBe(false);
    expect(isRead('text/html', body)).toBe(false);
    expect(isRead(json, body.subarray(0, 50))).toBe(false);
    expect(isRead(json, body)).toBe(true);
  });

  it('takes an engine with vLLM’s fields for what its header says', () => {
    const body = bytesOf('vllm-summary.json');
    expect(read('application/json', body, [], { engine: 'mistletoe' }).engine).toBe('mistletoe');
    expect(read('application/json', body, [], { engine: 'sglang' }).engine).toBe('vllm');
    expect(read('application/json', bytesOf('error.json'), [], { engine: 'tgi' }).engine).toBe('tgi');
  });

  it('never throws on damaged responses, nor depends on how they are cut', () => {
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
    const type = fc.constantFrom('text/event-stream', 'application/json', 'x', '');
    fc.assert(
      fc.property(type, fc.uint8Array(), fc.array(fc.nat()), (given, bytes, cuts) => {
        expect(read(given, Buffer.from(bytes), cuts)).toEqual(read(given, Buffer.from(bytes)));
      }),
      { seed: 13 },
    );
  });
});
