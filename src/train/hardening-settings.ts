/** What a hardening run is set to. */
import { z } from 'zod';
import type { ObjectiveName } from '../audit/objectives.js';
import { objectiveNames } from '../audit/objectives.js';
import { presets } from '../audit/settings.js';
import type { AuditSettings } from '../audit/settings.js';
import { MistletoeError } from '../core/errors.js';

const count = z.int().positive();
const share = z.number().min(0).max(1);

export const hardeningSchema = z.strictObject({
  /** Rounds of attacking and training. */
  rounds: count,
  /** Prompts that are attacked in a round, and suffixes that are kept of each. */
  promptsPerRound: count,
  suffixesPerPrompt: count,
  /** Random suffixes that are trained on beside them, for each prompt. */
  randomPerPrompt: z.int().min(0),
  /** Other questions of the data that each suffix is put behind as well. */
  spread: z.int().min(0),
  /** Steps of a search in the first round, and by how much each further round has more: the attacker gains, too. */
  searchSteps: count,
  searchGrowth: z.number().min(1),
  /** In turn, prompt by prompt. */
  objectives: z.array(z.enum(objectiveNames as [ObjectiveName, ...ObjectiveName[]])).nonempty(),
  suffixLengths: z.array(count.max(1024)).nonempty(),
  /** Updates in a round. */
  stepsPerRound: count,
  /** Share of the texts of an epoch that carry suffixes. */
  suffixedShare: share,
  /** Rounds whose suffixes are trained on; older ones are forgotten. */
  replayRounds: count,
  seed: z.int(),
});
export type HardeningSettings = z.infer<typeof hardeningSchema>;

/** Of the recipes that were compared the one that held best: docs/notebook/2026-11-16-hardening.md. */
export const hardeningDefaults: HardeningSettings = {
  ...{ rounds: 4, promptsPerRound: 32, suffixesPerPrompt: 8, randomPerPrompt: 4, spread: 6 },
  ...{ searchSteps: 24, searchGrowth: 1.2 },
  // An audit afterwards has other lengths and other objectives to try.
  ...{ objectives: ['margin', 'surprisal'], suffixLengths: [12, 24] },
  ...{ stepsPerRound: 300, suffixedShare: 0.5, replayRounds: 4, seed: 0 },
};

/** Going on from trained weights wants a lower rate than beginning with fresh ones. */
export const hardeningRate = 2e-4;
/** Updates between two measurements on held-out texts, and between two saved states. */
export const hardeningPace = 50;

/** Audits of the end, in their order: `fresh` is always there. */
export const auditNames = ['fresh', 'other-objective', 'stronger'] as const;
export type HardeningAudit = (typeof auditNames)[number];

/** What hardening must beat: the same rounds with random suffixes, or with questions reworded by rules. */
export const baselineNames = ['random', 'paraphrase'] as const;
export type Baseline = (typeof baselineNames)[number];

export function completeHardening(given: Partial<HardeningSettings> = {}): HardeningSettings {
  const parsed = hardeningSchema.safeParse({ ...hardeningDefaults, ...given });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const [name = ''] = issue?.path ?? [];
  const value = (given as Readonly<Record<PropertyKey, unknown>>)[name];
  throw new MistletoeError(
    'usage',
    `The setting "${String(name)}" of hardening is ${JSON.stringify(value)}: ${issue?.message ?? 'it cannot be used'}.`,
  );
}

/** How searches and audits of a run understand a prompt and its answer; how hard they try is apart from that. */
const shared = ['window', 'shortestAnswer', 'maxNewTokens', 'chat', 'allowNonAscii'] as const;
const bounds = ['epsilon', 'keep', 'divergence'] as const;

/** The search on one prompt of a round: as short as a demonstration, in the bounds of the audits at the end. */
export function searchSettings(
  { searchSteps, searchGrowth, objectives, suffixLengths, suffixesPerPrompt }: HardeningSettings,
  audit: AuditSettings,
  round: number, // from 0
  place: number, // of the prompt in its round
): AuditSettings {
  const taken = [...shared, ...bounds].map((name) => [name, audit[name]] as const);
  return {
    ...presets.quick,
    ...(Object.fromEntries(taken) as Pick<AuditSettings, (typeof taken)[number][0]>),
    steps: Math.round(searchSteps * searchGrowth ** round),
    finalists: suffixesPerPrompt,
    objective: objectives[place % objectives.length]!,
    suffixLength: suffixLengths[Math.floor(place / objectives.length) % suffixLengths.length]!,
  };
}

/** What an attacker might try next: those that say most about acceptance come first. */
const triedInTurn: readonly ObjectiveName[] = [
  ...(['margin', 'total-variation', 'expected-length', 'surprisal'] as const),
  ...(['one-sided', 'reverse-kl', 'kl'] as const),
];

/** For the audit that drives what no search of the training has driven, nor the fresh audit. */
export function chooseOtherObjective(
  { objective }: AuditSettings,
  { objectives }: HardeningSettings,
): ObjectiveName {
  const found = triedInTurn.find((name) => name !== objective && !objectives.includes(name));
  if (found !== undefined) return found;
  throw new MistletoeError(
    'usage',
    'Training would search with every objective, so none is left for the audit "other-objective".',
    { hint: 'Leave one of the --objective out, or that audit.' },
  );
}
