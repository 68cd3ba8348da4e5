import { expect, it } from 'vitest';
import { createScriptedApp } from '../../test/support/serve/scripted-app.js';

const neutral = {
  ...{ frequency_penalty: 0, presence_penalty: 0, repetition_penalty: 1, length_penalty: 1, min_p: 0 },
  ...{ top_k: -1, best_of: 1, use_beam_search: false, ignore_eos: false, min_tokens: 0, logit_bias: {} },
  ...{ skip_special_tokens: true, spaces_between_special_tokens: true, include_stop_str_in_output: false },
  ...{ stop_token_ids: [], bad_words: [], allowed_token_ids: null, prompt_logprobs: null, echo: false },
  ...{ truncate_prompt_tokens: null, priority: 0, return_token_ids: false, vllm_xargs: {}, stop: [] },
  ...{
    cache_salt: 'salt',
    session_id: 'one',
    thinking_token_budget: -1,
    response_format: { type: 'text' },
  },
  ...{ n: 1, user: 'u', seed: 7, stream: false, stream_options: null, max_tokens: 4 },
};

it.each([
  ['a chat', '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], logprobs: false }],
  ['a completion', '/v1/completions', { prompt: 'Hi', suffix: '', add_special_tokens: true }],
])('values that ask for nothing are accepted in %s', async (_, path, fields) => {
  const { post, asked } = createScriptedApp();
  expect((await post(path, { ...fields, seed: 7, max_tokens: 4 })).status).toBe(200);
  const response = await post(path, { ...fields, ...neutral });
  expect([response.status, await response.json()]).toMatchObject([200, { choices: [{}] }]);
  const [bare, given] = asked.map(({ options }) => JSON.stringify({ ...options, signal: undefined }));
  expect(given).toBe(bare);
});

it('what clients send back of an answer is accepted, and names of speakers are passed on', async () => {
  const { chat, asked } = createScriptedApp();
  const returned = { refusal: null, tool_calls: [], reasoning_content: null };
  const response = await chat({
    messages: [
      { role: 'user', content: 'a', name: 'Eve' },
      { role: 'assistant', content: null, ...returned },
      { role: 'assistant' },
      { role: 'user', content: 'b', name: null },
    ],
    ...{ add_generation_prompt: true, continue_final_message: false, chat_template_kwargs: {} },
  });
  expect(response.status).toBe(200);
  expect(asked[0]!.prompt).toEqual([
    { role: 'user', content: 'a', name: 'Eve' },
    { role: 'assistant', content: '' },
    { role: 'assistant', content: '' },
    { role: 'user', content: 'b' },
  ]);
});

it.each([
  ['repetition_penalty', 1.1],
  ['skip_special_tokens', false],
  ['ignore_eos', true],
  ['min_tokens', 1],
  ['stop_token_ids', [2]],
  ['add_generation_prompt', false],
  ['truncate_prompt_tokens', -1],
  ['use_beam_search', true],
])('%s %j asks for something, and is refused by its name', async (param, value) => {
  const { chat, asked } = createScriptedApp();
  const response = await chat({ [param]: value });
  expect([response.status, await response.json()]).toMatchObject([400, { error: { param } }]);
  expect(asked).toEqual([]);
});
