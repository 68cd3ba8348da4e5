/** What a server with the bundled models must answer to many requests, for the tests of both tiers. */
import { expect } from 'vitest';
import type { StartedServer } from '../support/openai-server.js';

export const model = 'mistletoe-reference';
export const greedy = { model, temperature: 0, max_completion_tokens: 24 };
export const ask = (content: string) => [{ role: 'user' as const, content }];
export const sky = 'Why is the sky blue?';
/** Long enough that several answers to it share its prefill. */
export const long = `Read this list of animals and name the largest of them: ${'cat, dog, elephant, mouse, '.repeat(6)}`;

/** Requests with drafters, two answers to each, get the answers of plain decoding. */
export async function expectPlainAnswers(
  { client }: StartedServer,
  contents: readonly string[],
  drafters: readonly string[],
): Promise<void> {
  const create = (content: string, mistletoe: object, n = 1) =>
    client.chat.completions.create({
      ...{ ...greedy, max_completion_tokens: 40, messages: ask(content), n, mistletoe },
    });
  const drafted = contents.flatMap((content) => drafters.map((drafter) => create(content, { drafter }, 2)));
  const plain = await Promise.all(contents.map((content) => create(content, { drafter: 'none' })));
  for (const [index, { choices }] of (await Promise.all(drafted)).entries()) {
    const expected = plain[Math.floor(index / drafters.length)]!.choices[0]!.message.content;
    expect(choices.map(({ message }) => message.content)).toEqual([expected, expected]);
  }
}

/** `count` streams at once are token for token what each is alone. */
export async function expectSameStreams({ client, server }: StartedServer, count: number): Promise<void> {
  const prompts = Array.from(
    { length: count },
    (_, index) => `Question ${index}: what is ${index} + ${index % 7}?`,
  );
  const fieldsOf = (index: number) => ({
    model,
    messages: ask(prompts[index]!),
    max_completion_tokens: 6 + (index % 5),
    logprobs: true,
    temperature: index % 3 === 0 ? 0.9 : 0,
    seed: index,
    mistletoe: { drafter: ['eagle3', 'sps', 'ngram', 'none'][index % 4] },
  });
  const streamed = await Promise.all(
    prompts.map(async (_, index) => {
      const stream = await client.chat.completions.create({
        ...fieldsOf(index),
        stream: true as const,
      });
      const tokens: string[] = [];
      let text = '';
      for await (const { choices } of stream) {
        text += choices[0]?.delta.content ?? '';
        tokens.push(...(choices[0]?.logprobs?.content ?? []).map(({ token }) => token));
      }
      return { text, tokens };
    }),
  );
  for (const [index, { text, tokens }] of streamed.entries()) {
    const alone = await client.chat.completions.create(fieldsOf(index));
    const [choice] = alone.choices;
    expect(tokens).toEqual(choice!.logprobs!.content!.map(({ token }) => token));
    expect(text).toBe(choice!.message.content);
  }
  expect(await server.load()).toMatchObject({ running: 0, waiting: 0 });
}
