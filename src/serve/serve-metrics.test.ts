import { expect, it } from 'vitest';
import { parsePrometheusText } from '../guard/engines/counters.js';
import { createScriptedApp } from '../../test/support/serve/scripted-app.js';
import { createScriptedWorker } from '../../test/support/serve/scripted-worker.js';

it('metrics are what happened, under vLLM’s names', async () => {
  const { chat, app } = createScriptedApp({
    script(_, tell) {
      tell(' a', 4);
      tell(' b', 2);
      tell(' c', 0);
    },
  });
  await chat({ n: 2 });
  await chat({ stream: true }).then((response) => response.text());
  await chat({ mistletoe: { drafter: 'none' }, top_p: 7 });
  const response = await app.request('/metrics');
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
  const text = await response.text();
  const samples = parsePrometheusText(text);
  expect(samples).toHaveLength(text.match(/^[^#\n]/gm)!.length);
  const values = (name: string): Record<string, number> =>
    Object.fromEntries(
      samples
        .filter((sample) => sample.name === name)
        .map(({ labels, value }) => {
          expect([labels.get('model_name'), labels.get('engine')]).toEqual(['tiny', '0']);
          const own = [...labels].filter(([label]) => label !== 'model_name' && label !== 'engine');
          return [own.map(([, text]) => text).join(), value];
        }),
    );
  expect(values('vllm:spec_decode_num_drafts_total')).toEqual({ '': 9 });
  expect(values('vllm:spec_decode_num_draft_tokens_total')).toEqual({ '': 36 });
  expect(values('vllm:spec_decode_num_accepted_tokens_total')).toEqual({ '': 18 });
  expect(values('vllm:spec_decode_num_accepted_tokens_per_pos_total')).toEqual({ 0: 6, 1: 6, 2: 3, 3: 3 });
  expect(values('vllm:prompt_tokens_total')).toEqual({ '': 6 });
  expect(values('vllm:generation_tokens_total')).toEqual({ '': 9 });
  expect(values('vllm:request_success_total')).toEqual({ stop: 3, length: 0, abort: 0 });
  expect(values('vllm:num_requests_running')).toEqual({ '': 0 });
  expect(values('vllm:num_requests_waiting')).toEqual({ '': 0 });
  expect(values('vllm:time_to_first_token_seconds_count')).toEqual({ '': 2 });
  expect(values('vllm:inter_token_latency_seconds_count')).toEqual({ '': 6 });
  expect(values('mistletoe_requests_refused_total')).toEqual({ 400: 1 });
  expect(values('mistletoe_request_accepted_length_sum')).toEqual({ '': 6 });
  expect(text).toContain('# TYPE vllm:spec_decode_num_drafts_total counter\n');
});

it('reasons of an end are vLLM’s', async () => {
  const reasons = ['stop', 'stop-string', 'length', 'context', 'aborted'] as const;
  const scripted = createScriptedWorker();
  const { app, chat } = createScriptedApp({
    host: {
      worker: {
        ...scripted.worker,
        generateSeveral: async (...given) => {
          const answers = await scripted.worker.generateSeveral(...given);
          return answers.map((answer, index) => ({ ...answer, finishReason: reasons[index]! }));
        },
      },
    },
  });
  await chat({ n: reasons.length });
  const text = await (await app.request('/metrics')).text();
  const found = text.matchAll(/request_success_total\{finished_reason="(.*?)".*\} (\d+)/g);
  const counts = [...found].map(([, reason, count]) => [reason, Number(count)]);
  expect(Object.fromEntries(counts)).toEqual({ stop: 2, length: 2, abort: 1 });
});
