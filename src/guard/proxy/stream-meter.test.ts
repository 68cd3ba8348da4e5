import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../engines/claim.js';
import { StreamMeter } from './response-reader.js';

function measure(chunks: readonly JsonObject[]): StreamMeter {
  const meter = new StreamMeter();
  for (const chunk of chunks) meter.add(chunk);
  return meter;
}
const times = (count: number, chunk: (index: number) => JsonObject): JsonObject[] =>
  Array.from({ length: count }, (_, index) => chunk(index));
const delta = (index: number, content: string): JsonObject => ({ choices: [{ index, delta: { content } }] });

describe('StreamMeter', () => {
  it('takes a chunk for a step, also where every chunk is one token', () => {
    const meter = measure([delta(0, ''), ...times(41, () => delta(0, 'x'))]);
    expect(meter.estimate('step', 41)).toMatchObject({ evidence: 'derived', steps: 40, accepted: 0 });
    expect(meter.estimate(undefined, 101)).toMatchObject({ evidence: 'estimated', steps: 40, accepted: 60 });
    expect(meter.estimate('token', 101)).toBeNull();
    expect(meter.estimate('step', null)).toBeNull();
  });

  it('counts the choices of n > 1 together', () => {
    const meter = measure(times(42, (index) => delta(index % 2, 'x')));
    expect(meter.estimate('step', 82)).toMatchObject({ steps: 40, accepted: 40 });
  });

  it('needs no usage where chunks list their tokens', () => {
    const chunk = { choices: [{ index: 0, delta: { content: 'x' }, token_ids: [1, 2, 3] }] };
    expect(measure(times(10, () => chunk)).estimate('step', null)).toMatchObject({ steps: 9, accepted: 20 });
  });

  it.each<[string, (index: number) => JsonObject]>([
    ['/v1/responses', () => ({ type: 'response.output_text.delta', delta: 'x' })],
    ['/v1/messages', () => ({ type: 'content_block_delta', delta: { type: 'text_delta', text: 'x' } })],
    ['/generate of SGLang', (index) => ({ text: 'x'.repeat(index + 1) })],
    ['/completion of llama.cpp', () => ({ content: 'x' })],
    ['/generate_stream of TGI', () => ({ token: { text: 'x' } })],
    ['tools', () => ({ choices: [{ index: 0, delta: { tool_calls: [{ function: { arguments: '{' } }] } }] })],
  ])('reads chunks of %s', (_, chunk) => {
    expect(measure(times(10, chunk)).chunks).toBe(10);
  });

  it('estimates nothing from a few chunks', () => {
    expect(measure(times(3, () => delta(0, 'x'))).estimate('step', 3)).toBeNull();
  });
});
