/**
 * Bodies of requests to the server, in front of an engine whose answers are written down. What is accepted is answered in
 * the interface's shape, whole or as a stream that ends; what is refused has a status of the client's and a sentence.
 */
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { MistletoeError } from '../../../src/core/errors.js';
import { createScriptedApp } from '../../support/serve/scripted-app.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

const common = {
  model: 'tiny',
  max_tokens: 8,
  temperature: 0.7,
  top_p: 0.9,
  top_k: 40,
  n: 2,
  seed: 7,
  stop: ['\n', 'END'],
  mistletoe: { drafter: 'ngram', draft: 'dynamic:8,2,2', metrics: 'detailed' },
  ...{ user: 'somebody', metadata: { team: 'x' }, store: false, frequency_penalty: 0, logit_bias: {} },
};
const streaming = { stream: true, stream_options: { include_usage: true } };
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'Why is the sky blue?' }] },
  { role: 'assistant', content: 'It scatters.', refusal: null },
  { role: 'user', content: 'Go on.' },
];

const valid: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', { messages, ...common, logprobs: true, top_logprobs: 3 }],
  ['/v1/chat/completions', { messages, ...common, ...streaming }],
  [
    '/v1/chat/completions',
    { messages, max_completion_tokens: 4, response_format: { type: 'text' }, tools: [] },
  ],
  ['/v1/completions', { prompt: 'Once upon a time', ...common, logprobs: 2 }],
  ['/v1/completions', { prompt: ['a', 'b'], ...common, ...streaming }],
  ['/v1/completions', { prompt: [[1, 2, 3], [4]], echo: false, suffix: null }],
];

function makeBody(body: object, random: Random): string | Buffer {
  if (random.nextInteger(20) === 0) return JSON.stringify(body);
  const text = mutateJson(body, random);
  return random.nextInteger(5) === 0 ? mutateBytes(Buffer.from(text), random) : text;
}

export const request: FuzzKind = {
  name: 'request',
  boundedRuns: 1000,
  open() {
    const served = createScriptedApp({
      script(_, tell) {
        tell(' fine', 2);
        tell(' 🙂');
      },
    });
    return async (seed) => {
      const random = createRandom(seed, 'request');
      const [path, body] = pick(random, valid);
      const response = await served.post(path, '', { body: makeBody(body, random) });
      const text = await response.text();
      ensure(served.host.sequences === 0, 'an answer goes on');
      served.logged.length = 0;
      served.records.length = 0;
      (served.asked as unknown[]).length = 0;
      if (response.status === 200) {
        checkAnswer(text);
        return;
      }
      ensure(
        response.status >= 400 && response.status < 500,
        `status ${response.status}: ${text.slice(0, 300)}`,
      );
      const { error } = JSON.parse(text) as { error: Record<string, unknown> };
      ensure(
        typeof error.message === 'string' && typeof error.code === 'string',
        `no error: ${text.slice(0, 300)}`,
      );
      throw new MistletoeError('usage', error.message, { hint: error.code });
    };
  },
};

function checkAnswer(text: string): void {
  const isStream = text.startsWith('data: ');
  const bodies = isStream ? text.trimEnd().split('\n\n') : [text];
  if (isStream) ensure(bodies.pop() === 'data: [DONE]', 'a stream without an end');
  for (const each of bodies) {
    const body = JSON.parse(isStream ? each.slice('data: '.length) : each) as {
      choices?: unknown;
      error?: unknown;
    };
    ensure(Array.isArray(body.choices) && body.error === undefined, each.slice(0, 300));
  }
}
