/**
 * A training run is a folder: config.json, answers.jsonl (the target's answers), start/ (fresh weights, if any),
 * state.safetensors (to resume from), log.jsonl (losses and lengths), best/ and last/ (drafters), and result.json.
 */
import { MistletoeError } from '../core/errors.js';
import { findTrainable } from '../draft/systems.js';
import { describeMachine } from '../runs/run-device.js';
import { nameDevice } from '../runtime/device-choice.js';
import { type TrainedDrafter, trainDrafter } from './loop/train-drafter.js';
import type { LengthLine, LogLine, UpdateLine } from './loop/training-state.js';
import { type TrainRequest, requestSchema } from './train-request.js';
import type { Interruption, ReadyRun, RunEvents, RunOptions, TrainingTexts } from './training-run.js';
import { defineRuns, readTexts, writeResult } from './training-run.js';
import { type TrainingStart, prepareStart, prepareWithVocabulary } from './training-start.js';

export const resultVersion = 'mistletoe-training/1';

export type MeasuredLengths = NonNullable<ReturnType<typeof findLengths>>;

export function findLengths(log: readonly LogLine[]) {
  const lengths = log.filter((line): line is LengthLine => line.kind === 'length');
  const [first] = lengths;
  if (first === undefined) return undefined;
  const best = lengths.reduce((left, right) => (right.length > left.length ? right : left));
  return { first, best, last: lengths.at(-1)! };
}

/**
 * [level] Mean cross-entropy in nats over the rows that count for it, in the first and the last tenth of the updates; NaN
 * without rows. Deeper levels have fewer rows: drafts end with their
 * text, and only tokens of the draft vocabulary count.
 */
export function summariseLevels(log: readonly LogLine[]) {
  const updates = log.filter((line): line is UpdateLine => line.kind === 'update');
  const tenth = Math.ceil(updates.length / 10);
  const depth = updates[0]?.levels.length ?? 0;
  return Array.from({ length: depth }, (_, level) => ({
    first: meanOf(updates.slice(0, tenth), level),
    last: meanOf(updates.slice(-tenth), level),
    rows: countRows(updates, level),
  }));
}

const countRows = (updates: readonly UpdateLine[], level: number): number =>
  updates.reduce((sum, { levelRows }) => sum + levelRows[level]!, 0);

function meanOf(updates: readonly UpdateLine[], level: number): number {
  const total = updates.reduce((sum, line) => sum + line.levels[level]! * line.levelRows[level]!, 0);
  return total / countRows(updates, level);
}

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
});

/** `place`: a folder, or the next free number of a name. A request that is refused leaves no folder. */
export const startTraining = runs.start;

/** Resumes with the saved request. Refuses another version or device, and changed models or data. */
export const resumeTraining = runs.resume;

function refuseUnfit({
  request: { system, from, shape, targetFolder },
  target,
}: ReadyRun<TrainRequest>): void {
  const { configuration } = target.model;
  const { vocabularySize } = configuration;
  const { draftVocabulary = 1 } = shape;
  if (draftVocabulary > vocabularySize)
    throw new MistletoeError(
      'usage',
      `A draft vocabulary of ${draftVocabulary} tokens was asked for; the target in ${targetFolder} has ${vocabularySize}.`,
      { hint: 'Ask for fewer, or leave it out: half of them are usual.' },
    );
  if (from === undefined)
    findTrainable(system)?.training.checkTarget?.({ folder: targetFolder, configuration }, shape);
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
  const start = early ?? (await prepareWithVocabulary(folder, target, request, texts, events.onNotice));
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

export type TrainingResult = Readonly<ReturnType<typeof describeResult>>;

function describeResult(
  request: TrainRequest,
  texts: TrainingTexts,
  start: TrainingStart,
  { ended, progress, parameterCount, log }: TrainedDrafter,
) {
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
    /** Before the first update, at the best and at the last measurement on held-out texts. */
    lengths: findLengths(log),
    log,
    /** Over all starts, training only. */
    elapsedMs: progress.elapsedMs,
    device: nameDevice(device),
    machine: describeMachine(device),
  } as const;
}
