/**
 * The engine behind the server: admits requests within the limits and aborts them when the client disconnects, when
 * their time is over or when the server shuts down.
 */
import { randomInt } from 'node:crypto';
import { MistletoeError } from '../core/errors.js';
import type { EngineLoad } from '../decode/engine.js';
import type { AnswerProgress } from '../decode/worker/engine-messages.js';
import type { EngineWorker } from '../decode/worker/engine-worker.js';
import type { Generation } from '../decode/request.js';
import type { AnswerRequest } from './answer-request.js';
import { ApiError, badRequest } from './api-error.js';
import { type ServerLimits, tooBusy } from './access.js';
import type { Drafting } from './speculation-report.js';

export interface ServedModel {
  readonly name: string;
  readonly contextLength: number;
  /** Names; the first is the default. */
  readonly drafters: readonly string[];
  readonly draft: string | undefined;
}

export interface HostOptions {
  readonly worker: Pick<EngineWorker, 'generateSeveral' | 'load' | 'close' | 'ended' | 'isChat'>;
  readonly model: ServedModel;
  readonly limits: ServerLimits;
  readonly concurrency: number;
  /** Folders of this machine that error messages must not contain. */
  readonly hiddenPaths: readonly string[];
}

export type Cut = 'client' | 'time' | 'shutdown';

export interface HostedAnswer {
  /** [prompt * choices + choice] */
  readonly generations: readonly Generation[];
  readonly cut: Cut | undefined;
}

export interface AskOptions {
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: AnswerProgress, choice: number) => void;
}

export class EngineHost {
  readonly model: ServedModel;
  readonly limits: ServerLimits;
  /** [aborted with a Cut] sequences of the request */
  private readonly running = new Map<AbortController, number>();
  private onIdle: () => void = () => undefined;
  private isDraining = false;
  private fault: Error | undefined;
  /** Decaying mean of the duration of an answer. */
  private meanSeconds = 1;

  constructor(private readonly options: HostOptions) {
    this.model = options.model;
    this.limits = options.limits;
    void options.worker.ended.then((fault) => {
      this.fault = fault;
    });
  }

  get state(): 'ready' | 'draining' | 'failed' {
    if (this.fault !== undefined) return 'failed';
    return this.isDraining ? 'draining' : 'ready';
  }

  get sequences(): number {
    return [...this.running.values()].reduce((total, count) => total + count, 0);
  }

  load(): Promise<EngineLoad> {
    return this.options.worker.load();
  }

  /** The drafter of a request, or undefined for plain decoding. Throws for an unknown drafter. */
  draftingFor(request: Pick<AnswerRequest, 'drafter' | 'draft'>): Drafting | undefined {
    const { drafter, draft } = request;
    const { drafters, draft: defaultDraft } = this.model;
    const name = drafter === 'none' ? undefined : (drafter ?? drafters[0]);
    if (name !== undefined && !drafters.includes(name)) {
      const known = [...drafters, 'none'].join(', ');
      throw badRequest(`There is no drafter of that name; there are ${known}.`, 'mistletoe.drafter');
    }
    if (name !== undefined) return { drafter: name, draft: draft ?? defaultDraft };
    if (draft !== undefined)
      throw badRequest('mistletoe.draft was given without a drafter.', 'mistletoe.draft');
    return undefined;
  }

  async answer(request: AnswerRequest, options: AskOptions): Promise<HostedAnswer> {
    this.admit(request);
    const drafting = this.draftingFor(request);
    const ending = new AbortController();
    const endWith = (cut: Cut) => () => {
      ending.abort(cut);
    };
    const leave = endWith('client');
    this.running.set(ending, request.prompts.length * request.choices);
    const timer = setTimeout(endWith('time'), this.limits.seconds * 1000);
    options.signal.addEventListener('abort', leave, { once: true });
    if (options.signal.aborted) leave();
    const startMs = performance.now();
    try {
      const generations = await this.ask(request, drafting, ending, options.onProgress);
      const cut = ending.signal.reason as Cut | undefined;
      if (cut === 'time' && generations.every(({ tokenIds }) => tokenIds.length === 0))
        throw new ApiError('The time for a request ended before there was room for it.', overTime);
      this.meanSeconds += 0.1 * ((performance.now() - startMs) / 1000 - this.meanSeconds);
      return { generations, cut };
    } finally {
      clearTimeout(timer);
      options.signal.removeEventListener('abort', leave);
      this.running.delete(ending);
      if (this.running.size === 0) this.onIdle();
    }
  }

  /** Refuses new requests, waits for running ones for `graceMs`, then ends the rest with what they have. */
  async close(graceMs: number): Promise<void> {
    this.isDraining = true;
    const timer = setTimeout(() => {
      for (const ending of this.running.keys()) ending.abort('shutdown' satisfies Cut);
    }, graceMs);
    await new Promise<void>((resolve) => {
      this.onIdle = resolve;
      if (this.running.size === 0) resolve();
    });
    clearTimeout(timer);
    await this.options.worker.close();
  }

  private admit(request: AnswerRequest): void {
    if (this.state !== 'ready') {
      const message =
        this.state === 'failed'
          ? 'The engine has failed; its log says more.'
          : 'The server is shutting down.';
      throw new ApiError(message, { status: 503, code: 'unavailable', headers: { connection: 'close' } });
    }
    if (request.kind === 'chat' && !this.options.worker.isChat)
      throw badRequest('The model has no chat template; use /v1/completions.', 'messages');
    const { concurrency } = this.options;
    const { sequences } = this;
    const asked = request.prompts.length * request.choices;
    if (sequences === 0 || sequences + asked <= concurrency + this.limits.queue) return;
    const waiting = Math.max(0, sequences - concurrency);
    throw tooBusy(waiting, (this.meanSeconds * waiting) / concurrency);
  }

  private async ask(
    request: AnswerRequest,
    drafting: Drafting | undefined,
    ending: AbortController,
    onProgress: AskOptions['onProgress'],
  ): Promise<readonly Generation[]> {
    const { prompts, choices, maxNewTokens, sampling, seed, stopStrings, topLikelihoods } = request;
    const { newTokens = this.model.contextLength, promptTokens } = this.limits;
    const task = {
      drafter: drafting?.drafter,
      policy: drafting?.draft,
      maxNewTokens: maxNewTokens ?? newTokens,
      needsRoom: maxNewTokens !== undefined,
      sampling,
      seed: seed ?? randomInt(2 ** 47),
      stopStrings: [...stopStrings],
      chat: request.kind === 'chat',
      topLikelihoods,
      maxPromptTokens: promptTokens,
      signal: ending.signal,
    };
    const answers = prompts.map((prompt, index) =>
      this.options.worker.generateSeveral(prompt, choices, {
        ...task,
        onProgress: (progress, choice) => {
          onProgress(progress, index * choices + choice);
        },
      }),
    );
    try {
      return (await Promise.all(answers)).flat();
    } catch (cause) {
      ending.abort(); // answers to the other prompts would reach nobody
      await Promise.allSettled(answers);
      throw this.hidePaths(cause);
    }
  }

  private hidePaths(cause: unknown): unknown {
    if (!(cause instanceof MistletoeError)) return cause;
    const { hiddenPaths, model } = this.options;
    const message = hiddenPaths.reduce((text, path) => text.replaceAll(path, model.name), cause.message);
    return new MistletoeError(cause.code, message, { cause });
  }
}

const overTime = { status: 503, code: 'timeout', headers: { 'retry-after': '10' } };
