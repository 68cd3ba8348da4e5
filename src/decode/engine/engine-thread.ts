/** The thread of createEngineWorker. Weights, caches and logits stay here; only small messages pass. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import type { Drafter } from '../../draft/drafter.js';
import { loadDrafter } from '../../draft/systems.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { chooseDevice, nameDevice } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import { Answering, type AnswerListener, type OpenedModels } from './answering.js';
import { Engine } from './engine.js';
import type { EngineAnswer, EngineRequest, EngineSettings, EngineTask } from './engine-messages.js';
import { describeFailure } from './engine-messages.js';
import { findDrafter } from '../bundled-models.js';
import { settleDevice } from '../gpu-fit.js';
import { BudgetedDrafting } from '../policies/budgeted-drafting.js';
import type { Generation } from '../plain.js';
import { openTarget } from '../target.js';

type Reporter = (answer: EngineAnswer) => void;

async function openModels(settings: EngineSettings, runtime: Runtime, post: Reporter): Promise<OpenedModels> {
  const { target: folder, drafters: sources, taps, cacheFolder, verifyCache } = settings;
  const { chat, chatTemplate, date } = settings;
  const onNotice = (text: string): void => {
    post({ kind: 'notice', text });
  };
  const loading = { cacheFolder, verifyCache, onNotice };
  const target = await openTarget(folder, { runtime, ...loading, chat, chatTemplate, date });
  const drafters = new Map<string, Drafter>();
  for (const [name, source] of Object.entries(sources)) {
    const options = { target: target.model, tokenizer: target.tokenizer, ...loading, taps };
    drafters.set(name, await loadDrafter(findDrafter(source), options));
  }
  const guarding = new BudgetedDrafting(drafters, target.model, settings.guarding);
  if (settings.guarding !== undefined) for (const text of guarding.misfits) post({ kind: 'notice', text });
  return { target, drafters, guarding };
}

class AnsweringThread {
  private readonly engine: Engine;
  private readonly answering: Answering;
  private readonly running = new Map<number, AbortController>();
  private readonly answers = new Set<Promise<void>>();

  constructor(
    models: OpenedModels,
    { concurrency, memoryBytes }: EngineSettings,
    private readonly post: Reporter,
  ) {
    this.engine = new Engine({ concurrency, memoryBytes });
    this.answering = new Answering(models, this.engine);
  }

  start(ids: readonly number[], task: EngineTask): void {
    const listeners = ids.map((id) => this.listen(id));
    for (const [index, answer] of this.answering.start(task, listeners).entries())
      this.follow(ids[index]!, answer);
  }

  abort(id: number): void {
    this.running.get(id)?.abort();
  }

  reportLoad(id: number): void {
    this.post({ kind: 'load', id, load: this.engine.load });
  }

  async finish(): Promise<void> {
    for (const controller of this.running.values()) controller.abort();
    await Promise.all(this.answers);
  }

  private listen(id: number): AnswerListener {
    const controller = new AbortController();
    this.running.set(id, controller);
    return {
      signal: controller.signal,
      onProgress: (progress) => {
        this.post({ kind: 'progress', id, progress });
      },
      onNotice: (text) => {
        this.post({ kind: 'notice', id, text });
      },
    };
  }

  private follow(id: number, answer: Promise<Generation>): void {
    const following = answer
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
        this.answers.delete(following);
      });
    this.answers.add(following);
  }
}

async function serve(port: MessagePort): Promise<void> {
  const post: Reporter = (answer) => {
    port.postMessage(answer);
  };
  const settings = workerData as EngineSettings;
  let runtime: Runtime | undefined;
  try {
    const folders = [settings.target, ...Object.values(settings.drafters).map(findDrafter)];
    const device = await settleDevice(await chooseDevice(settings), folders, (text) => {
      post({ kind: 'notice', text });
    });
    const opened = (runtime = await openRuntime(device, settings.threads));
    const models = await openModels(settings, opened, post);
    const thread = new AnsweringThread(models, settings, post);
    port.on('message', (request: EngineRequest) => {
      if (request.kind === 'generate') thread.start(request.ids, request.task);
      else if (request.kind === 'abort') thread.abort(request.id);
      else if (request.kind === 'load') thread.reportLoad(request.id);
      else {
        void thread.finish().then(async () => {
          await opened.dispose();
          port.close();
        });
      }
    });
    const { model, template } = models.target;
    const { contextLength, vocabularySize } = model.configuration;
    const target = { name: model.name, contextLength, vocabularySize };
    post({ kind: 'ready', target, device: nameDevice(device), isChat: template !== undefined });
  } catch (cause) {
    await runtime?.dispose();
    post({ kind: 'failed', failure: describeFailure(cause) });
    port.close();
  }
}

if (parentPort !== null) await serve(parentPort);
