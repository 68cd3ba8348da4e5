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
import { loadDrafter } from '../draft/load-drafter.js';
import { describeMachine } from '../measure/machine.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { nameDevice } from '../runtime/device-choice.js';
import type { Runtime } from '../runtime/program.js';
import { adamDefaults } from './adamw.js';
import type { AnswersProgress } from './answers.js';
import { slotName } from './parameter-buffers.js';
import { readParameters } from './parameters.js';
import { saveDrafter } from './saved-drafter.js';
import { objectiveOf } from './settings.js';
import { createRunFolder, openRunFolder } from './train-folder.js';
import type { TrainRequest } from './train-request.js';
import { Trainer } from './trainer.js';
import type { LogLine } from './training-log.js';
import { TrainingLog } from './training-log.js';
import type { TrainingEnd } from './training-loop.js';
import { trainSteps } from './training-loop.js';
import type { TrainingResult } from './training-result.js';
import { findLengths, resultVersion } from './training-result.js';
import type { TrainingProgress } from './training-state.js';
import { freshProgress, loadState, saveState } from './training-state.js';
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
  const drafter = await loadDrafter(start.folder, {
    ...{ target: target.model, tokenizer: target.tokenizer },
    ...cache,
  });
  const pair = { target: target.model, drafter };
  const values = await readParameters(drafter);
  const { weightDecay, clip, seed } = settings;
  const trainer = await Trainer.create(pair, values, {
    ...{ objective: objectiveOf(settings), adam: { ...adamDefaults, weightDecay, clip }, seed },
  });
  try {
    const stateFile = join(folder, 'state.safetensors');
    const saved = await loadState(stateFile);
    if (saved !== undefined) trainer.buffers.write(saved.values);
    let progress = saved?.progress ?? freshProgress;
    const log = TrainingLog.open(join(folder, 'log.jsonl'), progress.update);
    const { parameterCount } = drafter;
    events.onStart?.({ request, texts, parameterCount, update: progress.update });
    const keep = async (name: string): Promise<void> => {
      const parameters = await trainer.buffers.read(['parameter']);
      // Weights that are not trained stay as they were.
      const current = new Map(
        [...values].map(([key, { data }]) => [key, parameters.get(slotName('parameter', key)) ?? data]),
      );
      await saveDrafter({ from: start.folder, to: join(folder, name), values: current });
    };
    const ended = await trainSteps(
      {
        ...{ pair, trainer, settings, plan: texts.plan, validation: texts.validation, signal },
        onLine(line) {
          log.add(line);
          events.onLine?.(line);
        },
        keepBest: () => keep('best'),
        async save(now) {
          log.sync();
          await saveState(stateFile, { progress: now, values: await trainer.buffers.read() });
          progress = now;
        },
      },
      progress,
    );
    await keep('last');
    if (texts.validation.length === 0) await keep('best');
    if (ended === 'interrupted') return { status: 'interrupted', folder };
    const made = { request, texts, start, ended, progress, parameterCount, log: log.lines };
    const result = describeResult(made);
    writeAtomically(join(folder, 'result.json'), `${JSON.stringify(result, null, 1)}\n`, 'train');
    return { status: 'complete', folder, result };
  } finally {
    await trainer.dispose();
  }
}

interface Made {
  readonly request: TrainRequest;
  readonly texts: TrainingTexts;
  readonly start: TrainingStart;
  readonly ended: TrainingEnd;
  readonly progress: TrainingProgress;
  readonly parameterCount: number;
  readonly log: readonly LogLine[];
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
