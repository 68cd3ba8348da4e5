/** The thread of createEngineWorker. Weights, caches and logits stay here; only small messages pass. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import type { Drafter } from '../../draft/drafter.js';
import { loadDrafter } from '../../draft/systems.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { chooseDevice, nameDevice } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import { Answering, type OpenedModels } from './answering.js';
import type { EngineAnswer, EngineRequest, EngineSettings } from './engine-messages.js';
import { describeFailure } from './engine-messages.js';
import { findDrafter } from '../find-drafter.js';
import { settleDevice } from '../gpu-fit.js';
import { openTarget } from '../target.js';

async function openModels(
  settings: EngineSettings,
  runtime: Runtime,
  onNotice: (text: string) => void,
): Promise<OpenedModels> {
  const { target: folder, drafters: sources, taps, cacheFolder, verifyCache } = settings;
  const { chat, chatTemplate, date } = settings;
  const loading = { cacheFolder, verifyCache, onNotice };
  const target = await openTarget(folder, { runtime, ...loading, chat, chatTemplate, date });
  const drafters = new Map<string, Drafter>();
  for (const [name, source] of Object.entries(sources)) {
    const options = { target: target.model, tokenizer: target.tokenizer, ...loading, taps };
    drafters.set(name, await loadDrafter(findDrafter(source), options));
  }
  return { target, drafters };
}

async function serve(port: MessagePort): Promise<void> {
  const post = (answer: EngineAnswer): void => {
    port.postMessage(answer);
  };
  const onNotice = (text: string): void => {
    post({ kind: 'notice', text });
  };
  const settings = workerData as EngineSettings;
  let runtime: Runtime | undefined;
  try {
    const folders = [settings.target, ...Object.values(settings.drafters).map(findDrafter)];
    const device = await settleDevice(await chooseDevice(settings), folders, onNotice);
    const opened = (runtime = await openRuntime(device, settings.threads));
    const models = await openModels(settings, opened, onNotice);
    const answering = new Answering(models, settings, post);
    port.on('message', (request: EngineRequest) => {
      if (request.kind === 'generate') answering.start(request.ids, request.task);
      else if (request.kind === 'abort') answering.abort(request.id);
      else if (request.kind === 'load') post({ kind: 'load', id: request.id, load: answering.load });
      else {
        void answering.finish().then(async () => {
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
