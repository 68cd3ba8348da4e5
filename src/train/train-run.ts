/**
 * A training run is a folder:
 *
 *   config.json    what was asked for           answers.jsonl       what the target said
 *   start/         fresh weights, if any        state.safetensors   where the run goes on
 *   log.jsonl      losses and lengths           best/, last/        drafters
 *   result.json    what came of it
 *
 * Everything in it follows from config.json: killed at any moment and resumed, a run ends with the same weights.
 */
import { join } from 'node:path';
import type { RunPlace, OpenedRun } from '../runs/run-place.js';
import { findSameDevice, requireSameKind } from '../runs/run-device.js';
import { refuseUsedFolder, createRun } from '../runs/run-place.js';
import { writeAtomically } from '../runs/run-writes.js';
import type { CacheOptions } from '../checkpoint/cache/weight-cache.js';
import type { Target } from '../decode/target.js';
import { openTarget } from '../decode/target.js';
import { MistletoeError } from '../core/errors.js';
import type { ReadingOptions } from '../draft/draft-system.js';
import { loadDrafter } from '../draft/load-drafter.js';
import { describeMachine } from '../measure/machine.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { nameDevice } from '../runtime/device-choice.js';
import type { Runtime } from '../runtime/program.js';
import type { AnswersProgress } from './data/answers.js';
import { refuseUnanswered } from './data/answers.js';
import type { Conversation } from './data/conversations.js';
import { readConversations } from './data/conversations.js';
import { refuseShallowTarget } from './systems/new-eagle.js';
import { refuseWholeTarget } from './systems/new-draft-model.js';
import { takeAnswers } from './data/taken-answers.js';
import type { TrainedDrafter } from './loop/train-drafter.js';
import { trainDrafter } from './loop/train-drafter.js';
import type { TrainRequest } from './train-request.js';
import { requestSchema } from './train-request.js';
import type { LogLine } from './loop/training-log.js';
import type { TrainingResult } from './training-result.js';
import { findLengths, resultVersion } from './training-result.js';
import type { TrainingStart } from './systems/training-start.js';
import { prepareEagle3, prepareStart } from './systems/training-start.js';
import type { TrainingTexts } from './data/training-texts.js';
import { prepareTexts } from './data/training-texts.js';
import { asSaved, withResumption, openTrainingRun } from '../runs/resumed-run.js';

export interface TrainEvents {
  readonly onNotice?: (text: string) => void;
  readonly onOpen?: (run: { readonly folder: string; readonly request: TrainRequest }) => void;
  readonly onAnswers?: (progress: AnswersProgress) => void;
  readonly onStart?: (start: StartedTraining) => void;
  readonly onLine?: (line: LogLine) => void;
}

export interface StartedTraining {
  readonly request: TrainRequest;
  readonly texts: TrainingTexts;
  readonly parameterCount: number;
  readonly update: number;
}

export interface TrainOptions {
  readonly events?: TrainEvents;
  readonly signal?: AbortSignal;
  readonly cacheFolder?: string;
  readonly verifyCache?: boolean;
  /** Left open; by default the run creates its own. */
  readonly runtime?: Runtime;
}

export type TrainOutcome =
  | { readonly status: 'complete'; readonly folder: string; readonly result: TrainingResult }
  | { readonly status: 'interrupted'; readonly folder: string };

/** `place`: a folder, or the next free number of a name. A request that is refused leaves no folder. */
export async function startTraining(
  place: RunPlace,
  request: TrainRequest,
  options: TrainOptions = {},
): Promise<TrainOutcome> {
  if (typeof place === 'string') refuseUsedFolder(place, 'train');
  const saved = asSaved(requestSchema, request);
  return runTraining(() => createRun(place, `${JSON.stringify(saved, null, 1)}\n`, 'train'), saved, options);
}

/** Resumes with the saved request. Refuses another version or device, and changed models or data. */
export async function resumeTraining(folder: string, options: TrainOptions = {}): Promise<TrainOutcome> {
  const { request, open } = await openTrainingRun(folder, {
    ...{ command: 'train', schema: requestSchema, cacheFolder: options.cacheFolder },
  });
  return runTraining(open, request, options);
}

async function runTraining(
  open: () => OpenedRun,
  request: TrainRequest,
  options: TrainOptions,
): Promise<TrainOutcome> {
  if (options.runtime !== undefined) requireSameKind(request, options.runtime);
  const runtime = options.runtime ?? (await openRuntime(await findSameDevice(request), request.threads));
  try {
    const ready = await prepare(runtime, request, options);
    const { path, lock } = open();
    try {
      return await trainIn(path, ready, options);
    } catch (failure) {
      throw withResumption(path, 'train', failure);
    } finally {
      lock.release();
    }
  } finally {
    if (options.runtime === undefined) await runtime.dispose();
  }
}

interface ReadyRun {
  readonly request: TrainRequest;
  readonly target: Target;
  readonly conversations: readonly Conversation[];
  readonly cache: CacheOptions & ReadingOptions;
}

/** Loads and checks everything before hours of generation. */
async function prepare(runtime: Runtime, request: TrainRequest, options: TrainOptions): Promise<ReadyRun> {
  const { targetFolder, system, from, data, settings, shape, chatTemplate, date } = request;
  const { cacheFolder, verifyCache, events } = options;
  const cache: CacheOptions & ReadingOptions = {
    onNotice: (text) => events?.onNotice?.(text),
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
    ...(verifyCache === undefined ? {} : { verifyCache }),
    ...(from?.taps === undefined ? {} : { taps: from.taps }),
  };
  const conversations = (await readConversations(data.file)).slice(0, request.limit);
  if (!settings.generate) refuseUnanswered(conversations);
  const template = chatTemplate === undefined ? { date } : { chatTemplate, date };
  const target = await openTarget(targetFolder, { runtime, ...template, ...cache });
  refuseLargeVocabulary(shape.draftVocabulary ?? 1, target);
  const { layerCount } = target.model.configuration;
  refuseWholeTarget(shape.targetLayers ?? 0, layerCount);
  if (system === 'eagle3' && from === undefined) refuseShallowTarget(targetFolder, layerCount);
  if (from !== undefined) {
    const { model, tokenizer } = target;
    await loadDrafter(from.folder, { target: model, tokenizer, ...cache });
  }
  return { request, target, conversations, cache };
}

function refuseLargeVocabulary(size: number, { model, folder }: Target): void {
  const { vocabularySize } = model.configuration;
  if (size <= vocabularySize) return;
  throw new MistletoeError(
    'usage',
    `A draft vocabulary of ${size} tokens was asked for; the target in ${folder} has ${vocabularySize}.`,
    { hint: 'Ask for fewer, or leave it out: half of them are usual.' },
  );
}

async function trainIn(
  folder: string,
  { request, target, conversations, cache }: ReadyRun,
  { events = {}, signal }: TrainOptions,
): Promise<TrainOutcome> {
  const { onNotice = () => undefined } = events;
  events.onOpen?.({ folder, request });
  const read = { folder, signal, onAnswers: events.onAnswers };
  // Created first if possible, so that invalid sizes are refused at once.
  const early = await prepareStart(folder, request);
  if (request.answers !== undefined) takeAnswers(request.answers, folder, 'train');
  const texts = await prepareTexts(target, conversations, request.settings, read);
  if (texts === undefined) return { status: 'interrupted', folder };
  const start = early ?? (await prepareEagle3(folder, target, request, texts, onNotice));
  const trained = await trainDrafter({
    ...{ target, start: start.folder, settings: request.settings, folder, cache, signal },
    ...{ plan: texts.plan, validation: texts.validation, onLine: events.onLine },
    onStart: (started) => events.onStart?.({ request, texts, ...started }),
  });
  if (trained.ended === 'interrupted') return { status: 'interrupted', folder };
  const result = describeResult({ request, texts, start, ...trained });
  writeAtomically(join(folder, 'result.json'), `${JSON.stringify(result, null, 1)}\n`, 'train');
  return { status: 'complete', folder, result };
}

interface Made extends TrainedDrafter {
  readonly request: TrainRequest;
  readonly texts: TrainingTexts;
  readonly start: TrainingStart;
}

function describeResult(made: Made): TrainingResult {
  const { request, texts, start, ended, progress, parameterCount, log } = made;
  const { version, target, system, from, settings, device, data } = request;
  const { conversations, cutConversations, trainingCounts, heldOutCounts } = texts;
  const { batchesPerEpoch, paddingShare } = texts.plan;
  return {
    ...{ schema: resultVersion, version, target, system, from, parameterCount, settings, ended },
    targetLayers: request.shape.targetLayers,
    data: {
      ...data,
      ...{ conversations, cutConversations, training: trainingCounts, heldOut: heldOutCounts },
      batches: { batchesPerEpoch, paddingShare },
      draftVocabulary: start.draftVocabulary,
    },
    ...{ updates: progress.update, lengths: findLengths(log), log, elapsedMs: progress.elapsedMs },
    ...{ device: nameDevice(device), machine: describeMachine(device) },
  };
}
