/**
 * Answers tasks through one engine: finds the drafter, encodes the prompt, reads it once for several answers, and
 * reports progress per pass.
 */
import { MistletoeError } from '../../core/errors.js';
import type { Drafter } from '../../draft/drafter.js';
import { spellToken, type TokenSpelling } from '../../text/text-stream.js';
import type { StepRecord } from '../acceptance.js';
import type { TokenEvent } from '../answer.js';
import type { Generation, GenerationRequest, ReadPrefix } from '../plain.js';
import { decodePlain, readPrefix } from '../plain.js';
import type { BudgetedDrafting, BudgetedRequest } from '../policies/budgeted-drafting.js';
import type { PolicyChooser } from '../policies/policy-chooser.js';
import { choosePolicy } from '../speculative-text.js';
import { decodeSpeculative, type SpeculativeRequest } from '../speculative.js';
import { completeRequest, requestFor, type Target } from '../target.js';
import type { AnswerProgress, EngineTask, SpelledLikelihood, WorkerTokenEvent } from './engine-messages.js';
import { sequenceBytes, type Engine } from './engine.js';

/**
 * Combines what one pass brings to an answer into one message. Tokens of a pass arrive without an await between them,
 * so a microtask marks the end of the pass.
 */
class ProgressReport {
  private tokens: WorkerTokenEvent[] = [];
  private steps: StepRecord[] = [];

  constructor(
    private readonly send: (progress: AnswerProgress) => void,
    private readonly spell: (id: number) => TokenSpelling,
  ) {}

  readonly addToken = (event: TokenEvent): void => {
    this.plan();
    const { likelihood } = event;
    this.tokens.push({ ...event, likelihood: likelihood && this.spellLikelihood(event.id, likelihood) });
  };

  readonly addStep = ({ proposed, accepted, depth, drafter }: StepRecord): void => {
    this.plan();
    this.steps.push({ proposed, accepted, depth, drafter });
  };

  flush(): void {
    const { tokens, steps } = this;
    if (tokens.length === 0 && steps.length === 0) return;
    [this.tokens, this.steps] = [[], []];
    this.send({ tokens, steps });
  }

  private plan(): void {
    if (this.tokens.length > 0 || this.steps.length > 0) return;
    queueMicrotask(() => {
      this.flush();
    });
  }

  private spellLikelihood(id: number, likelihood: NonNullable<TokenEvent['likelihood']>): SpelledLikelihood {
    const spell = (token: number, logprob: number) => ({ id: token, ...this.spell(token), logprob });
    const top = likelihood.top.map((other) => spell(other.id, other.logprob));
    return { ...spell(id, likelihood.logprob), top };
  }
}

export interface OpenedModels {
  readonly target: Target;
  readonly drafters: ReadonlyMap<string, Drafter>;
  readonly guarding: BudgetedDrafting;
}

export interface AnswerListener {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: AnswerProgress) => void;
  readonly onNotice: (text: string) => void;
}

interface Drafting {
  readonly drafter: Drafter;
  /** All drafters that keep state for the request. */
  readonly members: readonly Drafter[];
  /** Called per answer; `end` exists if the answer is guarded. */
  readonly begin: (
    hasSharedPrompt: boolean,
  ) => Pick<SpeculativeRequest, 'policy'> & { readonly drafter: Drafter } & Partial<
      Pick<BudgetedRequest, 'end'>
    >;
}

interface PreparedTask {
  readonly request: GenerationRequest;
  readonly drafting: Drafting | undefined;
  readonly task: EngineTask;
}

/** Forks copy shorter prompts anyway (model/cache/cache-pool.ts), so each answer reads them itself. */
const minShared = 33;
const maxPolicies = 64;

export class Answering {
  /** What `auto` learns in one request helps the next. */
  private readonly policies = new Map<string, PolicyChooser>();

  constructor(
    private readonly models: OpenedModels,
    private readonly engine: Engine,
  ) {}

  start(task: EngineTask, listeners: readonly AnswerListener[]): readonly Promise<Generation>[] {
    const prepared = this.prepare(task);
    const prefix = listeners.length > 1 ? this.readShared(prepared, listeners) : Promise.resolve(undefined);
    prefix.catch(() => undefined); // each answer tells of it
    const answers = listeners.map(async (listener, index) =>
      this.answer(await prepared, await prefix, listener, index),
    );
    void Promise.allSettled(answers).then(async () => {
      const read = await prefix.catch(() => undefined);
      read?.cache.release();
      read?.states?.free();
    });
    return answers;
  }

  private async prepare(task: EngineTask): Promise<PreparedTask> {
    const { prompt, drafter: name, policy, maxPromptTokens = Infinity, needsRoom = false, ...options } = task;
    const { target } = this.models;
    const drafter = name === undefined ? undefined : this.findDrafter(name);
    const isEncoded = Array.isArray(prompt) && typeof prompt[0] === 'number';
    const request = isEncoded
      ? completeRequest(target, prompt as number[], options)
      : await requestFor(target, prompt as Exclude<typeof prompt, number[]>, options);
    const { length } = request.promptIds;
    if (length > maxPromptTokens) {
      throw new MistletoeError(
        'context',
        `The prompt has ${length} tokens; at most ${maxPromptTokens} are taken here.`,
        { hint: 'Shorten the prompt.' },
      );
    }
    const { contextLength } = target.model.configuration;
    const { maxNewTokens } = request;
    if (needsRoom && length + maxNewTokens > contextLength) {
      throw new MistletoeError(
        'context',
        `The prompt has ${length} tokens and ${maxNewTokens} new tokens were requested; ` +
          `the context length is ${contextLength}.`,
        { hint: 'Shorten the prompt, or request fewer new tokens.' },
      );
    }
    if (name === undefined || drafter === undefined) return { request, drafting: undefined, task };
    if (task.guarded === true) return { request, drafting: this.guard(name, drafter, policy, request), task };
    const chooser = this.findPolicy(name, drafter, policy, options);
    const drafting = { drafter, members: [drafter], begin: () => ({ drafter, policy: chooser }) };
    return { request, drafting, task };
  }

  private guard(
    name: string,
    drafter: Drafter,
    policy: string | undefined,
    { sampling }: GenerationRequest,
  ): Drafting {
    const { guarding } = this.models;
    const isGreedy = sampling.temperature === 0;
    return {
      drafter,
      members: guarding.membersOf(name),
      begin: (hasSharedPrompt) => guarding.begin({ name, policy, isGreedy, hasSharedPrompt }),
    };
  }

  /** Without the last token, whose logits each answer needs. */
  private async readShared(
    prepared: Promise<PreparedTask>,
    listeners: readonly AnswerListener[],
  ): Promise<ReadPrefix | undefined> {
    const { request, drafting } = await prepared;
    if (request.promptIds.length < minShared) return undefined;
    const tokenIds = request.promptIds.slice(0, -1);
    const signal = whenAll(listeners.map((listener) => listener.signal));
    const { model } = this.models.target;
    const reader = drafting?.drafter ?? { reads: 'tokens', taps: [] };
    const bytes = sequenceBytes(
      { promptIds: tokenIds, maxNewTokens: 0 },
      model,
      ...(drafting?.members ?? []),
    );
    const read = await this.engine.run(
      (scheduler) => readPrefix(model, reader, tokenIds, { scheduler, signal }),
      { bytes, signal },
    );
    return read.cache.length === 0 ? undefined : read;
  }

  private async answer(
    { request, drafting, task: { rule } }: PreparedTask,
    prefix: ReadPrefix | undefined,
    { signal, onProgress, onNotice }: AnswerListener,
    index: number,
  ): Promise<Generation> {
    const { model, tokenizer } = this.models.target;
    const report = new ProgressReport(onProgress, (id) => spellToken(tokenizer, id));
    const own = { ...request, seed: request.seed + index, prefix, signal, onToken: report.addToken };
    const room = { bytes: sequenceBytes(request, model, ...(drafting?.members ?? [])), signal };
    const generation = await this.engine.run(async (scheduler) => {
      if (drafting === undefined) return decodePlain(model, { ...own, scheduler });
      const { drafter, policy, end } = drafting.begin(prefix !== undefined);
      const drafted = await decodeSpeculative(model, drafter, {
        ...own,
        scheduler,
        policy,
        onNotice,
        onStep: report.addStep,
        rule,
      });
      return end === undefined ? drafted : { ...drafted, guarding: end(drafted.steps) };
    }, room);
    report.flush();
    return generation;
  }

  private findPolicy(
    name: string,
    drafter: Drafter,
    policy: string | undefined,
    options: Pick<EngineTask, 'sampling'>,
  ): PolicyChooser {
    const isGreedy = (options.sampling?.temperature ?? 0) === 0;
    const key = `${name} ${policy ?? ''} ${isGreedy ? 'greedy' : 'drawn'}`;
    const { sampling } = options;
    const chooser = this.policies.get(key) ?? choosePolicy(policy, drafter, { sampling });
    this.policies.delete(key);
    this.policies.set(key, chooser);
    const [oldest] = this.policies.keys();
    if (this.policies.size > maxPolicies) this.policies.delete(oldest!);
    return chooser;
  }

  private findDrafter(name: string): Drafter {
    const { drafters } = this.models;
    const found = drafters.get(name);
    if (found !== undefined) return found;
    const known = drafters.size === 0 ? 'It has none.' : `It has ${[...drafters.keys()].join(', ')}.`;
    throw new MistletoeError('usage', `The engine was opened without a drafter "${name}". ${known}`, {
      hint: 'Name it in the drafters of createEngineWorker.',
    });
  }
}

/** Aborted once all signals are. */
function whenAll(signals: readonly AbortSignal[]): AbortSignal {
  const controller = new AbortController();
  const look = (): void => {
    if (signals.every((signal) => signal.aborted)) controller.abort();
  };
  for (const signal of signals) signal.addEventListener('abort', look, { once: true });
  look();
  return controller.signal;
}
