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
import { findSameDevice, requireSameKind } from '../audit/run-device.js';
import { writeAtomically } from '../audit/run-writes.js';
import { openTarget } from '../decode/target.js';
import { describeMachine } from '../measure/machine.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { nameDevice } from '../runtime/device-choice.js';
import type { Runtime } from '../runtime/program.js';
import type { AnswersProgress } from './answers.js';
import type { TrainedDrafter } from './train-drafter.js';
import { trainDrafter } from './train-drafter.js';
import { createRunFolder, openRunFolder } from './train-folder.js';
import type { TrainRequest } from './train-request.js';
import type { LogLine } from './training-log.js';
import type { TrainingResult } from './training-result.js';
import { findLengths, resultVersion } from './training-result.js';
import type { TrainingStart } from './training-start.js';
import { prepareStart } from './training-start.js';
import type { TrainingTexts } from './training-texts.js';
import { prepareTexts } from './training-texts.js';

export interface TrainEvents {
  readonly onNotice?: (text: string) => void;
  /** While the target writes what is trained on. */
  readonly onAnswers?: (progress: AnswersProgress) => void;
  /** Once, before the first update. */
  readonly onStart?: (start: StartedTraining) => void;
  readonly onLine?: (line: LogLine) => void;
}

export interface StartedTraining {
  readonly request: TrainRequest;
  readonly texts: TrainingTexts;
  readonly parameterCount: number;
  /** Updates of earlier starts of this run. */
  readonly update: number;
}

export interface TrainOptions {
  readonly events?: TrainEvents;
  readonly signal?: AbortSignal;
  readonly cacheFolder?: string;
  /** Used and left open; by default one for this run alone. */
  readonly runtime?: Runtime;
}

export type TrainOutcome =
  | { readonly status: 'complete'; readonly folder: string; readonly result: TrainingResult }
  | { readonly status: 'interrupted'; readonly folder: string };

export async function startTraining(
  folder: string,
  request: TrainRequest,
  options: TrainOptions = {},
): Promise<TrainOutcome> {
  const lock = createRunFolder(folder, request);
  try {
    return await runTraining(folder, request, options);
  } finally {
    lock.release();
  }
}

/** Goes on with the saved request; another version or device, and models or data that have changed, are refused. */
export async function resumeTraining(folder: string, options: TrainOptions = {}): Promise<TrainOutcome> {
  const { request, lock } = await openRunFolder(folder, options.cacheFolder);
  try {
    return await runTraining(folder, request, options);
  } finally {
    lock.release();
  }
}

async function runTraining(
  folder: string,
  request: TrainRequest,
  options: TrainOptions,
): Promise<TrainOutcome> {
  if (options.runtime !== undefined) requireSameKind(request, options.runtime);
  const runtime = options.runtime ?? (await openRuntime(await findSameDevice(request), request.threads));
  try {
    return await trainOn(runtime, folder, request, options);
  } finally {
    if (options.runtime === undefined) await runtime.dispose();
  }
}

async function trainOn(
  runtime: Runtime,
  folder: string,
  request: TrainRequest,
  { events = {}, signal, cacheFolder }: TrainOptions,
): Promise<TrainOutcome> {
  const { targetFolder, settings, date } = request;
  const { onNotice = () => undefined } = events;
  const cache = { onNotice, ...(cacheFolder === undefined ? {} : { cacheFolder }) };
  const target = await openTarget(targetFolder, { runtime, date, ...cache });
  const texts = await prepareTexts(target, request, { folder, signal, onAnswers: events.onAnswers });
  if (texts === undefined) return { status: 'interrupted', folder };
  const start = await prepareStart(folder, target, request, texts, onNotice);
  const trained = await trainDrafter({
    ...{ target, start: start.folder, settings, folder, cache, signal },
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
  return {
    ...{ schema: resultVersion, version, target, system, from, parameterCount, settings, ended },
    data: {
      ...data,
      ...{ conversations, cutConversations, training: trainingCounts, heldOut: heldOutCounts },
      draftVocabulary: start.draftVocabulary,
    },
    ...{ updates: progress.update, lengths: findLengths(log), log, elapsedMs: progress.elapsedMs },
    ...{ device: nameDevice(device), machine: describeMachine() },
  };
}
