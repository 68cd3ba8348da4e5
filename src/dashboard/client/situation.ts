/** What the page has to say about itself: whether it hears the server, and whether the server hears the engine. */
import type { Memory } from './memory.js';
import { clockText } from './words.js';

export type Connection =
  | { readonly kind: 'opening' }
  | { readonly kind: 'live' }
  | { readonly kind: 'paused' }
  | { readonly kind: 'locked'; readonly wasRefused: boolean }
  | { readonly kind: 'lost'; readonly reason: string };

export interface Notice {
  readonly tone: 'plain' | 'warning' | 'trouble';
  readonly title: string;
  readonly text: string;
  /** To copy into a terminal or a configuration. */
  readonly command: string | null;
}

export function describeConnection(connection: Connection): string {
  switch (connection.kind) {
    case 'opening':
      return 'connecting';
    case 'live':
      return 'live';
    case 'paused':
      return 'paused';
    case 'locked':
      return 'key needed';
    case 'lost':
      return 'disconnected';
  }
}

/** The one notice that matters most. */
export function findNotice(memory: Memory | null, connection: Connection, origin: string): Notice | null {
  if (connection.kind === 'lost') return describeLoss(memory, connection.reason);
  if (memory === null || connection.kind === 'locked') return null;
  const { counts, kind } = memory.state;
  if (counts.requests === 0 && memory.requests.length === 0) {
    return {
      tone: 'plain',
      title: 'No request yet',
      text:
        kind === 'guard'
          ? 'The guard is up and waits. Give your client this base URL in place of the engine’s:'
          : 'The server is up and waits. Give your client this base URL:',
      command: `${origin}/v1`,
    };
  }
  const silent = memory.requests.filter(({ speculation }) => speculation === null);
  const answered = memory.requests.filter(({ ending }) => ending !== 'refused');
  const isSilent = answered.length > 0 && answered.every(({ speculation }) => speculation === null);
  if (!isSilent) return null;
  const advice = silenceAdvice[silent[0]?.engine ?? 'unknown'] ?? silenceAdvice.unknown;
  return {
    tone: 'warning',
    title: 'The engine says nothing about its drafts',
    text: `No answer carried acceptance telemetry, so nothing can be watched. ${advice.text}`,
    command: advice.command?.replace('URL', memory.state.upstream ?? 'URL') ?? null,
  };
}

function describeLoss(memory: Memory | null, reason: string): Notice {
  const since =
    memory === null
      ? 'Nothing has been heard from the server yet.'
      : `Last heard at ${clockText(memory.state.nowMs)}; what stands below is what was known then.`;
  return {
    tone: 'trouble',
    title: 'Disconnected',
    text: `${reason} ${since} The page goes on trying by itself.`,
    command: null,
  };
}

interface Advice {
  readonly text: string;
  readonly command: string | null;
}

const silenceAdvice: Readonly<Record<string, Advice>> & { readonly unknown: Advice } = {
  vllm: {
    text: 'vLLM tells it for every request when started with this flag; streams carry it with their usage (stream_options.include_usage):',
    command: '--per-request-spec-decode-metrics detailed',
  },
  sglang: {
    text: 'SGLang tells it on the OpenAI routes where the request asks for it: let the guard rewrite requests, or send this field yourself:',
    command: '"return_spec_tokens_details": true',
  },
  'tensorrt-llm': { text: 'TensorRT-LLM counts when started with:', command: 'return_perf_metrics: true' },
  'llama-cpp': {
    text: 'llama.cpp leaves its counts out when nothing was drafted: was it started with a draft model?',
    command: 'mistletoe doctor URL',
  },
  lmdeploy: {
    text: 'LMDeploy tells sums alone, over all requests. They can be watched with:',
    command: 'mistletoe guard --scrape URL',
  },
  tgi: {
    text: 'TGI tells a histogram alone, over all requests. It can be watched with:',
    command: 'mistletoe guard --scrape URL',
  },
  mistletoe: {
    text: 'This server tells it when it is started with a drafter and:',
    command: '--per-request-spec-decode-metrics detailed',
  },
  unknown: { text: 'Which flag turns it on, this says:', command: 'mistletoe doctor URL' },
};
