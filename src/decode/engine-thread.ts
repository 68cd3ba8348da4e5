/**
 * The thread's side of createEngineWorker: opens target and drafters, and answers requests through one engine. Only small
 * messages pass; weights, caches and logits stay here.
 */
import type { MessagePort } from 'node:worker_threads';
import { parentPort, workerData } from 'node:worker_threads';
import { MistletoeError } from '../core/errors.js';
import type { Drafter } from '../draft/drafter.js';
import { loadDrafter } from '../draft/load-drafter.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { chooseDevice } from '../runtime/device-choice.js';
import type { Runtime } from '../runtime/program.js';
import { Engine } from './engine.js';
import type { EngineAnswer, EngineSettings, EngineTask } from './engine-messages.js';
import { describeFailure, requestSchema, settingsSchema } from './engine-messages.js';
import { findDrafter } from './find-drafter.js';
import { settleDevice } from './gpu-room.js';
import type { Generation } from './plain.js';
import { decodePlain } from './plain.js';
import { sequenceBytes } from './sequence-bytes.js';
import type { PolicyChooser } from './speculative.js';
import { decodeSpeculative } from './speculative.js';
import { choosePolicy } from './speculative-text.js';
import type { Target } from './target.js';
import { openTarget, requestFor } from './target.js';

interface OpenedModels {
  readonly target: Target;
  readonly drafters: ReadonlyMap<string, Drafter>;
}

/** What an answer reports on its way. */
type Reporter = (answer: EngineAnswer) => void;

async function openModels(settings: EngineSettings, runtime: Runtime, post: Reporter): Promise<OpenedModels> {
  const { target: folder, drafters: sources, cacheFolder, verifyCache, chat, chatTemplate, date } = settings;
  const loading = {
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
    ...(verifyCache === undefined ? {} : { verifyCache }),
    onNotice: (text: string) => {
      post({ kind: 'notice', text });
    },
  };
  const target = await openTarget(folder, {
    ...{ runtime, ...loading },
    ...(chat === undefined ? {} : { chat }),
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
    ...(date === undefined ? {} : { date }),
  });
  const drafters = new Map<string, Drafter>();
  for (const [name, source] of Object.entries(sources)) {
    const options = { target: target.model, tokenizer: target.tokenizer, ...loading };
    drafters.set(name, await loadDrafter(findDrafter(source), options));
  }
  return { target, drafters };
}

class AnsweringThread {
  private readonly engine: Engine;
  private readonly running = new Map<number, AbortController>();
  private readonly answers = new Set<Promise<void>>();
  /** What `auto` learns on one request helps the next. */
  private readonly policies = new Map<string, PolicyChooser>();

  constructor(
    private readonly models: OpenedModels,
    { concurrency, memoryBytes }: EngineSettings,
    private readonly post: Reporter,
  ) {
    this.engine = new Engine({
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
    });
  }

  start(id: number, task: EngineTask): void {
    const controller = new AbortController();
    this.running.set(id, controller);
    const answering = this.answer(id, task, controller.signal)
      .then(
        (generation) => {
          this.post({ kind: 'done', id, generation });
        },
        (cause: unknown) => {
          this.post({ kind: 'failed', id, failure: describeFailure(cause) });
        },
      )
      .finally(() => {
        this.running.delete(id);
        this.answers.delete(answering);
      });
    this.answers.add(answering);
  }

  abort(id: number): void {
    this.running.get(id)?.abort();
  }

  async finish(): Promise<void> {
    for (const controller of this.running.values()) controller.abort();
    await Promise.all(this.answers);
  }

  private async answer(id: number, task: EngineTask, signal: AbortSignal): Promise<Generation> {
    const { prompt, drafter: name, policy, rule, ...options } = task;
    const { target } = this.models;
    const drafter = name === undefined ? undefined : this.findDrafter(name);
    const request = await requestFor(target, prompt, {
      ...{ ...options, signal },
      onToken: (event) => {
        this.post({ kind: 'token', id, event });
      },
    });
    const bytes = sequenceBytes(request, target.model, drafter);
    if (name === undefined || drafter === undefined)
      return this.engine.run((meeting) => decodePlain(target.model, { ...request, meeting }), {
        ...{ bytes, signal },
      });
    const key = `${name} ${policy ?? ''} ${request.sampling.temperature === 0 ? 'greedy' : 'drawn'}`;
    const chooser = this.policies.get(key) ?? choosePolicy(policy, drafter, options);
    this.policies.set(key, chooser);
    const speculative = {
      ...{ ...request, policy: chooser, ...(rule === undefined ? {} : { rule }) },
      onNotice: (text: string) => {
        this.post({ kind: 'notice', id, text });
      },
    };
    return this.engine.run(
      (meeting) => decodeSpeculative(target.model, drafter, { ...speculative, meeting }),
      { bytes, signal },
    );
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

async function openSettled(settings: EngineSettings, post: Reporter): Promise<Runtime> {
  const folders = [settings.target, ...Object.values(settings.drafters).map(findDrafter)];
  const device = await settleDevice(await chooseDevice(settings), folders, (text) => {
    post({ kind: 'notice', text });
  });
  return openRuntime(device, settings.threads);
}

async function serve(port: MessagePort): Promise<void> {
  const post: Reporter = (answer) => {
    port.postMessage(answer);
  };
  const settings = settingsSchema.parse(workerData);
  let runtime: Runtime | undefined;
  try {
    const opened = await openSettled(settings, post);
    runtime = opened;
    const models = await openModels(settings, opened, post);
    const thread = new AnsweringThread(models, settings, post);
    port.on('message', (given: unknown) => {
      const request = requestSchema.parse(given);
      if (request.kind === 'generate') thread.start(request.id, request.task);
      else if (request.kind === 'abort') thread.abort(request.id);
      else {
        void thread.finish().then(async () => {
          await opened.dispose();
          port.close();
        });
      }
    });
    const { name, configuration } = models.target.model;
    const { contextLength, vocabularySize } = configuration;
    post({ kind: 'ready', target: { name, contextLength, vocabularySize } });
  } catch (cause) {
    await runtime?.dispose();
    post({ kind: 'failed', failure: describeFailure(cause) });
    port.close();
  }
}

if (parentPort !== null) await serve(parentPort);
