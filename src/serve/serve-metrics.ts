/** Prometheus metrics under vLLM's names, for dashboards made for vLLM, and accepted lengths. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { AnswerProgress } from '../decode/engine/engine-messages.js';
import type { EngineLoad } from '../decode/engine/engine.js';
import type { DrafterSwitch } from '../decode/policies/policy-chooser.js';
import { switchReasons } from '../decode/policies/policy-chooser.js';
import type { FinishedReason } from './answer-format.js';
import { finishedReasons } from './answer-format.js';
import type { DrafterCounts } from './speculation-report.js';

/** A finished request. */
export interface EndedRequest {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** [answer] */
  readonly finishedReasons: readonly FinishedReason[];
  readonly totalMs: number;
  /** Since its arrival; undefined if it produced no token. */
  readonly firstTokenMs: number | undefined;
  /** With its own drafter; undefined if that drafted nothing. */
  readonly acceptedLength: number | undefined;
  /** [answer] By drafter. */
  readonly drafts?: readonly Readonly<Record<string, DrafterCounts>>[];
  readonly switches?: readonly DrafterSwitch[];
}

export interface ServeMetrics {
  /** The result of one pass, and the time since the previous pass of the same answer. */
  progress(progress: AnswerProgress, gapMs: number | undefined): void;
  ended(request: EndedRequest): void;
  refused(status: number): void;
  text(load: EngineLoad): Promise<string>;
  readonly contentType: string;
}

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 40.96, 163.84]; // prettier-ignore
const lengths = [1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16];

export function createServeMetrics(modelName: string): ServeMetrics {
  const registry = new Registry();
  registry.setDefaultLabels({ model_name: modelName, engine: '0' });
  const registers = [registry];
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const histogram = (name: string, help: string, buckets: readonly number[] = seconds) =>
    new Histogram({ name, help, buckets: [...buckets], registers });
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers });

  const drafts = counter('vllm:spec_decode_num_drafts_total', 'Drafts that were verified.');
  const draftTokens = counter('vllm:spec_decode_num_draft_tokens_total', 'Draft tokens that were verified.');
  const acceptedTokens = counter(
    'vllm:spec_decode_num_accepted_tokens_total',
    'Draft tokens that were accepted.',
  );
  const acceptedAt = counter(
    'vllm:spec_decode_num_accepted_tokens_per_pos_total',
    'Draft tokens that were accepted, by their place in the draft.',
    ['position'],
  );
  const promptTokens = counter('vllm:prompt_tokens_total', 'Tokens of prompts that were read.');
  const newTokens = counter('vllm:generation_tokens_total', 'Tokens of answers.');
  const successes = counter(
    'vllm:request_success_total',
    'Answers that ended, by reason; several answers to one request count separately, as in vLLM.',
    ['finished_reason'],
  );
  for (const reason of finishedReasons) successes.inc({ finished_reason: reason }, 0);
  const refusals = counter('mistletoe_requests_refused_total', 'Requests that were refused.', ['status']);
  const running = gauge('vllm:num_requests_running', 'Answers that are being decoded.');
  const waiting = gauge('vllm:num_requests_waiting', 'Answers that wait for room.');
  const firstToken = histogram('vllm:time_to_first_token_seconds', 'From a request to its first token.');
  const betweenTokens = histogram('vllm:inter_token_latency_seconds', 'Between two passes of an answer.');
  const perToken = histogram(
    'vllm:request_time_per_output_token_seconds',
    'Time for each token behind the first, by request.',
  );
  const whole = histogram('vllm:e2e_request_latency_seconds', 'From a request to the end of its answer.');
  const accepted = histogram(
    'mistletoe_request_accepted_length',
    'Mean accepted length of a request with its own drafter, the bonus token included.',
    lengths,
  );
  const drafterSteps = counter('mistletoe_drafter_steps_total', 'Drafts that were verified, by drafter.', [
    'drafter',
  ]);
  const drafterAccepted = counter(
    'mistletoe_drafter_accepted_tokens_total',
    'Draft tokens that were accepted, by drafter.',
    ['drafter'],
  );
  const switched = counter(
    'mistletoe_drafter_switches_total',
    'Guarded requests that left a drafter or came back to one, by reason.',
    ['reason'],
  );
  for (const reason of switchReasons) switched.inc({ reason }, 0);

  return {
    contentType: registry.contentType,
    progress({ tokens, steps }, gapMs) {
      newTokens.inc(tokens.length);
      if (gapMs !== undefined) betweenTokens.observe(gapMs / 1000);
      for (const step of steps) {
        if (step.proposed === 0) continue;
        drafts.inc();
        draftTokens.inc(step.proposed);
        acceptedTokens.inc(step.accepted);
        for (let position = 0; position < step.accepted; position++) acceptedAt.inc({ position });
      }
    },
    ended(request) {
      const { completionTokens, firstTokenMs, totalMs, acceptedLength } = request;
      for (const { reason } of request.switches ?? []) switched.inc({ reason });
      for (const [drafter, counts] of (request.drafts ?? []).flatMap((answer) => Object.entries(answer))) {
        drafterSteps.inc({ drafter }, counts.num_spec_steps);
        drafterAccepted.inc({ drafter }, counts.num_accepted_draft_tokens);
      }
      promptTokens.inc(request.promptTokens);
      for (const reason of request.finishedReasons) successes.inc({ finished_reason: reason });
      whole.observe(totalMs / 1000);
      if (acceptedLength !== undefined) accepted.observe(acceptedLength);
      if (firstTokenMs === undefined) return;
      firstToken.observe(firstTokenMs / 1000);
      if (completionTokens > 1) perToken.observe((totalMs - firstTokenMs) / 1000 / (completionTokens - 1));
    },
    refused(status) {
      refusals.inc({ status });
    },
    text(load) {
      running.set(load.running);
      waiting.set(load.waiting);
      return registry.metrics();
    },
  };
}
