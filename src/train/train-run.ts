/**
 * A training run is a folder: config.json, answers.jsonl (the target's answers), start/ (fresh weights, if any),
 * state.safetensors (to resume from), log.jsonl (losses and lengths), best/ and last/ (drafters), and result.json.
 */
import { MistletoeError } from '../core/errors.js';
import { describeMachine } from '../measure/machine.js';
import { withResumption } from '../runs/resumed-run.js';
import { nameDevice } from '../runtime/device-choice.js';
import type { Interruption, ReadyRun, RunEvents, RunOptions, TrainingTexts } from './training-run.js';
import type { TrainedDrafter } from './loop/train-drafter.js';
import { trainDrafter } from './loop/train-drafter.js';
import type { LogLine } from './loop/training-state.js';
import { refuseWholeTarget } from '../draft/draft-model/new-draft-model.js';
import { refuseShallowTarget } from '../draft/eagle/new-eagle.js';
import type { TrainingStart } from './training-start.js';
import { prepareEagle3, prepareStart } from './training-start.js';
import type { TrainRequest } from './train-request.js';
import { requestSchema } from './train-request.js';
import type { TrainingResult } from './training-result.js';
import { findLengths, resultVersion } from './training-result.js';
import { defineRuns, readTexts, writeResult } from './training-run.js';

export interface TrainEvents extends RunEvents<TrainRequest> {
  readonly onStart?: ((start: StartedTraining) => void) | undefined;
  readonly onLine?: ((line: LogLine) => void) | undefined;
}

export interface StartedTraining {
  readonly request: TrainRequest;
  readonly texts: TrainingTexts;
  readonly parameterCount: number;
  readonly update: number;
}

export type TrainOptions = RunOptions<TrainEvents>;

interface FinishedTraining {
  readonly status: 'complete';
  readonly folder: string;
  readonly result: TrainingResult;
}

export type TrainOutcome = FinishedTraining | Interruption;

const runs = defineRuns<TrainRequest, TrainOptions, FinishedTraining>({
  command: 'train',
  schema: requestSchema,
  settingsOf: ({ settings }) => settings,
  check: refuseUnfit,
  work: trainIn,
  explain: (folder, failure) => withResumption(folder, 'train', failure),
});

/** `place`: a folder, or the next free number of a name. A request that is refused leaves no folder. */
export const startTraining = runs.start;

/** Resumes with the saved request. Refuses another version or device, and changed models or data. */
export const resumeTraining = runs.resume;

function refuseUnfit({
  request: { system, from, shape, targetFolder },
  target,
}: ReadyRun<TrainRequest>): void {
  const { layerCount, vocabularySize } = target.model.configuration;
  const { draftVocabulary = 1, targetLayers = 0 } = shape;
  if (draftVocabulary > vocabularySize)
    throw new MistletoeError(
      'usage',
      `A draft vocabulary of ${draftVocabulary} tokens was asked for; the target in ${targetFolder} has ${vocabularySize}.`,
      { hint: 'Ask for fewer, or leave it out: half of them are usual.' },
    );
  refuseWholeTarget(targetLayers, layerCount);
  if (system === 'eagle3' && from === undefined) refuseShallowTarget(targetFolder, layerCount);
}

async function trainIn(
  folder: string,
  ready: ReadyRun<TrainRequest>,
  options: TrainOptions,
): Promise<FinishedTraining | undefined> {
  const { request, target, cache } = ready;
  const { events = {}, signal } = options;
  const { settings } = request;
  // Created first if possible, so that invalid sizes are refused at once.
  const early = await prepareStart(folder, request);
  const texts = await readTexts(folder, 'train', ready, settings, options);
  if (texts === undefined) return undefined;
  const start = early ?? (await prepareEagle3(folder, target, request, texts, events.onNotice));
  const { plan, validation } = texts;
  const trained = await trainDrafter({
    target,
    start: start.folder,
    settings,
    folder,
    cache,
    signal,
    plan,
    validation,
    onLine: events.onLine,
    onStart: (started) => events.onStart?.({ request, texts, ...started }),
  });
  if (trained.ended === 'interrupted') return undefined;
  const result = describeResult(request, texts, start, trained);
  writeResult(folder, 'train', result);
  return { status: 'complete', folder, result };
}

function describeResult(
  request: TrainRequest,
  texts: TrainingTexts,
  start: TrainingStart,
  { ended, progress, parameterCount, log }: TrainedDrafter,
): TrainingResult {
  const { version, target, system, from, settings, device, data } = request;
  const { conversations, cutConversations, trainingCounts, heldOutCounts } = texts;
  const { batchesPerEpoch, paddingShare } = texts.plan;
  return {
    schema: resultVersion,
    version,
    target,
    system,
    from,
    parameterCount,
    settings,
    ended,
    targetLayers: request.shape.targetLayers,
    data: {
      ...data,
      conversations,
      cutConversations,
      training: trainingCounts,
      heldOut: heldOutCounts,
      batches: { batchesPerEpoch, paddingShare },
      draftVocabulary: start.draftVocabulary,
    },
    updates: progress.update,
    lengths: findLengths(log),
    log,
    elapsedMs: progress.elapsedMs,
    device: nameDevice(device),
    machine: describeMachine(device),
  };
}
