/**
 * The request of a training run, as its config.json stores it. Models and data have hashes, so a run never resumes
 * with others.
 */
import { resolve } from 'node:path';
import * as z from '../core/schema.js';
import { identifyModel, identitySchema, readVersion } from '../runs/identity.js';
import { chooseRunDevice, chooseThreads, deviceSchema, threadsSchema } from '../runs/run-device.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { MistletoeError } from '../core/errors.js';
import { bundledTarget } from '../core/package-files.js';
import { findDrafter } from '../decode/find-drafter.js';
import { settleDevice } from '../decode/gpu-fit.js';
import type { DrafterShape, TapConvention } from '../draft/draft-system.js';
import { defaultHeads, drafterSizes, tapConventions } from '../draft/draft-system.js';
import { foldersOf, recogniseCheckpoint, trainableSystems } from '../draft/systems.js';
import { type DeviceWish, recordDevice } from '../runtime/device-choice.js';
import { readTemplate } from '../text/template/chat-template.js';
import { hashData } from '../runs/json-lines.js';
import { partialSchemaOf } from '../audit/settings.js';
import { chooseTrainable } from '../draft/fresh/new-drafter.js';
import { type TrainSettings, completeSettings, defaultSettings, settingsSchema } from './settings.js';
import { settleAnswers } from './data/answers-file.js';

const count = z.int().positive();

export const startSchema = identitySchema.extend({
  folder: z.string(),
  taps: z.enum(tapConventions).exactOptional(),
});

/** What the requests of `train` and `harden` have alike. */
export const sharedFields = {
  version: z.string(),
  node: z.string(),
  targetFolder: z.string(),
  target: identitySchema,
  system: z.enum(trainableSystems),
  data: z.strictObject({ file: z.string(), sha256: z.string() }),
  answers: z.string().exactOptional(),
  /** The text itself: the file it was read from may change. */
  chatTemplate: z
    .strictObject({ source: z.string(), origin: z.string(), addSpecialTokens: z.boolean().exactOptional() })
    .exactOptional(),
  date: z.iso.date(),
  threads: threadsSchema,
  device: deviceSchema,
};

export const requestSchema = z.strictObject({
  schema: z.literal('mistletoe.training-run/1'),
  ...sharedFields,
  from: startSchema.exactOptional(),
  shape: partialSchemaOf(drafterSizes),
  limit: count.exactOptional(),
  settings: settingsSchema,
});
export type TrainRequest = Readonly<z.infer<typeof requestSchema>>;

/** What `train` and `harden` are given alike. */
export interface SharedPlan extends DeviceWish {
  readonly target?: string | undefined;
  /** Meaning of an EAGLE-3 head's layer ids; by default that of its trainer. */
  readonly taps?: TapConvention | undefined;
  /** JSON lines of conversations (conversations.ts). */
  readonly data: string;
  /** Folder of an earlier run whose answers are reused. */
  readonly answers?: string | undefined;
  /** A built-in name or a file; by default the target's own. */
  readonly chatTemplate?: string | undefined;
  /** YYYY-MM-DD for chat templates; default today. */
  readonly date?: string | undefined;
  /** CPU threads of each process; default: the cores, divided by `workers`. */
  readonly threads?: number | undefined;
  /** Processes that will share the cores; default 1. */
  readonly workers?: number | undefined;
  readonly cacheFolder?: string | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
}

export interface TrainPlan extends SharedPlan {
  readonly system?: string | undefined;
  /** Folder or bundled name of a drafter to continue; without it, fresh weights. */
  readonly from?: string | undefined;
  readonly shape?: DrafterShape | undefined;
  readonly limit?: number | undefined;
  readonly settings?: Partial<TrainSettings> | undefined;
}

/**
 * @example
 * const request = await createTrainRequest({ system: 'eagle3', data: 'questions.jsonl', settings: { steps: 500 } });
 * const outcome = await startTraining('runs/eagle3', request);
 */
export async function createTrainRequest(plan: TrainPlan): Promise<TrainRequest> {
  const { shape = {} } = plan;
  const steps = plan.settings?.steps;
  const from = plan.from === undefined ? undefined : findStart(plan.from);
  const { system, heads } = from === undefined ? chooseSystem(plan) : await describeStart(from, plan);
  const maximumDepth = heads ?? Infinity;
  const defaults = defaultSettings({ system, maximumDepth });
  const settings = completeSettings({
    ...defaults,
    // A short run must reach its peak too.
    ...(steps === undefined ? {} : { warmupSteps: Math.ceil(steps / 20) }),
    ...plan.settings,
  });
  refuseDeepDrafts(settings, maximumDepth);
  if (settings.confidenceWeight > 0 && defaults.confidenceWeight === 0)
    throw new MistletoeError(
      'usage',
      `--confidence-weight ${settings.confidenceWeight} was given, but a drafter of the system ${system} has no confidence head.`,
      { hint: 'Leave it out, or train with --system dspark.' },
    );
  return {
    schema: 'mistletoe.training-run/1',
    ...(await describeShared(plan, from)),
    system,
    shape,
    ...(from === undefined ? {} : { from: await describeFrom(from, plan) }),
    ...(plan.limit === undefined ? {} : { limit: plan.limit }),
    settings,
  };
}

export function refuseDeepDrafts({ depth, chain }: TrainSettings, maximumDepth: number): void {
  const deepest = Math.max(depth, chain);
  if (deepest <= maximumDepth) return;
  throw new MistletoeError(
    'usage',
    `The drafter has ${maximumDepth} heads; drafts of ${deepest} tokens were asked for.`,
    { hint: 'Lower --depth and --chain, or make a drafter with more --heads.' },
  );
}

/** Identifies target and data, and settles on a device. `from`: the drafter that is trained further, if any. */
export async function describeShared(
  plan: SharedPlan,
  from: string | undefined,
): Promise<Omit<TrainRequest, 'schema' | 'system' | 'shape' | 'from' | 'limit' | 'settings'>> {
  const targetFolder = resolve(plan.target ?? bundledTarget);
  const folders = [targetFolder, ...(from === undefined ? [] : [from])];
  const device = await settleDevice(await chooseRunDevice(plan), folders, plan.onNotice);
  const target = await identifyModel(targetFolder, plan.cacheFolder);
  const template =
    plan.chatTemplate === undefined
      ? {}
      : { chatTemplate: sharedFields.chatTemplate.parse(await readTemplate(plan.chatTemplate)) };
  return {
    version: readVersion(),
    node: process.version,
    targetFolder,
    target,
    data: { file: resolve(plan.data), sha256: await hashData(plan.data) },
    ...settleAnswers(plan, { target, ...template }),
    ...template,
    device: recordDevice(device),
    threads: chooseThreads(plan, device),
  };
}

interface DescribedStart {
  readonly system: string;
  readonly heads: number | undefined;
}

function chooseSystem({ system, shape = {} }: TrainPlan): DescribedStart {
  const { name, training } = chooseTrainable(system, shape);
  return {
    system: name,
    heads: training.sizes.includes('heads') ? (shape.heads ?? training.heads ?? defaultHeads) : undefined,
  };
}

export function findStart(given: string): string {
  const [folder] = foldersOf(given);
  if (folder === given) return resolve(findDrafter(given));
  if (folder !== undefined) {
    throw new MistletoeError('usage', `${given} names several drafters; one is trained at a time.`, {
      hint: `Name a drafter alone: ${folder}.`,
    });
  }
  throw new MistletoeError('usage', `${given} has no weights: there is nothing to train.`, {
    hint: 'Give the folder of a drafter, or name a system to begin with fresh weights.',
  });
}

export async function describeFrom(
  folder: string,
  { cacheFolder, taps }: Pick<TrainPlan, 'cacheFolder' | 'taps'>,
): Promise<z.infer<typeof startSchema>> {
  return { ...(await identifyModel(folder, cacheFolder)), folder, ...(taps === undefined ? {} : { taps }) };
}

export async function describeStart(
  folder: string,
  plan: Pick<TrainPlan, 'system' | 'shape' | 'taps'>,
): Promise<DescribedStart> {
  const checkpoint = await openCheckpoint(folder);
  const { system } = recogniseCheckpoint(checkpoint);
  if (system?.training === undefined) {
    throw new MistletoeError('drafter', `${folder} holds no drafter that can be trained.`, {
      hint: '`mistletoe inspect` shows what it holds.',
    });
  }
  if (plan.system !== undefined && plan.system !== system.name) {
    throw new MistletoeError('usage', `${folder} holds ${system.title}; "${plan.system}" was asked for.`, {
      hint: 'Leave the system out to continue a drafter.',
    });
  }
  if (Object.keys(plan.shape ?? {}).length > 0) {
    throw new MistletoeError('usage', 'A drafter that is continued keeps its sizes.', {
      hint: 'Leave them out, or begin with fresh weights.',
    });
  }
  const reading = plan.taps === undefined ? {} : { taps: plan.taps };
  return { system: system.name, heads: system.describe(checkpoint, reading).facts.heads };
}
