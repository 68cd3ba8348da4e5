import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { engineNames } from './request-record.js';
import { askForTelemetry } from './telemetry-request.js';

function ask(engine: (typeof engineNames)[number], body: string): string | undefined {
  const asked = askForTelemetry(engine, Buffer.from(body));
  return asked === undefined ? undefined : Buffer.from(asked).toString();
}

describe('askForTelemetry', () => {
  it.each([
    [
      'vllm',
      '{"prompt":"x","stream":true,"seed":9007199254740993,"temperature":1.0}',
      '{"stream_options":{"include_usage":true},"prompt":"x","stream":true,"seed":9007199254740993,"temperature":1.0}',
    ],
    [
      'vllm',
      '{"prompt":"x","stream":true,"stream_options": {} }',
      '{"prompt":"x","stream":true,"stream_options": {"include_usage":true} }',
    ],
    [
      'vllm',
      '{"prompt":"\\"stream_options\\":{","a":{"stream_options":{}},"stream":true,"stream_\\u006fptions":\n{"x":1}}',
      '{"prompt":"\\"stream_options\\":{","a":{"stream_options":{}},"stream":true,"stream_\\u006fptions":\n{"include_usage":true,"x":1}}',
    ],
    ['sglang', ' {"messages":[]}', ' {"return_spec_tokens_details":true,"messages":[]}'],
    [
      'sglang',
      '{"messages":[],"stream":true}',
      '{"return_spec_tokens_details":true,"stream_options":{"include_usage":true},"messages":[],"stream":true}',
    ],
    ['llama-cpp', '{"messages":[],"stream":true}', '{"timings_per_token":true,"messages":[],"stream":true}'],
  ] as const)('adds what %s needs to %s', (engine, body, asked) => {
    expect(ask(engine, body)).toBe(asked);
  });

  it.each([
    ['vllm', '{"prompt":"x"}'],
    ['vllm', '{"prompt":"x","stream":true,"stream_options":{"include_usage":false}}'],
    ['vllm', '{"prompt":"x","stream":true,"stream_options":null}'],
    ['sglang', '{"text":"x","stream":true}'],
    ['sglang', '{"messages":[],"return_spec_tokens_details":false}'],
    ['llama-cpp', '{"messages":[]}'],
    ['unknown', '{"messages":[],"stream":true}'],
    ['vllm', '{"prompt":"x","stream":true'],
    ['vllm', '[{"prompt":"x","stream":true}]'],
    ['vllm', '{"prompt":"\ufffd","stream":true}'],
  ] as const)('leaves to %s what the client has said: %s', (engine, body) => {
    expect(ask(engine, body)).toBeUndefined();
  });

  it('changes nothing but the fields it adds', () => {
    const request = fc.record({
      stream: fc.boolean(),
      prompt: fc.string(),
      stream_options: fc.option(fc.dictionary(fc.string(), fc.jsonValue()), { nil: undefined }),
      more: fc.jsonValue(),
    });
    fc.assert(
      fc.property(fc.constantFrom(...engineNames), request, fc.boolean(), (engine, value, isSpaced) => {
        const body = JSON.stringify(value, undefined, isSpaced ? 2 : 0);
        const asked = ask(engine, body);
        if (asked === undefined) return;
        const {
          stream_options: options,
          return_spec_tokens_details: details,
          timings_per_token: timings,
          ...rest
        } = JSON.parse(asked) as Record<string, unknown>;
        const { stream_options: given, ...others } = JSON.parse(body) as Record<string, unknown>;
        expect(rest).toEqual(others);
        const { include_usage: usage, ...left } = (options ?? {}) as Record<string, unknown>;
        const { include_usage: givenUsage, ...givenLeft } = (given ?? {}) as Record<string, unknown>;
        expect(left).toEqual(givenLeft);
        expect([true, givenUsage]).toContain(usage);
        expect([true, undefined]).toContain(details);
        expect([true, undefined]).toContain(timings);
      }),
      { seed: 13 },
    );
  });

  it('never throws on bytes of any kind', () => {
    fc.assert(
      fc.property(fc.constantFrom(...engineNames), fc.uint8Array(), (engine, body) => {
        expect(askForTelemetry(engine, body)).toBeUndefined();
      }),
      { seed: 13 },
    );
  });
});
