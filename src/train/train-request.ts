/**
 * What a training run is asked to do, as it is kept in its run.json: a resumed run reads this and nothing else. Models
 * and data are named with their hashes, so that a run never goes on with others than it began with.
 */
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { z } from 'zod';
import { identifyModel, identitySchema, readVersion } from '../runs/identity.js';
import { deviceSchema } from '../runs/run-device.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { MistletoeError } from '../core/errors.js';
import { maxThreads } from '../core/limits.js';
import { bundledTarget } from '../decode/bundled-models.js';
import { findDrafter } from '../decode/find-drafter.js';
import { settleDevice } from '../decode/gpu-fit.js';
import type { TapConvention } from '../draft/draft-system.js';
import { refuseAtOnce, tapConventions } from '../draft/draft-system.js';
import { parseHybrid } from '../draft/hybrid/hybrid.js';
import { findWeightless, recogniseCheckpoint } from '../draft/systems.js';
import type { DeviceWish } from '../runtime/device-choice.js';
import { chooseDevice, recordDevice } from '../runtime/device-choice.js';
import { readTemplate } from '../text/template/chat-template.js';
import { hashData } from '../runs/json-lines.js';
import type { TrainableSystem } from './systems/new-drafter.js';
import { trainableSystems } from './systems/new-drafter.js';
import type { TrainSettings } from './settings.js';
import { completeSettings, defaultSettings, settingsSchema } from './settings.js';
import { settleAnswers } from './data/taken-answers.js';

const count = z.int().positive();

/** Sizes of a drafter that begins with fresh weights; what is not given follows from the target. */
export const shapeSchema = z.strictObject({
  /** Of Medusa and Hydra. */
  heads: count.exactOptional(),
  /** Of a draft model, or blocks of a head. */
  layers: count.exactOptional(),
  /** Width of a draft model. */
  hiddenSize: count.exactOptional(),
  /** A draft model made of so many of the target's own layers, and of its sizes. */
  targetLayers: count.exactOptional(),
  /** Tokens that EAGLE-3 can propose. */
  draftVocabulary: count.exactOptional(),
  /** Hydra++: a layer of its own before the heads. */
  prefixLayer: z.boolean().exactOptional(),
});
export type DrafterShape = z.infer<typeof shapeSchema>;

/** A drafter to go on from, and what its layer ids mean where that was given. */
export const startSchema = identitySchema.extend({
  folder: z.string(),
  taps: z.enum(tapConventions).exactOptional(),
});

export const requestSchema = z.strictObject({
  schema: z.literal('mistletoe.training-run/1'),
  version: z.string(),
  node: z.string(),
  targetFolder: z.string(),
  target: identitySchema,
  system: z.enum(trainableSystems),
  /** The drafter to go on from. */
  from: startSchema.exactOptional(),
  /** Of fresh weights, where there is none. */
  shape: shapeSchema,
  data: z.strictObject({ file: z.string(), sha256: z.string() }),
  /** Conversations that are used, from the beginning of the data; all of them unless given. */
  limit: count.exactOptional(),
  /** The folder of an earlier run whose answers are taken. */
  answers: z.string().exactOptional(),
  settings: settingsSchema,
  /** In place of the template in the target's folder, word for word: the file it was read from may change. */
  chatTemplate: z
    .strictObject({ source: z.string(), origin: z.string(), addSpecialTokens: z.boolean().exactOptional() })
    .exactOptional(),
  /** What a chat template that asks for the date is told. */
  date: z.iso.date(),
  threads: count,
  device: deviceSchema,
});
export type TrainRequest = Readonly<z.infer<typeof requestSchema>>;

export interface TrainPlan extends DeviceWish {
  /** Folder of the target; the bundled one by default. */
  readonly target?: string | undefined;
  /** What to make; told by the drafter where one is gone on from. */
  readonly system?: string | undefined;
  /** Folder or bundled name of a drafter to go on from; fresh weights without it. */
  readonly from?: string | undefined;
  /** What the layer ids of an EAGLE-3 head to go on from mean; by default what its trainer means by them. */
  readonly taps?: TapConvention | undefined;
  readonly shape?: DrafterShape | undefined;
  /** JSON lines of conversations (conversations.ts). */
  readonly data: string;
  /** Only the first conversations of the data; default all. */
  readonly limit?: number | undefined;
  /** Folder of an earlier run whose answers are taken, where it asked the same questions. */
  readonly answers?: string | undefined;
  /** In place of the target's own: a built-in name or a file. */
  readonly chatTemplate?: string | undefined;
  /** YYYY-MM-DD, what a template that asks for the date is told; default today. */
  readonly date?: string | undefined;
  readonly settings?: Partial<TrainSettings> | undefined;
  readonly threads?: number | undefined;
  readonly cacheFolder?: string | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
}

/**
 * @example
 * const request = await createTrainRequest({ system: 'eagle3', data: 'questions.jsonl', settings: { steps: 500 } });
 * const outcome = await startTraining('runs/eagle3', request);
 */
export async function createTrainRequest(plan: TrainPlan): Promise<TrainRequest> {
  const { shape = {}, cacheFolder } = plan;
  const from = plan.from === undefined ? undefined : findStart(plan.from);
  const { system, heads } = from === undefined ? chooseSystem(plan) : await describeStart(from, plan);
  const maximumDepth = heads ?? Infinity;
  const settings = completeSettings({
    ...{ ...defaultSettings({ system, maximumDepth }), ...warmupOf(plan.settings?.steps), ...plan.settings },
  });
  if (settings.depth > maximumDepth || settings.chain > maximumDepth) {
    throw new MistletoeError(
      'usage',
      `The drafter has ${maximumDepth} heads; drafts of ${Math.max(settings.depth, settings.chain)} tokens were asked for.`,
      { hint: 'Lower --depth and --chain, or make a drafter with more --heads.' },
    );
  }
  const targetFolder = resolve(plan.target ?? bundledTarget);
  const folders = [targetFolder, ...(from === undefined ? [] : [from])];
  const device = await settleDevice(await chooseDevice(plan), folders, plan.onNotice);
  const target = await identifyModel(targetFolder, cacheFolder);
  const template =
    plan.chatTemplate === undefined ? {} : { chatTemplate: await pinTemplate(plan.chatTemplate) };
  return {
    ...{ schema: 'mistletoe.training-run/1', version: readVersion(), node: process.version },
    ...{ targetFolder, target, system, shape },
    ...(from === undefined ? {} : { from: await describeFrom(from, plan) }),
    data: { file: resolve(plan.data), sha256: await hashData(plan.data) },
    ...(plan.limit === undefined ? {} : { limit: plan.limit }),
    ...settleAnswers(plan, { target, ...template }),
    ...{ ...template, settings, device: recordDevice(device) },
    threads: plan.threads ?? Math.min(availableParallelism(), maxThreads),
  };
}

async function pinTemplate(given: string): Promise<NonNullable<TrainRequest['chatTemplate']>> {
  const { source, origin, addSpecialTokens } = await readTemplate(given);
  return { source, origin, ...(addSpecialTokens === undefined ? {} : { addSpecialTokens }) };
}

/** A short run must reach its peak, too. */
function warmupOf(steps: number | undefined): Partial<TrainSettings> {
  return steps === undefined ? {} : { warmupSteps: Math.ceil(steps / 20) };
}

interface DescribedStart {
  readonly system: TrainableSystem;
  readonly heads: number | undefined;
}

const usualHeads = 4;

/** Sizes that a fresh drafter of a system can be given. */
const ownSizes: Readonly<Record<TrainableSystem, readonly (keyof DrafterShape)[]>> = {
  'speculative-sampling': ['layers', 'hiddenSize', 'targetLayers'],
  medusa: ['heads', 'layers'],
  hydra: ['heads', 'layers', 'prefixLayer'],
  eagle: [],
  eagle3: ['draftVocabulary'],
};

function refuseForeignSizes(system: TrainableSystem, shape: DrafterShape): void {
  const own = ownSizes[system];
  const foreign = (Object.keys(shape) as (keyof DrafterShape)[]).find((name) => !own.includes(name));
  if (foreign === undefined) return;
  const taken = own.length === 0 ? 'it takes no sizes' : `it takes ${own.join(', ')}`;
  throw new MistletoeError('usage', `A drafter of ${system} has no size "${foreign}": ${taken}.`, {
    hint: 'Leave it out, or choose another system.',
  });
}

function refuseTwoSizes({ targetLayers, layers, hiddenSize }: DrafterShape): void {
  if (targetLayers === undefined || (layers ?? hiddenSize) === undefined) return;
  throw new MistletoeError(
    'usage',
    `A draft model of ${targetLayers} of the target's layers has the target's sizes; ${layers === undefined ? `a width of ${hiddenSize}` : `${layers} layers`} cannot be had beside.`,
    { hint: 'Leave out --target-layers, or --layers and --hidden-size.' },
  );
}

function chooseSystem({ system, shape }: TrainPlan): DescribedStart {
  const found = trainableSystems.find((name) => name === system);
  if (found === undefined) {
    throw new MistletoeError(
      'usage',
      system === undefined
        ? 'There is nothing to train: neither a system nor a drafter to go on from was named.'
        : `No drafter of the system "${system}" can be trained.`,
      { hint: `Choose one of ${trainableSystems.join(', ')}.` },
    );
  }
  refuseForeignSizes(found, shape ?? {});
  refuseTwoSizes(shape ?? {});
  const hasHeads = found === 'medusa' || found === 'hydra';
  return { system: found, heads: hasHeads ? (shape?.heads ?? usualHeads) : undefined };
}

export function findStart(given: string): string {
  const hybrid = parseHybrid(given);
  if (hybrid !== undefined) {
    throw new MistletoeError('usage', `${given} begins with a lookup, which has nothing to train.`, {
      hint: `Name the drafter alone: ${hybrid.behind}.`,
    });
  }
  if (findWeightless(given) === undefined) return resolve(findDrafter(given));
  throw new MistletoeError('usage', `${given} has no weights: there is nothing to train.`, {
    hint: 'Give the folder of a drafter, or name a system to begin with fresh weights.',
  });
}

/** As runs keep it. */
export async function describeFrom(
  folder: string,
  { cacheFolder, taps }: Pick<TrainPlan, 'cacheFolder' | 'taps'>,
): Promise<z.infer<typeof startSchema>> {
  return {
    ...(await identifyModel(folder, cacheFolder)),
    folder,
    ...(taps === undefined ? {} : { taps }),
  };
}

export async function describeStart(
  folder: string,
  plan: Pick<TrainPlan, 'system' | 'shape' | 'taps'>,
): Promise<DescribedStart> {
  const checkpoint = await openCheckpoint(folder);
  const { system } = recogniseCheckpoint(checkpoint);
  const known = trainableSystems.find((name) => name === system?.name);
  if (system === undefined || known === undefined) {
    throw new MistletoeError('drafter', `${folder} holds no drafter that can be trained.`, {
      hint: '`mistletoe inspect` shows what it holds.',
    });
  }
  if (plan.system !== undefined && plan.system !== known) {
    throw new MistletoeError('usage', `${folder} holds ${system.title}; "${plan.system}" was asked for.`, {
      hint: 'Leave the system out where a drafter is gone on from.',
    });
  }
  if (Object.keys(plan.shape ?? {}).length > 0) {
    throw new MistletoeError(
      'usage',
      'Sizes are those of the drafter that is gone on from; others cannot be had.',
      {
        hint: 'Leave them out, or begin with fresh weights.',
      },
    );
  }
  const reading = plan.taps === undefined ? {} : { taps: plan.taps };
  return { system: known, heads: system.describe(checkpoint, refuseAtOnce, reading).facts.heads };
}
