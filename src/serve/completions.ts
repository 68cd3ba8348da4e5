/** Answering one request: as a whole, or as a stream that begins with its first token. */
import type { SpelledLikelihood } from '../decode/worker/engine-messages.js';
import { type AnswerHead, answerBody, createAnswerEvents } from './answer-format.js';
import type { AnswerRequest } from './answer-request.js';
import { apiErrorOf } from './api-error.js';
import type { EngineHost, HostedAnswer } from './engine-host.js';
import type { Exchange } from './exchange.js';
import type { MetricsLevel } from './request-schema.js';
import { type SpeculationReport, reportSpeculation } from './speculation-report.js';

export interface CompletionContext {
  readonly host: EngineHost;
  readonly exchange: Exchange;
  readonly request: AnswerRequest;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
  readonly fingerprint: string;
  /** Default for requests that do not set it. */
  readonly metricsLevel: MetricsLevel;
}

export function respond(context: CompletionContext): Promise<Response> {
  return context.request.isStream ? respondStreaming(context) : respondWhole(context);
}

async function respondWhole(context: CompletionContext): Promise<Response> {
  const { host, exchange, request, signal } = context;
  const likelihoods = Array.from(
    { length: request.prompts.length * request.choices },
    (): SpelledLikelihood[] => [],
  );
  const answer = await host.answer(request, {
    signal,
    onProgress(progress, choice) {
      exchange.progress(progress, choice);
      for (const { likelihood } of progress.tokens)
        if (likelihood !== undefined) likelihoods[choice]!.push(likelihood);
    },
  });
  exchange.answered(answer);
  const body = answerBody({
    head: headOf(context),
    request,
    answer,
    likelihoods: request.topLikelihoods === undefined ? undefined : likelihoods,
    report: reportOf(context, answer),
  });
  return Response.json(body);
}

const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
};

/** A failure before the first token has its own status; later the status has already been sent. */
async function respondStreaming(context: CompletionContext): Promise<Response> {
  const { host, exchange, request, signal } = context;
  const events = createAnswerEvents(headOf(context), request);
  const encoder = new TextEncoder();
  const left = new AbortController();
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const stream = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given;
    },
    cancel() {
      left.abort();
    },
  });
  const send = (text: string): void => {
    if (text !== '' && !left.signal.aborted) controller?.enqueue(encoder.encode(text));
  };
  let hasBegun = false;
  let reportBegun: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    reportBegun = resolve;
  });
  const begin = (): void => {
    if (!hasBegun) send(events.begin());
    hasBegun = true;
    reportBegun();
  };
  const write = async (): Promise<void> => {
    try {
      const answer = await host.answer(request, {
        signal: AbortSignal.any([signal, left.signal]),
        onProgress(progress, choice) {
          begin();
          exchange.progress(progress, choice);
          send(events.progress(progress, choice));
        },
      });
      begin();
      exchange.answered(answer);
      send(events.end(answer, reportOf(context, answer)));
    } catch (cause) {
      if (!hasBegun) throw cause;
      const error = apiErrorOf(cause);
      exchange.failed(error, 200);
      send(events.fail(error));
    }
    if (!left.signal.aborted) controller?.close();
  };
  await Promise.race([begun, write()]);
  return new Response(stream, { headers: streamHeaders });
}

function headOf({ exchange, host, fingerprint }: CompletionContext): AnswerHead {
  return {
    id: exchange.id,
    created: Math.floor(Date.now() / 1000),
    model: host.model.name,
    system_fingerprint: fingerprint,
  };
}

function reportOf(
  { host, request, metricsLevel }: CompletionContext,
  { generations }: HostedAnswer,
): SpeculationReport | undefined {
  return reportSpeculation(generations, host.draftingFor(request), request.metrics ?? metricsLevel);
}
