import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CausalModel } from '../model/causal-model.js';
import { loadModel } from '../model/causal-model.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import type { Tokenizer } from '../text/tokenizer/tokenizer.js';
import { loadTokenizer } from '../text/tokenizer/tokenizer.js';
import type { TokenEvent } from './answer.js';
import { decodePlain } from './generate.js';
import { type GenerationRequest } from './request.js';
import { prefill } from './prompt-reading.js';

const folder = resolve(import.meta.dirname, '../../models/reference/target');
const runtime = createOnnxRuntime();
let model: CausalModel;
let tokenizer: Tokenizer;
let promptIds: number[];

beforeAll(async () => {
  model = await loadModel(folder, { runtime });
  tokenizer = await loadTokenizer(folder);
  promptIds = await tokenizer.encode('USER: Why is the sky blue? ASSISTANT:');
});
afterAll(() => runtime.dispose());

const request = (changes: Partial<GenerationRequest> = {}): GenerationRequest => ({
  promptIds,
  maxNewTokens: 24,
  sampling: { temperature: 0 },
  seed: 1,
  stopIds: [2],
  tokenizer,
  ...changes,
});

describe('plain decoding', () => {
  it('streams exactly the text it returns', async () => {
    const events: TokenEvent[] = [];
    const result = await decodePlain(model, request({ onToken: (event) => events.push(event) }));
    expect(events.map(({ text }) => text).join('')).toBe(result.text);
    expect(events.map(({ id }) => id)).toEqual(result.tokenIds);
    expect(result.text.length).toBeGreaterThan(10);
    expect(result.finishReason).toBe('length');
    expect(result.tokenIds).toHaveLength(24);
  });

  it('gives the same tokens for the same seed and others for another', async () => {
    const sampling = { temperature: 1.2 };
    const [first, again, other] = await Promise.all(
      [3, 3, 4].map(async (seed) => (await decodePlain(model, request({ sampling, seed }))).tokenIds),
    );
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
  });

  it('takes top-k 1 for greedy whatever the temperature', async () => {
    const greedy = await decodePlain(model, request());
    const narrow = await decodePlain(model, request({ sampling: { temperature: 3, topK: 1 } }));
    expect(narrow.tokenIds).toEqual(greedy.tokenIds);
  });

  it('ends at a stop token, which it keeps, and at a stop string, which it does not', async () => {
    const { tokenIds, text } = await decodePlain(model, request());
    const stopId = tokenIds[5]!;
    const byToken = await decodePlain(model, request({ stopIds: [stopId] }));
    expect(byToken.finishReason).toBe('stop');
    expect(byToken.tokenIds).toEqual(tokenIds.slice(0, tokenIds.indexOf(stopId) + 1));
    const stop = text.slice(12, 16);
    const byString = await decodePlain(model, request({ stopStrings: [stop] }));
    expect(byString.finishReason).toBe('stop-string');
    expect(byString.text).toBe(text.slice(0, text.indexOf(stop)));
  });

  it('ends when the signal says so', async () => {
    const controller = new AbortController();
    const onToken = (): void => {
      controller.abort();
    };
    const result = await decodePlain(model, request({ signal: controller.signal, onToken }));
    expect(result.finishReason).toBe('aborted');
    expect(result.tokenIds.length).toBeLessThan(4);
  });

  it('reads no more of a prompt that nobody waits for', async () => {
    const controller = new AbortController();
    const tokens = Array.from({ length: 5 }, () => 1);
    const cache = model.createCache();
    const read = await prefill(model, cache, tokens, {
      ...{ chunk: 2, want: [], signal: controller.signal },
      onChunk: () => {
        if (cache.length === 4) controller.abort();
      },
    });
    expect(read).toBeUndefined();
    expect(cache.length).toBe(4);
  });

  it('ends where the context ends, and refuses a prompt that does not fit', async () => {
    const { contextLength } = model.configuration;
    const long = Array.from({ length: contextLength - 2 }, (_, index) => 300 + (index % 50));
    const result = await decodePlain(model, request({ promptIds: long, stopIds: [] }));
    expect(result.finishReason).toBe('context');
    expect(result.tokenIds).toHaveLength(3);
    const tooLong = [...long, ...long.slice(0, 10)];
    await expect(decodePlain(model, request({ promptIds: tooLong }))).rejects.toThrow(
      /needs 2056 positions.*2048/,
    );
  });

  it('refuses an empty prompt and ids outside the vocabulary', async () => {
    await expect(decodePlain(model, request({ promptIds: [] }))).rejects.toThrow(/no tokens/);
    await expect(decodePlain(model, request({ promptIds: [1, 4096] }))).rejects.toThrow(/4096/);
  });
});

describe('prefill', () => {
  it('gives the same next token however the prompt is cut', async () => {
    const long = Array.from({ length: 60 }, (_, index) => 300 + ((index * 37) % 900));
    const next = await Promise.all(
      [1, 7, 59, 60, 256].map(async (chunk) => {
        const { logits } = (await prefill(model, model.createCache(), long, { chunk, want: ['logits'] }))!;
        return Array.from(logits!.subarray(0, 50));
      }),
    );
    for (const logits of next)
      logits.forEach((logit, index) => {
        expect(logit).toBeCloseTo(next[0]![index]!, 3);
      });
  });
});
