/**
 * Answers tasks through one engine: finds the drafter, encodes the prompt, reads it once for several answers, and
 * posts progress per pass.
 */
import { MistletoeError } from '../../core/errors.js';
import type { Drafter } from '../../draft/drafter.js';
import { Engine, sequenceBytes } from '../engine.js';
import { choosePolicy, completeRequest, decodePlain, decodeSpeculative, requestFor } from '../generate.js';
import type { PolicyChooser } from '../policies/policy-chooser.js';
import { readPrefix, type ReadPrefix } from '../prompt-reading.js';
import type { Generation, GenerationRequest } from '../request.js';
import type { Target } from '../target.js';
import type { EngineAnswer, EngineSettings, EngineTask } from './engine-messages.js';
import { describeFailure, ProgressReport } from './engine-messages.js';

export interface OpenedModels {
  readonly target: Target;
  readonly drafters: ReadonlyMap<string, Drafter>;
}

interface Drafting {
  readonly drafter: Drafter;
  readonly policy: PolicyChooser;
}

interface PreparedTask {
  readonly request: GenerationRequest;
  /** Undefined for plain decoding. */
  readonly drafting: Drafting | undefined;
  readonly rule: EngineTask['rule'];
}

/** Forks copy shorter prompts anyway (model/cache/cache-pool.ts), so each answer reads them itself. */
const minShared = 33;
const maxPolicies = 64;

export class Answering {
  private readonly engine: Engine;
  /** What `auto` learns in one request helps the next. The least recently used first. */
  private readonly policies = new Map<string, PolicyChooser>();
  private readonly running = new Map<number, AbortController>();
  private readonly tasks = new Set<Promise<void>>();

  constructor(
    private readonly models: OpenedModels,
    { concurrency, memoryBytes }: EngineSettings,
    private readonly post: (answer: EngineAnswer) => void,
  ) {
    this.engine = new Engine({ concurrency, memoryBytes });
  }

  get load() {
    return this.engine.load;
  }

  /** Starts an answer per id. */
  start(ids: readonly number[], task: EngineTask): void {
    const answering = this.answerAll(ids, task).finally(() => this.tasks.delete(answering));
    this.tasks.add(answering);
  }

  abort(id: number): void {
    this.running.get(id)?.abort();
  }

  async finish(): Promise<void> {
    for (const controller of this.running.values()) controller.abort();
    await Promise.all(this.tasks);
  }

  private async answerAll(ids: readonly number[], task: EngineTask): Promise<void> {
    const signals = ids.map((id) => {
      const controller = new AbortController();
      this.running.set(id, controller);
      return controller.signal;
    });
    const prepared = this.prepare(task);
    const prefix = ids.length > 1 ? this.readShared(prepared, signals) : Promise.resolve(undefined);
    prefix.catch(() => undefined); // each answer reports it
    const answers = ids.map(async (id, index) => {
      try {
        const place = { id, index, signal: signals[index]! };
        const generation = await this.answer(await prepared, await prefix, place);
        this.post({ kind: 'done', id, generation });
      } catch (cause) {
        this.post({ kind: 'failed', id, failure: describeFailure(cause) });
      }
      this.running.delete(id);
    });
    await Promise.all(answers);
    const read = await prefix.catch(() => undefined);
    read?.cache.release();
    read?.states?.free();
  }

  private async prepare(task: EngineTask): Promise<PreparedTask> {
    const { prompt, rule, maxPromptTokens = Infinity, needsRoom = false } = task;
    const { target } = this.models;
    const drafting = this.findDrafting(task);
    const isEncoded = Array.isArray(prompt) && typeof prompt[0] === 'number';
    const request = isEncoded
      ? completeRequest(target, prompt as number[], task)
      : await requestFor(target, prompt as Exclude<typeof prompt, number[]>, task);
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
    return { request, drafting, rule };
  }

  private findDrafting({ drafter: name, policy, sampling }: EngineTask): Drafting | undefined {
    if (name === undefined) return undefined;
    const { drafters } = this.models;
    const drafter = drafters.get(name);
    if (drafter === undefined) {
      const known = drafters.size === 0 ? 'It has none.' : `It has ${[...drafters.keys()].join(', ')}.`;
      throw new MistletoeError('usage', `The engine was opened without a drafter "${name}". ${known}`, {
        hint: 'Name it in the drafters of createEngineWorker.',
      });
    }
    const isGreedy = (sampling?.temperature ?? 0) === 0;
    const key = `${name} ${policy ?? ''} ${isGreedy ? 'greedy' : 'drawn'}`;
    const { runtime } = this.models.target.model;
    const chooser = this.policies.get(key) ?? choosePolicy(policy, drafter, runtime, { sampling });
    this.policies.delete(key);
    this.policies.set(key, chooser);
    const [oldest] = this.policies.keys();
    if (this.policies.size > maxPolicies) this.policies.delete(oldest!);
    return { drafter, policy: chooser };
  }

  /** Without the last token, whose logits each answer needs. */
  private async readShared(
    prepared: Promise<PreparedTask>,
    signals: readonly AbortSignal[],
  ): Promise<ReadPrefix | undefined> {
    const { request, drafting } = await prepared;
    if (request.promptIds.length < minShared) return undefined;
    const promptIds = request.promptIds.slice(0, -1);
    const signal = whenAll(signals);
    const { model } = this.models.target;
    const reader = drafting?.drafter ?? ({ reads: 'tokens', taps: [] } as const);
    const bytes = sequenceBytes({ promptIds, maxNewTokens: 0 }, model, drafting?.drafter);
    const { engine } = this;
    const read = await engine.run(() => readPrefix(model, reader, promptIds, { engine, signal }), {
      bytes,
      signal,
    });
    return read.cache.length === 0 ? undefined : read;
  }

  private async answer(
    { request, drafting, rule }: PreparedTask,
    prefix: ReadPrefix | undefined,
    { id, index, signal }: { readonly id: number; readonly index: number; readonly signal: AbortSignal },
  ): Promise<Generation> {
    const { model, tokenizer } = this.models.target;
    const report = new ProgressReport((progress) => {
      this.post({ kind: 'progress', id, progress });
    }, tokenizer);
    const { addToken: onToken, addStep: onStep } = report;
    const onNotice = (text: string): void => {
      this.post({ kind: 'notice', id, text });
    };
    const { engine } = this;
    const own = { ...request, seed: request.seed + index, engine, prefix, signal, onToken };
    const decode = async (): Promise<Generation> => {
      if (drafting === undefined) return decodePlain(model, own);
      const { drafter, policy } = drafting;
      return decodeSpeculative(model, drafter, { ...own, policy, rule, onNotice, onStep });
    };
    const bytes = sequenceBytes(request, model, drafting?.drafter);
    const generation = await engine.run(decode, { bytes, signal });
    report.flush();
    return generation;
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
