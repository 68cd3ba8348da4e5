/** An engine whose answers are written by the test, so that routes can be tried by the thousand without a model. */
import type { AnswerProgress } from '../../../src/decode/worker/engine-messages.js';
import type { EngineWorker, WorkerGenerateOptions } from '../../../src/decode/worker/engine-worker.js';
import type { Generation } from '../../../src/decode/request.js';
import type { SpeculativeGeneration } from '../../../src/decode/request.js';
import { summariseAcceptance } from '../../../src/decode/acceptance.js';
import type { HostOptions } from '../../../src/serve/engine-host.js';

export interface Asked {
  readonly prompt: Parameters<EngineWorker['generateSeveral']>[0];
  readonly count: number;
  readonly options: WorkerGenerateOptions;
}

/** What one answer does: tells tokens, waits, fails. */
export type Script = (asked: Asked, tell: (text: string, accepted?: number) => void) => Promise<void> | void;

export interface ScriptedWorker {
  readonly worker: HostOptions['worker'];
  readonly asked: readonly Asked[];
  /** The thread dies. */
  readonly fail: (cause: Error) => void;
  readonly isClosed: () => boolean;
}

export function createScriptedWorker(
  script: Script = (_, tell) => {
    tell(' fine');
  },
  isChat = true,
): ScriptedWorker {
  const asked: Asked[] = [];
  let fail: (cause: Error | undefined) => void = () => undefined;
  let isClosed = false;
  let running = 0;
  const worker: HostOptions['worker'] = {
    isChat,
    ended: new Promise((resolve) => {
      fail = resolve;
    }),
    load: () => Promise.resolve({ running, waiting: 0, usedBytes: 0 }),
    close() {
      isClosed = true;
      fail(undefined);
      return Promise.resolve();
    },
    async generateSeveral(prompt, count, options = {}) {
      const one = { prompt, count, options };
      asked.push(one);
      running += count;
      try {
        return await Promise.all(Array.from({ length: count }, (_, index) => answer(script, one, index)));
      } finally {
        running -= count;
      }
    },
  };
  return {
    worker,
    asked,
    fail: (cause) => {
      fail(cause);
    },
    isClosed: () => isClosed,
  };
}

async function answer(
  script: Script,
  asked: Asked,
  index: number,
): Promise<Generation | SpeculativeGeneration> {
  const { options } = asked;
  const steps: { proposed: number; accepted: number; depth: number }[] = [];
  let text = '';
  let count = 0;
  await script(asked, (piece, accepted) => {
    text += piece;
    count += 1;
    const step = accepted === undefined ? [] : [{ proposed: 4, accepted, depth: 4 }];
    steps.push(...step);
    const likelihood = { id: 7, text: piece, bytes: [...Buffer.from(piece)], logprob: -0.5, top: [] };
    const token = {
      ...{ id: 7, origin: 'target' as const, text: piece },
      ...(options.topLikelihoods === undefined ? {} : { likelihood }),
    };
    options.onProgress?.({ tokens: [token], steps: step } satisfies AnswerProgress, index);
  });
  const generation: Generation = {
    promptTokenIds: [1, 2, 3],
    tokenIds: Array.from({ length: count }, () => 7),
    origins: [],
    text,
    finishReason: options.signal?.aborted === true ? 'aborted' : 'stop',
    ...{ preparationMs: 0, prefillMs: 1, decodeMs: 1, tokensPerSecond: 1 },
  };
  if (options.drafter === undefined) return generation;
  return {
    ...generation,
    acceptance: summariseAcceptance(steps, count),
    steps: steps.map((step) => ({ ...step, draftMs: 0, verifyMs: 0 })),
    rule: 'greedy',
    ...{ targetPasses: steps.length, drafterPasses: 0, draftMs: 0, verifyMs: 0, overheadMs: 0 },
    drafterFailed: false,
  };
}

/** Settles when the request is aborted. */
export function untilAborted({ options: { signal } }: Asked): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) resolve();
    else
      signal?.addEventListener(
        'abort',
        () => {
          resolve();
        },
        { once: true },
      );
  });
}
