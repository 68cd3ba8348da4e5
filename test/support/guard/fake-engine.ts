/** vLLM as the guard sees it: chat completions, whole and streamed, with draft telemetry. */
import type { Listening } from './fake-upstream.js';
import { readAll, startHttp } from './fake-upstream.js';

export interface FakeEngine extends Listening {
  /** Bodies that came, newest last. */
  readonly bodies: string[];
  readonly headers: NodeJS.Dict<string | string[]>[];
  /** Accepted draft tokens of each step of the next answers. */
  accepted: readonly number[];
  /** Streams wait before their end until released. */
  hold(): void;
  release(): void;
}

const draftLength = 3;

export async function startFakeEngine(): Promise<FakeEngine> {
  const bodies: string[] = [];
  const headers: FakeEngine['headers'] = [];
  let held: (() => void)[] | undefined;
  const state = {
    accepted: [3, 2, 3] as readonly number[],
    hold: () => {
      held = [];
    },
    release: () => {
      for (const finish of held ?? []) finish();
      held = undefined;
    },
  };
  const listening = await startHttp((request, response) => {
    void readAll(request).then((bytes) => {
      if (request.method === 'GET') {
        response.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[]}');
        return;
      }
      bodies.push(bytes.toString());
      headers.push(request.headers);
      const body = JSON.parse(bytes.toString()) as {
        readonly model: string;
        readonly stream?: boolean;
        readonly prompt_logprobs?: number;
      };
      const { accepted } = state;
      const total = accepted.reduce((sum, count) => sum + count, 0);
      const tokens = total + accepted.length;
      const common = { id: 'chatcmpl-1', model: body.model, created: 1 };
      const closing = {
        usage: { prompt_tokens: 12, completion_tokens: tokens, total_tokens: 12 + tokens },
        metrics: {
          speculative_decoding: {
            mean_acceptance_length: 1 + total / accepted.length,
            draft_acceptance_rate: total / (accepted.length * draftLength),
            acceptance_histogram: Array.from(
              { length: draftLength + 1 },
              (_, depth) => accepted.filter((count) => count === depth).length,
            ),
            num_spec_steps: accepted.length,
            num_accepted_draft_tokens: total,
            num_draft_tokens: accepted.length * draftLength,
            num_spec_tokens: draftLength,
            per_step_accepted: accepted,
            per_step_drafted: accepted.map(() => draftLength),
          },
        },
      };
      if (body.stream !== true) {
        response.writeHead(200, { 'content-type': 'application/json' });
        const message = { role: 'assistant', content: 'SECRET ANSWER' };
        const choices = [{ index: 0, message, finish_reason: 'stop' }];
        const token = { logprob: -2.5, rank: 7, decoded_token: 'SECRET' };
        const told =
          body.prompt_logprobs === undefined
            ? {}
            : { prompt_logprobs: [null, ...Array.from({ length: 11 }, () => ({ 5: token }))] };
        response.end(JSON.stringify({ ...common, object: 'chat.completion', choices, ...closing, ...told }));
        return;
      }
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
      const send = (chunk: object): void => {
        response.write(
          `data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', ...chunk })}\n\n`,
        );
      };
      for (const count of accepted) {
        send({ choices: [{ index: 0, delta: { content: 'word '.repeat(count + 1) }, finish_reason: null }] });
      }
      send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
      const finish = (): void => {
        send({ choices: [], ...closing });
        response.end('data: [DONE]\n\n');
      };
      if (held === undefined) finish();
      else held.push(finish);
    });
  });
  return Object.assign(state, { ...listening, bodies, headers });
}
