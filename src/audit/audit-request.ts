/** The request of an audit, as saved in the run's config.json. A resumed run reads nothing else. */
import { resolve } from 'node:path';
import * as z from '../core/schema.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { shortenPath } from '../core/files.js';
import { MistletoeError } from '../core/errors.js';
import { bundledDrafterFolder, bundledTarget } from '../core/package-files.js';
import { findDrafter } from '../decode/find-drafter.js';
import { settleDevice } from '../decode/gpu-fit.js';
import { draftModel } from '../draft/draft-model/draft-model.js';
import { compareWithTarget } from '../draft/draft-model/vocabulary-match.js';
import { type TapConvention, tapConventions } from '../draft/draft-system.js';
import { foldersOf, mapFolders, nameDrafter, recogniseCheckpoint } from '../draft/systems.js';
import { type DraftPolicy, formatDraftPolicy, parseDraftPolicy } from '../draft/tree/policy.js';
import { identifyModel, identitySchema, readVersion } from '../runs/identity.js';
import { chooseRunDevice, chooseThreads, deviceSchema, threadsSchema } from '../runs/run-device.js';
import { type DeviceWish, recordDevice } from '../runtime/device-choice.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import type { GivenSuffix } from '../text/prompts/suffix-list.js';
import { parseDay, today } from '../text/template/calendar-day.js';
import { loadChatTemplate, readTemplate } from '../text/template/chat-template.js';
import { type AuditSettings, applyPreset, settingsSchema } from './settings.js';

export const promptSchema = z.object({
  id: z.string(),
  category: z.string().optional(),
  text: z.string(),
  turns: z.array(z.string()),
  reference: z.string().optional(),
});

export const requestSchema = z.object({
  schema: z.literal('mistletoe.audit-run/2'),
  version: z.string(),
  node: z.string(),
  preset: z.string(),
  settings: settingsSchema,
  seed: z.number(),
  /** CPU threads of each process: sums depend on them. */
  threads: threadsSchema,
  /** Device and dtype; absent in runs of versions that only had the CPU. */
  device: deviceSchema.optional(),
  targetFolder: z.string(),
  target: identitySchema,
  drafters: z
    .array(
      identitySchema.extend({ id: z.string(), system: z.string(), policy: z.string(), folder: z.string() }),
    )
    .min(1),
  /** What the layer ids of EAGLE-3 heads mean, if given. */
  taps: z.enum(tapConventions).exactOptional(),
  prompts: z.array(promptSchema).min(1),
  /** Suffixes to measure without a search; empty if the audit searches. */
  suffixes: z.array(
    z.object({
      text: z.string(),
      place: z.string(),
      promptId: z.string().optional(),
      drafterId: z.string().optional(),
      chosenOn: z.array(z.string()).readonly().optional(),
    }),
  ),
  /** Replaces the template in the target's folder. Saved in full, because the file may change. */
  chatTemplate: z
    .object({ source: z.string(), origin: z.string(), addSpecialTokens: z.boolean().optional() })
    .optional(),
  /** The date for templates that use it, the same after a resume; absent if the template does not use one. */
  date: z.iso.date().optional(),
  transfer: z.boolean(),
  universal: z.boolean(),
  command: z.string(),
});

/** Everything that decides the result. */
export type AuditRequest = Readonly<z.infer<typeof requestSchema>>;

export interface AuditPlan extends DeviceWish {
  readonly prompts: readonly Prompt[];
  /** Default: the bundled target. */
  readonly target?: string | undefined;
  /**
   * Folders, bundled names or systems without weights; default: the bundled EAGLE-3, with the bundled target.
   */
  readonly drafters?: readonly string[] | undefined;
  /** Meaning of EAGLE-3 heads' layer ids; by default that of their trainer. */
  readonly taps?: TapConvention | undefined;
  /** For all drafters; default chain:4, or as many levels as there are heads. */
  readonly draft?: string | undefined;
  readonly preset?: string | undefined;
  readonly settings?: Partial<AuditSettings> | undefined;
  readonly seed?: number | undefined;
  /** CPU threads of each process; default: the cores, divided by `workers`. */
  readonly threads?: number | undefined;
  /** Processes that will share the cores; default 1. */
  readonly workers?: number | undefined;
  readonly transfer?: boolean | undefined;
  readonly universal?: boolean | undefined;
  /** Measured instead of searching. */
  readonly suffixes?: readonly GivenSuffix[] | undefined;
  /** A built-in name or a file; by default the target's own. */
  readonly chatTemplate?: string | undefined;
  /** YYYY-MM-DD for chat templates; default today. */
  readonly date?: string | undefined;
  /** For the report. */
  readonly command?: string | undefined;
  readonly cacheFolder?: string | undefined;
  /** Maps a given model to its folder, after everything else was checked; default: identity. */
  readonly findModel?: ((given: string) => Promise<string>) | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
}

/**
 * @example
 * const request = await createRequest({ prompts: await loadPrompts('prompts.jsonl'), drafters: ['sps'], preset: 'quick' });
 * const outcome = await startAudit('runs/first', request);
 */
export async function createRequest(plan: AuditPlan): Promise<AuditRequest> {
  const { preset = 'standard', seed = 0, transfer = false, universal = false } = plan;
  const settings = applyPreset(preset, plan.settings ?? {});
  const { target: givenTarget = bundledTarget, findModel = (given) => Promise.resolve(given) } = plan;
  if (plan.prompts.length === 0) {
    throw new MistletoeError('usage', 'There is no prompt to audit.', { hint: 'Give at least one.' });
  }
  const sources = chooseDrafters(plan.drafters ?? [], givenTarget);
  const searches = (plan.suffixes ?? []).length === 0;
  if (!searches && (transfer || universal)) {
    throw new MistletoeError(
      'usage',
      'Given suffixes are measured, not searched for: there is nothing to transfer.',
      { hint: 'Leave --transfer and --universal out, or --suffix.' },
    );
  }
  if (transfer && sources.size < 2) {
    throw new MistletoeError('usage', 'A transfer matrix needs two drafters or more; one was given.', {
      hint: 'Give --drafter several times, or leave --transfer out.',
    });
  }
  const choice = await chooseRunDevice(plan);
  const drafters: AuditRequest['drafters'] = [];
  const targetFolder = resolve(await findModel(givenTarget));
  for (const [id, source] of sources) {
    const folder = await mapFolders(source, async (given) => resolve(await findModel(given)));
    const { system, heads, withoutGradient } = await describeDrafter(folder, targetFolder);
    if (searches && withoutGradient !== undefined && settings.search === 'gradient')
      throw refuseGradient(folder, withoutGradient);
    const policy = choosePolicy(plan.draft, heads);
    refuseDrawnTrees(policy, settings.temperature);
    drafters.push({ ...(await identifyModel(folder, plan.cacheFolder)), id, system, policy, folder });
  }
  const folders = [targetFolder, ...drafters.map(({ folder }) => folder)];
  const device = await settleDevice(choice, folders, plan.onNotice);
  return {
    schema: 'mistletoe.audit-run/2',
    version: readVersion(),
    node: process.version,
    preset,
    settings,
    seed,
    threads: chooseThreads(plan, device),
    device: recordDevice(device),
    targetFolder,
    target: await identifyModel(targetFolder, plan.cacheFolder),
    drafters,
    ...(plan.taps === undefined ? {} : { taps: plan.taps }),
    prompts: nameApart(plan.prompts),
    suffixes: (plan.suffixes ?? []).map((given) => ({ ...given, place: shortenPath(given.place) })),
    ...(settings.chat ? await pinTemplate(plan, targetFolder) : {}),
    transfer,
    universal,
    command: plan.command ?? '',
  };
}

/** Fixes the date and the template's text for the whole run. */
async function pinTemplate(
  plan: AuditPlan,
  targetFolder: string,
): Promise<Pick<AuditRequest, 'chatTemplate' | 'date'>> {
  const date = plan.date === undefined ? today() : parseDay(plan.date, '--date');
  const text = plan.chatTemplate === undefined ? undefined : await readTemplate(plan.chatTemplate);
  // Reports show the origin without private paths.
  const given = text === undefined ? {} : { chatTemplate: { ...text, origin: shortenPath(text.origin) } };
  const template = await loadChatTemplate(targetFolder, { ...given, date });
  return { ...given, ...(template?.asksForDate === true ? { date } : {}) };
}

/** Appends the first free number if the name is taken. */
function numberApart(name: string, taken: { has(name: string): boolean }): string {
  let id = name;
  for (let number = 2; taken.has(id); number++) id = `${name}-${number}`;
  return id;
}

/** Results are stored by prompt id, so duplicates are numbered. */
function nameApart(prompts: readonly Prompt[]): AuditRequest['prompts'] {
  const taken = new Set<string>();
  return prompts.map((prompt) => {
    const id = numberApart(prompt.id, taken);
    taken.add(id);
    return { ...prompt, id, turns: [...prompt.turns] };
  });
}

/** By folder name, numbered if necessary. */
function chooseDrafters(given: readonly string[], target: string): Map<string, string> {
  if (given.length === 0 && resolve(target) !== bundledTarget) {
    throw new MistletoeError('usage', `The audit has no drafter for the target ${target}.`, {
      hint: 'Give --drafter DIR; the bundled drafters fit the bundled target only.',
    });
  }
  const sources = given.length === 0 ? [bundledDrafterFolder('eagle3')] : given.map(findDrafter);
  const named = new Map<string, string>();
  for (const source of sources) {
    if ([...named.values()].some((other) => resolve(other) === resolve(source))) {
      throw new MistletoeError('usage', `The drafter ${source} was given twice.`, {
        hint: 'Each drafter is audited once in a run.',
      });
    }
    named.set(numberApart(nameDrafter(source), named), source);
  }
  return named;
}

async function describeDrafter(source: string, targetFolder: string) {
  // The search follows the first drafter with weights.
  const [folder] = foldersOf(source);
  if (folder === undefined)
    return { system: nameDrafter(source), heads: undefined, withoutGradient: 'no weights' };
  const checkpoint = await openCheckpoint(folder);
  const { system, layout } = recogniseCheckpoint(checkpoint);
  if (system === undefined) {
    throw new MistletoeError('drafter', `${source} holds no drafter: ${layout}.`, {
      hint: '`mistletoe inspect` shows what a folder holds.',
    });
  }
  // Problems are reported when it is loaded with its target.
  const { heads } = system.describe(checkpoint, { refuse: () => undefined }).facts;
  const isOther = system === draftModel && (await compareWithTarget(checkpoint, targetFolder)) !== undefined;
  const withoutGradient = isOther ? "another vocabulary than the target's" : undefined;
  return { system: system.name, heads, withoutGradient };
}

function refuseGradient(source: string, why: string): MistletoeError {
  return new MistletoeError(
    'usage',
    `The drafter ${source} has ${why}, and so no gradient that a search could follow.`,
    {
      hint: 'Give --search random, which tries random changes and keeps those that are accepted least, or measure suffixes of your own with --suffix.',
    },
  );
}

const defaultLevels = 4;

function choosePolicy(draft: string | undefined, heads: number | undefined): string {
  if (draft === undefined) return `chain:${Math.min(defaultLevels, heads ?? defaultLevels)}`;
  return formatDraftPolicy(parseFixedPolicy(draft));
}

export function parseFixedPolicy(draft: string): Exclude<DraftPolicy, { readonly kind: 'auto' }> {
  const policy = parseDraftPolicy(draft);
  if (policy.kind !== 'auto') return policy;
  throw new MistletoeError('usage', 'An audit needs a fixed draft policy; "auto" depends on the clock.', {
    hint: 'Use for example --draft chain:4.',
  });
}

/** Above temperature 0 drafts follow the answer token by token: a chain. */
function refuseDrawnTrees(policy: string, temperature: number): void {
  if (temperature === 0 || policy.startsWith('chain:')) return;
  throw new MistletoeError(
    'usage',
    `An audit at temperature ${temperature} needs a chain; --draft is ${policy}.`,
    { hint: 'Use for example --draft chain:4, or temperature 0.' },
  );
}
