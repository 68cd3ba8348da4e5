/**
 * What the runs of `train` and `harden` share: a folder with config.json, from which everything follows, the runtime,
 * the target and its answers. Killed at any moment and resumed, a run ends with the same result.
 */
import { join } from 'node:path';
import type * as z from '../core/schema.js';
import type { CacheOptions } from '../checkpoint/cache/weight-cache.js';
import { MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/files.js';
import { type Target, openTarget } from '../decode/target.js';
import type { ReadingOptions } from '../draft/draft-system.js';
import { requireGraph } from '../draft/reading/checks.js';
import { loadDrafter } from '../draft/systems.js';
import { asSaved, openTrainingRun, withResumption } from '../runs/resumed-run.js';
import { findSameDevice, requireSameKind } from '../runs/run-device.js';
import { type OpenedRun, type RunPlace, createRun, refuseUsedFolder } from '../runs/run-place.js';
import { writeAtomically } from '../runs/run-writes.js';
import { openRuntime } from '../runtime/create-runtime.js';
import type { Runtime } from '../runtime/program.js';
import { answersFile, takeAnswers } from './data/answers-file.js';
import { type AnswersProgress, answerConversations, refuseUnanswered } from './data/answers.js';
import { planBatches } from './data/batches.js';
import { type Conversation, readConversations } from './data/conversations.js';
import {
  countTokens,
  createExamples,
  learnAll,
  refuseUnknownTokens,
  splitExamples,
} from './data/examples.js';
import type { TrainSettings } from './settings.js';
import type { TrainRequest } from './train-request.js';

type SharedRequest = Omit<TrainRequest, 'schema' | 'system' | 'shape' | 'settings'>;

export interface RunEvents<Request> {
  readonly onNotice?: ((text: string) => void) | undefined;
  onOpen?(run: { readonly folder: string; readonly request: Request }): void;
  readonly onAnswers?: ((progress: AnswersProgress) => void) | undefined;
}

export interface RunOptions<Events> {
  readonly events?: Events | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly cacheFolder?: string | undefined;
  readonly verifyCache?: boolean | undefined;
  /** Left open; by default the run creates its own. */
  readonly runtime?: Runtime | undefined;
}

export interface ReadyRun<Request> {
  readonly runtime: Runtime;
  readonly request: Request;
  readonly target: Target;
  readonly conversations: readonly Conversation[];
  readonly cache: CacheOptions & ReadingOptions;
}

export interface Interruption {
  readonly status: 'interrupted';
  readonly folder: string;
}

type Opened<Request> = RunOptions<RunEvents<Request>>;

interface RunKind<Request, Options, Outcome> {
  readonly command: 'train' | 'harden';
  readonly schema: z.ZodType<Request>;
  readonly settingsOf: (request: Request) => TrainSettings;
  /** Refuses what the target cannot be used for, before there is a folder. */
  readonly check?: ((ready: ReadyRun<Request>) => void) | undefined;
  readonly work: (folder: string, ready: ReadyRun<Request>, options: Options) => Promise<Outcome | undefined>;
}

export function defineRuns<Request extends SharedRequest, Options extends Opened<Request>, Outcome>(
  kind: RunKind<Request, Options, Outcome>,
) {
  const { command, schema } = kind;
  return {
    start: async (
      place: RunPlace,
      request: Request,
      options = {} as Options,
    ): Promise<Outcome | Interruption> => {
      if (typeof place === 'string') refuseUsedFolder(place, command);
      const saved = asSaved(schema, request);
      const create = () => createRun(place, `${JSON.stringify(saved, null, 1)}\n`, command);
      return execute(kind, create, saved, options);
    },
    resume: async (folder: string, options = {} as Options): Promise<Outcome | Interruption> => {
      const { cacheFolder } = options;
      const { request, open } = await openTrainingRun(folder, { command, schema, cacheFolder });
      return execute(kind, open, request, options);
    },
  };
}

async function execute<Request extends SharedRequest, Options extends Opened<Request>, Outcome>(
  kind: RunKind<Request, Options, Outcome>,
  open: () => OpenedRun,
  request: Request,
  options: Options,
): Promise<Outcome | Interruption> {
  const { signal } = options;
  if (options.runtime !== undefined) requireSameKind(request, options.runtime);
  const runtime = options.runtime ?? (await openRuntime(await findSameDevice(request), request.threads));
  try {
    const ready = await prepare(runtime, request, kind.settingsOf(request), options);
    kind.check?.(ready);
    const { path: folder, lock } = open();
    try {
      options.events?.onOpen?.({ folder, request });
      return (await kind.work(folder, ready, options)) ?? { status: 'interrupted', folder };
    } catch (failure) {
      if (signal?.aborted === true && failure === signal.reason) return { status: 'interrupted', folder };
      throw explainResumption(folder, kind.command, failure);
    } finally {
      lock.release();
    }
  } finally {
    if (options.runtime === undefined) await runtime.dispose();
  }
}

/** Rounds and audits have folders of their own, but only the whole run can be resumed. */
export function explainResumption(folder: string, command: 'train' | 'harden', failure: unknown): unknown {
  if (!(failure instanceof MistletoeError)) return failure;
  const { code, message, hint = '', cause } = failure;
  const inner = /mistletoe (audit|train|harden) --resume \S.*$/s;
  if (!inner.test(hint)) return withResumption(folder, command, failure);
  const whole = hint.replace(inner, `mistletoe ${command} --resume ${quoteWord(folder)}`);
  return new MistletoeError(code, message, { hint: whole, cause });
}

/** Loads and checks everything before hours of generation. */
async function prepare<Request extends SharedRequest>(
  runtime: Runtime,
  request: Request,
  { generate }: TrainSettings,
  { events, cacheFolder, verifyCache }: Opened<Request>,
): Promise<ReadyRun<Request>> {
  const { targetFolder, from, data, limit, chatTemplate, date } = request;
  const cache = { onNotice: events?.onNotice, cacheFolder, verifyCache, taps: from?.taps };
  const conversations = (await readConversations(data.file)).slice(0, limit);
  if (!generate) refuseUnanswered(conversations);
  const target = await openTarget(targetFolder, { runtime, chatTemplate, date, ...cache });
  const { model, tokenizer } = target;
  if (from !== undefined)
    requireGraph(await loadDrafter(from.folder, { target: model, tokenizer, ...cache }));
  return { runtime, request, target, conversations, cache };
}

export function writeResult(folder: string, command: 'train' | 'harden', result: object): void {
  writeAtomically(join(folder, 'result.json'), `${JSON.stringify(result, null, 1)}\n`, command);
}

export type TrainingTexts = NonNullable<Awaited<ReturnType<typeof readTexts>>>;

/** Undefined if interrupted; answers so far are kept. */
export async function readTexts<Request extends SharedRequest>(
  folder: string,
  command: 'train' | 'harden',
  { request, target, conversations }: ReadyRun<Request>,
  settings: TrainSettings,
  { events, signal }: Opened<Request>,
) {
  if (request.answers !== undefined) takeAnswers(request.answers, folder, command);
  const { maxNewTokens, temperature, generate, seed, maxTokens } = settings;
  const file = join(folder, answersFile);
  const answers = await answerConversations({
    target,
    conversations,
    maxNewTokens,
    generate,
    seed,
    signal,
    file,
    sampling: { temperature },
    onProgress: events?.onAnswers,
  });
  if (answers.interrupted) return undefined;
  const { examples, counts } = createExamples(answers.conversations, { maxTokens });
  refuseUnknownTokens(examples, target.model.configuration.vocabularySize, file);
  const { training, validation } = splitExamples(examples, { validation: settings.validation, seed });
  const heldOut = validation.slice(0, settings.validationTexts);
  const learnt = settings.learn === 'all' ? training.map(learnAll) : training;
  const heldOutPlan = heldOut.length === 0 ? undefined : planBatches(heldOut, settings);
  const heldOutSteps = Array.from({ length: heldOutPlan?.batchesPerEpoch ?? 0 }, (_, step) => step);
  return {
    conversations: conversations.length,
    cutConversations: answers.cutCount,
    training,
    trainingCounts: { ...counts, ...countTokens(learnt) },
    heldOutCounts: { ...countTokens(heldOut), cut: 0, withoutLearnt: 0 },
    plan: planBatches(learnt, settings),
    validation: heldOutSteps.map((step) => heldOutPlan!.batchAt(step)),
  };
}
