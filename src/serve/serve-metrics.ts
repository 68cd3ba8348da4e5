/** Prometheus metrics under vLLM's names, for dashboards made for vLLM, and accepted lengths. */
import type { AnswerProgress } from '../decode/worker/engine-messages.js';
import type { EngineLoad } from '../decode/engine.js';
import { Histogram, line, textContentType } from '../guard/metrics/guard-metrics.js';
import { type FinishedReason, finishedReasons } from './answer-format.js';
import type { DrafterCounts } from './speculation-report.js';
import { Judge } from '../guard/judge/judge.js';
import type { Alert } from '../guard/judge/verdict.js';
import { PageMemory } from '../guard/metrics/page-state.js';
import type { Observation } from '../guard/observation.js';

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
  readonly drafts: readonly Readonly<Record<string, DrafterCounts>>[];
}

export type ServeMetrics = ReturnType<typeof createServeMetrics>;

type Counter = readonly [name: string, help: string, label?: string, values?: readonly string[]];

/** A counter without a label starts at 0, as do the listed values of a label. */
const counters = {
  drafts: ['vllm:spec_decode_num_drafts_total', 'Drafts that were verified.'],
  draftTokens: ['vllm:spec_decode_num_draft_tokens_total', 'Draft tokens that were verified.'],
  accepted: ['vllm:spec_decode_num_accepted_tokens_total', 'Draft tokens that were accepted.'],
  acceptedAt: ['vllm:spec_decode_num_accepted_tokens_per_pos_total', 'Accepted draft tokens by position in the draft.', 'position'], // prettier-ignore
  promptTokens: ['vllm:prompt_tokens_total', 'Prompt tokens.'],
  newTokens: ['vllm:generation_tokens_total', 'Generated tokens.'],
  successes: ['vllm:request_success_total', 'Finished answers by reason; several answers to one request count separately, as in vLLM.', 'finished_reason', finishedReasons], // prettier-ignore
  refusals: ['mistletoe_requests_refused_total', 'Refused requests.', 'status'],
  drafterSteps: ['mistletoe_drafter_steps_total', 'Drafts that were verified, by drafter.', 'drafter'],
  drafterAccepted: ['mistletoe_drafter_accepted_tokens_total', 'Accepted draft tokens by drafter.', 'drafter'], // prettier-ignore
} satisfies Record<string, Counter>;

const seconds = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 40.96, 163.84]; // prettier-ignore
const lengths = [1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16];

const histograms = {
  firstToken: ['vllm:time_to_first_token_seconds', 'From a request to its first token.', seconds],
  betweenTokens: ['vllm:inter_token_latency_seconds', 'Between two passes of an answer.', seconds],
  perToken: ['vllm:request_time_per_output_token_seconds', 'Time per token after the first, by request.', seconds], // prettier-ignore
  whole: ['vllm:e2e_request_latency_seconds', 'From a request to the end of its answer.', seconds],
  acceptedLength: ['mistletoe_request_accepted_length', 'Mean accepted length of a request with its own drafter, bonus token included.', lengths], // prettier-ignore
} satisfies Record<string, readonly [name: string, help: string, bounds: readonly number[]]>;

export function createServeMetrics(modelName: string) {
  const labels = ['model_name', modelName, 'engine', '0'];
  const counts = mapTable(counters, ([, , label, values]: Counter) => {
    return new Map((values ?? (label === undefined ? [''] : [])).map((value) => [value, 0]));
  });
  const observed = mapTable(histograms, ([, , bounds]) => new Histogram(bounds));
  const add = (name: keyof typeof counters, amount = 1, value = ''): void => {
    counts[name].set(value, (counts[name].get(value) ?? 0) + amount);
  };
  const family = (name: string, type: string, help: string, lines: readonly string[]): string =>
    [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n');

  return {
    contentType: textContentType,
    /** The result of one pass, and the time since the previous pass of the same answer. */
    progress({ tokens, steps }: AnswerProgress, gapMs: number | undefined) {
      add('newTokens', tokens.length);
      if (gapMs !== undefined) observed.betweenTokens.observe(gapMs / 1000);
      for (const { proposed, accepted } of steps) {
        if (proposed === 0) continue;
        add('drafts');
        add('draftTokens', proposed);
        add('accepted', accepted);
        for (let position = 0; position < accepted; position++) add('acceptedAt', 1, String(position));
      }
    },
    ended({ completionTokens, firstTokenMs, totalMs, acceptedLength, ...request }: EndedRequest) {
      for (const [drafter, own] of request.drafts.flatMap((answer) => Object.entries(answer))) {
        add('drafterSteps', own.num_spec_steps, drafter);
        add('drafterAccepted', own.num_accepted_draft_tokens, drafter);
      }
      add('promptTokens', request.promptTokens);
      for (const reason of request.finishedReasons) add('successes', 1, reason);
      observed.whole.observe(totalMs / 1000);
      if (acceptedLength !== undefined) observed.acceptedLength.observe(acceptedLength);
      if (firstTokenMs === undefined) return;
      observed.firstToken.observe(firstTokenMs / 1000);
      if (completionTokens > 1)
        observed.perToken.observe((totalMs - firstTokenMs) / 1000 / (completionTokens - 1));
    },
    refused(status: number) {
      add('refusals', 1, String(status));
    },
    text({ running, waiting }: EngineLoad) {
      const gauge = (name: string, help: string, value: number): string =>
        family(name, 'gauge', help, [line(name, labels, value)]);
      const families = [
        ...namesOf(counters).map((key) => {
          const [name, help, label]: Counter = counters[key];
          const lines = [...counts[key]].map(([value, count]) =>
            line(name, [...(label === undefined ? [] : [label, value]), ...labels], count),
          );
          return family(name, 'counter', help, lines);
        }),
        gauge('vllm:num_requests_running', 'Answers that are being decoded.', running),
        gauge('vllm:num_requests_waiting', 'Answers that wait for room.', waiting),
        ...namesOf(histograms).map((key) => {
          const [name, help] = histograms[key];
          return family(name, 'histogram', help, observed[key].lines(name, labels));
        }),
      ];
      return families.join('\n');
    },
  };
}

const namesOf = <Table extends object>(table: Table): (keyof Table)[] =>
  Object.keys(table) as (keyof Table)[];

function mapTable<Name extends string, Entry, Made>(
  table: Readonly<Record<Name, Entry>>,
  make: (entry: Entry) => Made,
): Record<Name, Made> {
  const entries = namesOf(table).map((name) => [name, make(table[name])]);
  return Object.fromEntries(entries) as Record<Name, Made>;
}

// Judges the server's own requests as the guard judges those of other engines, and shows them on the page. Alerts are only
// reported.
export function watchRecords(version: string, onAlert: (alert: Alert) => void) {
  const judge = new Judge();
  const memory = new PageMemory(judge, { kind: 'serve', version, upstream: null });
  return {
    onRecord(record: Observation) {
      const { alerts, verdict } = judge.judge(record);
      memory.addRequest(record, verdict);
      for (const alert of alerts) onAlert(alert);
    },
    /** The page's data about requests that ended after a time. */
    pageState(sinceMs: number, running: number) {
      memory.running = running;
      return memory.state(sinceMs);
    },
  };
}
