import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../engines/claim.js';
import { adapterOf } from '../engines/engine-list.js';
import type { Strip } from './telemetry-request.js';
import { askForTelemetry, createResponseStrip } from './telemetry-request.js';

const ask = (engine: string, body: string): ReturnType<typeof askForTelemetry> =>
  askForTelemetry(adapterOf(engine), body, JSON.parse(body) as JsonObject);

describe('askForTelemetry', () => {
  const usage = '"stream_options":{"include_usage":true}';
  it.each([
    [
      'vllm',
      '{"prompt":"x","stream":true,"seed":9007199254740993,"temperature":1.0}',
      `{${usage},"prompt":"x","stream":true,"seed":9007199254740993,"temperature":1.0}`,
    ],
    [
      'vllm',
      '{"prompt":"x","stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true}}',
      `{"prompt":"x","stream":true,${usage}}`,
    ],
    ['vllm', '{"prompt":"x","stream":true,"stream_options":null}', `{"prompt":"x","stream":true,${usage}}`],
    ['unknown', '{"messages":[],"stream":true}', `{${usage},"messages":[],"stream":true}`],
    ['sglang', ' {"messages":[]}', ' {"return_spec_tokens_details":true,"messages":[]}'],
    [
      'sglang',
      '{"messages":[],"return_spec_tokens_details":false}',
      '{"messages":[],"return_spec_tokens_details":true}',
    ],
  ])('sets what %s needs in %s', (engine, body, asked) => {
    expect(ask(engine, body).text).toBe(asked);
    expect(ask(engine, body).strip).toBeDefined();
  });

  it.each([
    ['vllm', '{"prompt":"x"}'],
    ['vllm', '{"prompt":"x","stream":true,"stream_options":{"include_usage":true}}'],
    ['sglang', '{"text":"x","stream":true}'],
    ['sglang', '{"messages":[],"return_spec_tokens_details":true}'],
    ['llama-cpp', '{"messages":[],"stream":true}'],
  ])('changes nothing for %s in %s', (engine, body) => {
    expect(ask(engine, body)).toEqual({ text: body, strip: undefined });
  });
});

describe('createResponseStrip', () => {
  const run = (strip: Strip, type: string, text: string, pieceBytes: number): string => {
    const stripping = createResponseStrip(strip, type)!;
    const bytes = Buffer.from(text);
    const passed: Buffer[] = [];
    for (let from = 0; from < bytes.length; from += pieceBytes)
      passed.push(stripping.push(bytes.subarray(from, from + pieceBytes)));
    return Buffer.concat([...passed, stripping.finish()]).toString();
  };
  const usageStrip: Strip = { dropsUsage: true, dropsNullUsage: false, fields: [] };
  const chunk = 'data: {"choices":[{"index":0,"delta":{"content":"Grüße \\"usage\\""}}],"usage":null}\n\n';

  it.each([1, 7, 1000])('drops the usage chunk alone, in pieces of %d bytes', (size) => {
    const stream = `: ping\n\n${chunk}data: {"choices":[],"usage":{"completion_tokens":3}}\n\ndata: [DONE]\n\n`;
    expect(run(usageStrip, 'text/event-stream', stream, size)).toBe(`: ping\n\n${chunk}data: [DONE]\n\n`);
    const windows = stream.replaceAll('\n', '\r\n');
    expect(run(usageStrip, 'text/event-stream', windows, size)).toBe(
      `: ping\n\n${chunk}data: [DONE]\n\n`.replaceAll('\n', '\r\n'),
    );
    const returns = stream.replaceAll('\n', '\r');
    expect(run(usageStrip, 'text/event-stream', returns, size)).toBe(
      `: ping\n\n${chunk}data: [DONE]\n\n`.replaceAll('\n', '\r'),
    );
  });

  it('drops the null usage of engines that add it', () => {
    expect(run({ ...usageStrip, dropsNullUsage: true }, 'text/event-stream', chunk, 50)).toBe(
      chunk.replace(',"usage":null', ''),
    );
  });

  it('takes added fields out of streams and bodies', () => {
    const strip: Strip = {
      dropsUsage: false,
      dropsNullUsage: false,
      fields: [['sglext', 'spec_tokens_details']],
    };
    const details = '"sglext":{"spec_tokens_details":{"spec_verify_ct":4}}';
    const event = 'data: {"choices":[{"index":0}]}\n\n';
    expect(run(strip, 'text/event-stream', `${event}data: {"choices":[],${details}}\n\n`, 9)).toBe(event);
    const body = `{"id":"ä","choices":[{"index":0}],${details},"seed":12345678901234567890}`;
    expect(run(strip, 'application/json', body, 9)).toBe(
      '{"id":"ä","choices":[{"index":0}],"seed":12345678901234567890}',
    );
  });

  it('leaves other responses alone', () => {
    expect(createResponseStrip(usageStrip, 'application/json')).toBeUndefined();
    expect(run(usageStrip, 'text/event-stream', 'data: {"usage":\n\nhalf', 4)).toBe(
      'data: {"usage":\n\nhalf',
    );
  });
});
