import { listFirst } from '../../core/number-text.js';
import * as z from '../../core/schema.js';
import { promptSchema } from '../../audit/audit-request.js';
import type { AuditSettings } from '../../audit/settings.js';
import { applyPreset, settingsSchema as auditSettingsSchema } from '../../audit/settings.js';
import { MistletoeError } from '../../core/errors.js';
import { loadChatTemplate } from '../../text/template/chat-template.js';
import type { Prompt } from '../../text/prompts/prompt-set.js';
import { type Conversation, readConversations } from '../data/conversations.js';
import type { Baseline, HardeningAudit, HardeningSettings } from './hardening-settings.js';
import {
  auditNames,
  baselineNames,
  chooseOtherObjective,
  completeHardening,
  hardeningPace,
  hardeningRate,
  hardeningSchema,
} from './hardening-settings.js';
import { type TrainSettings, completeSettings, defaultSettings, settingsSchema } from '../settings.js';
import type { SharedPlan } from '../train-request.js';
import {
  describeFrom,
  describeShared,
  describeStart,
  findStart,
  refuseDeepDrafts,
  sharedFields,
  startSchema,
} from '../train-request.js';

export const hardenRequestSchema = z.strictObject({
  schema: z.literal('mistletoe.hardening-run/1'),
  ...sharedFields,
  from: startSchema,
  training: settingsSchema,
  hardening: hardeningSchema,
  baselines: z.array(z.enum(baselineNames)),
  audit: z.strictObject({
    prompts: z.array(promptSchema).min(1),
    preset: z.string(),
    settings: auditSettingsSchema,
    seed: z.int(),
    names: z.array(z.enum(auditNames)),
    strongerPrompts: z.int().positive(),
  }),
});
export type HardenRequest = Readonly<z.infer<typeof hardenRequestSchema>>;

export interface HardenPlan extends SharedPlan {
  readonly drafter: string;
  readonly training?: Partial<TrainSettings> | undefined;
  readonly hardening?: Partial<HardeningSettings> | undefined;
  /** Default: random suffixes. */
  readonly baselines?: readonly Baseline[] | undefined;
  /** Must not be in the data. */
  readonly prompts: readonly Prompt[];
  readonly preset?: string | undefined;
  readonly audit?: Partial<AuditSettings> | undefined;
  readonly audits?: readonly HardeningAudit[] | undefined;
  readonly strongerPrompts?: number | undefined;
}

/** Keeps the audits' seeds apart from those of training. */
const auditSeedOffset = 7919;
const maxNamed = 3;

/**
 * @example
 * const request = await createHardenRequest({ drafter: 'eagle3', data: 'questions.jsonl', prompts });
 * const outcome = await startHardening('runs/eagle3-hardened', request);
 */
export async function createHardenRequest(plan: HardenPlan): Promise<HardenRequest> {
  const { audits = ['fresh'], strongerPrompts = 4, preset = 'standard' } = plan;
  const baselines = baselineNames.filter((name) => (plan.baselines ?? ['random']).includes(name));
  const hardening = completeHardening(plan.hardening);
  const settings = applyPreset(preset, plan.audit ?? {});
  const names = auditNames.filter((name) => name === 'fresh' || audits.includes(name));
  refuseSeenLength(settings, hardening);
  if (names.includes('other-objective')) chooseOtherObjective(settings, hardening);
  if (plan.prompts.length === 0) {
    throw new MistletoeError('usage', 'There is no prompt to audit on.', { hint: 'Give at least one.' });
  }
  refuseSeenPrompts(plan.prompts, await readConversations(plan.data), plan.data);
  const folder = findStart(plan.drafter);
  const { system, heads } = await describeStart(folder, { taps: plan.taps });
  const training = completeTraining(plan.training, hardening, { system, maximumDepth: heads ?? Infinity });
  const shared = await describeShared(plan, folder);
  const { targetFolder, chatTemplate, date } = shared;
  // Audits ask as training does: through the template if there is one.
  const template = chatTemplate ?? (await loadChatTemplate(targetFolder, { date }));
  const chat = plan.audit?.chat ?? template !== undefined;
  return {
    schema: 'mistletoe.hardening-run/1',
    ...shared,
    system,
    from: await describeFrom(folder, plan),
    training,
    hardening,
    baselines,
    audit: {
      prompts: plan.prompts.map((prompt) => ({ ...prompt, turns: [...prompt.turns] })),
      settings: { ...settings, chat },
      preset,
      seed: hardening.seed + auditSeedOffset,
      names,
      strongerPrompts,
    },
  };
}

function completeTraining(
  given: Partial<TrainSettings> = {},
  { seed, stepsPerRound }: HardeningSettings,
  drafter: Parameters<typeof defaultSettings>[0],
): TrainSettings {
  const settings = completeSettings({
    ...defaultSettings(drafter),
    learn: 'answers',
    rate: hardeningRate,
    seed,
    warmupSteps: Math.ceil(stepsPerRound / 10),
    validateEvery: hardeningPace,
    saveEvery: hardeningPace,
    ...given,
    steps: stepsPerRound,
  });
  refuseDeepDrafts(settings, drafter.maximumDepth);
  return settings;
}

/** An audit of what training has seen proves nothing. */
function refuseSeenLength({ suffixLength }: AuditSettings, { suffixLengths }: HardeningSettings): void {
  if (!suffixLengths.includes(suffixLength)) return;
  throw new MistletoeError(
    'usage',
    `The audit would search suffixes of ${suffixLength} tokens, a length that training searches too (${suffixLengths.join(', ')}).`,
    { hint: 'Choose another --suffix-length for the audit, or another --train-suffix-length.' },
  );
}

/** Compares texts: the same question may have two ids. */
function refuseSeenPrompts(
  prompts: readonly Prompt[],
  conversations: readonly Conversation[],
  file: string,
): void {
  const keyOf = (text: string): string => text.normalize('NFC').replace(/\s+/g, ' ').trim();
  const asked = new Map(
    conversations.flatMap(({ id, messages }) =>
      messages.flatMap(({ role, content }) => (role === 'user' ? [[keyOf(content), id] as const] : [])),
    ),
  );
  const seen = prompts.filter(({ text }) => asked.has(keyOf(text)));
  if (seen.length === 0) return;
  const named = listFirst(seen, maxNamed, ({ id, text }) => `${id} (as ${asked.get(keyOf(text))!})`);
  throw new MistletoeError(
    'usage',
    `${seen.length === 1 ? 'A prompt' : `${seen.length} prompts`} of the audit would be trained on, too: ${file} has ${named}.`,
    { hint: 'Audit on other prompts, or take these out of the data.' },
  );
}
