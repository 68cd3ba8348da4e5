/** What a hardening run is asked to do, as it is kept in its config.json. */
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { z } from 'zod';
import { readVersion } from '../audit/create-request.js';
import { identifyModel } from '../audit/identity.js';
import { deviceSchema } from '../audit/run-device.js';
import type { AuditSettings } from '../audit/settings.js';
import { applyPreset, settingsSchema as auditSettingsSchema } from '../audit/settings.js';
import { MistletoeError } from '../core/errors.js';
import { mostThreads } from '../core/limits.js';
import { bundledTarget } from '../decode/bundled-models.js';
import { settleDevice } from '../decode/gpu-room.js';
import type { DeviceWish } from '../runtime/device-choice.js';
import { chooseDevice, recordDevice } from '../runtime/device-choice.js';
import { today } from '../text/calendar-day.js';
import type { Prompt } from '../text/prompt-set.js';
import type { HardeningSettings } from './hardening-settings.js';
import { hardeningDefaults, hardeningSchema } from './hardening-settings.js';
import type { TrainSettings } from './settings.js';
import { completeSettings, defaultSettings, settingsSchema } from './settings.js';
import { trainableSystems } from './new-drafter.js';
import { describeStart, findStart, hashData, identitySchema } from './train-request.js';

const promptSchema = z.object({
  id: z.string(),
  category: z.string().optional(),
  text: z.string(),
  turns: z.array(z.string()),
  reference: z.string().optional(),
});

/** Audits of the end: `fresh` is always there. */
export const auditNames = ['fresh', 'other-objective', 'stronger'] as const;
export type HardeningAudit = (typeof auditNames)[number];

export const hardenRequestSchema = z.strictObject({
  schema: z.literal('mistletoe.hardening-run/1'),
  version: z.string(),
  node: z.string(),
  targetFolder: z.string(),
  target: identitySchema,
  system: z.enum(trainableSystems),
  from: identitySchema.extend({ folder: z.string() }),
  data: z.strictObject({ file: z.string(), sha256: z.string() }),
  training: settingsSchema,
  hardening: hardeningSchema,
  /** Also train on random suffixes, with equal effort, and audit that drafter beside the hardened one. */
  baseline: z.boolean(),
  audit: z.strictObject({
    prompts: z.array(promptSchema).min(1),
    settings: auditSettingsSchema,
    seed: z.int(),
    names: z.array(z.enum(auditNames)),
    /** Prompts of the stronger audit, which costs ten times as much. */
    strongerPrompts: z.int().positive(),
  }),
  date: z.iso.date(),
  threads: z.int().positive(),
  device: deviceSchema,
});
export type HardenRequest = Readonly<z.infer<typeof hardenRequestSchema>>;

export interface HardenPlan extends DeviceWish {
  readonly target?: string | undefined;
  /** Folder or bundled name of the drafter to harden. */
  readonly drafter: string;
  /** JSON lines of conversations; searches and training use these alone. */
  readonly data: string;
  readonly training?: Partial<TrainSettings> | undefined;
  readonly hardening?: Partial<HardeningSettings> | undefined;
  readonly baseline?: boolean | undefined;
  /** Prompts of the audits, none of which may be in the data. */
  readonly prompts: readonly Prompt[];
  readonly preset?: string | undefined;
  readonly audit?: Partial<AuditSettings> | undefined;
  readonly audits?: readonly HardeningAudit[] | undefined;
  readonly strongerPrompts?: number | undefined;
  readonly threads?: number | undefined;
  readonly cacheFolder?: string | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
}

/** Going on from trained weights wants a lower rate than beginning with fresh ones. */
const hardeningRate = 2e-4;
/** Far from the seeds that people begin with, and from those of the searches in training. */
const auditSeedOffset = 7919;

/**
 * @example
 * const request = await createHardenRequest({ drafter: 'eagle3', data: 'questions.jsonl', prompts });
 * const outcome = await startHardening('runs/eagle3-hardened', request);
 */
export async function createHardenRequest(plan: HardenPlan): Promise<HardenRequest> {
  const { baseline = true, audits = ['fresh'], strongerPrompts = 4, cacheFolder } = plan;
  const folder = findStart(plan.drafter);
  const { system, heads } = await describeStart(folder, {});
  const hardening = hardeningSchema.parse({ ...hardeningDefaults, ...plan.hardening });
  const usual = defaultSettings({ system, maximumDepth: heads ?? Infinity });
  const training = completeSettings({
    ...{ ...usual, rate: hardeningRate, seed: hardening.seed },
    ...{ warmupSteps: 20, validateEvery: 50, saveEvery: 50 },
    ...plan.training,
    steps: hardening.stepsPerRound,
  });
  const settings = applyPreset(plan.preset ?? 'standard', plan.audit ?? {});
  refuseSeen(settings, hardening);
  const targetFolder = resolve(plan.target ?? bundledTarget);
  const device = await settleDevice(await chooseDevice(plan), [targetFolder, folder], plan.onNotice);
  return {
    ...{ schema: 'mistletoe.hardening-run/1', version: readVersion(), node: process.version },
    ...{ targetFolder, target: await identifyModel(targetFolder, cacheFolder), system },
    from: { ...(await identifyModel(folder, cacheFolder)), folder },
    data: { file: resolve(plan.data), sha256: await hashData(plan.data) },
    ...{ training, hardening, baseline },
    audit: {
      ...{ prompts: [...plan.prompts].map((prompt) => ({ ...prompt, turns: [...prompt.turns] })), settings },
      ...{ seed: hardening.seed + auditSeedOffset, names: [...audits], strongerPrompts },
    },
    ...{ date: today(), device: recordDevice(device) },
    threads: plan.threads ?? Math.min(availableParallelism(), mostThreads),
  };
}

/** An audit of what training has seen would prove nothing. */
function refuseSeen({ suffixLength }: AuditSettings, { suffixLengths }: HardeningSettings): void {
  if (!suffixLengths.includes(suffixLength)) return;
  throw new MistletoeError(
    'usage',
    `The audit would search suffixes of ${suffixLength} tokens, a length that training searches too (${suffixLengths.join(', ')}).`,
    { hint: 'Choose another --suffix-length for the audit, or other --train-suffix-lengths.' },
  );
}
