import { type ObjectiveName, objectiveNames } from '../../audit/search/objectives.js';
import { parseSettings, presets, schemaOf, type AuditSettings } from '../../audit/settings.js';
import { MistletoeError } from '../../core/errors.js';
import type { SettingsOf, SettingTable } from '../../core/settings.js';
import { decimal, integer, listOf, oneOf, rareSetting, seedType, setting } from '../../core/settings.js';

const count = integer(1);

export const hardeningSettings = {
  rounds: setting(count, 'count', 'rounds of attack and training'),
  promptsPerRound: setting(count, 'count', 'prompts attacked in each round'),
  suffixesPerPrompt: rareSetting(count, 'count', 'suffixes kept from each search'),
  randomPerPrompt: rareSetting(integer(0), 'count', 'random suffixes added to the training data per prompt'),
  spread: rareSetting(integer(0), 'count', 'other questions that each suffix is appended to'),
  searchSteps: rareSetting(count, 'count', 'steps of each search in the first round'),
  searchGrowth: rareSetting(decimal({ min: 1 }), 'factor', 'growth of the search steps from round to round'),
  objectives: rareSetting(
    listOf(oneOf(objectiveNames)),
    'name',
    'what the searches maximize, in turn from prompt to prompt; repeat for several',
    { flag: 'search-objective', was: ['--objective'] },
  ),
  suffixLengths: rareSetting(
    listOf(integer(1, 1024)),
    'tokens',
    'suffix lengths in training; repeat for several',
    { flag: 'train-suffix-length', was: ['--train-suffix-lengths'] },
  ),
  stepsPerRound: setting(count, 'count', 'weight updates in each round'),
  suffixedShare: rareSetting(
    decimal({ min: 0, max: 1 }),
    'share',
    'texts that carry suffixes; the others are clean',
  ),
  replayRounds: rareSetting(count, 'count', 'rounds whose suffixes stay in the training data'),
  seed: setting(seedType, 'number', 'random seed'),
} as const satisfies SettingTable;

export type HardeningSettings = SettingsOf<typeof hardeningSettings>;
export const hardeningSchema = schemaOf(hardeningSettings);

/** The most robust of the recipes compared in docs/notebook/2026-11-16-hardening.md. */
export const hardeningDefaults: HardeningSettings = {
  rounds: 4,
  promptsPerRound: 32,
  suffixesPerPrompt: 8,
  randomPerPrompt: 4,
  spread: 6,
  searchSteps: 24,
  searchGrowth: 1.2,
  // The audits at the end use other lengths and objectives.
  objectives: ['margin', 'surprisal'],
  suffixLengths: [12, 24],
  stepsPerRound: 300,
  suffixedShare: 0.5,
  replayRounds: 4,
  seed: 0,
};

/** Lower than for fresh weights. */
export const hardeningRate = 2e-4;
/** Updates between measurements, and between saved states. */
export const hardeningPace = 50;

/** `fresh` is always included. */
export const auditNames = ['fresh', 'other-objective', 'stronger'] as const;
export type HardeningAudit = (typeof auditNames)[number];

/** The simplest last. */
export const baselineNames = ['random', 'clean'] as const;
export type Baseline = (typeof baselineNames)[number];

export const completeHardening = (given: Partial<HardeningSettings> = {}): HardeningSettings =>
  parseSettings('harden', hardeningSchema, { ...hardeningDefaults, ...given });

/** Settings that searches take from the audits. */
const shared = ['window', 'shortestAnswer', 'maxNewTokens', 'chat', 'allowNonAscii'] as const;
const bounds = ['epsilon', 'keep', 'divergence'] as const;

/** A short search within the bounds of the audits. */
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

/** The most informative about acceptance first. */
const preferredObjectives: readonly ObjectiveName[] = [
  ...(['margin', 'total-variation', 'expected-length', 'surprisal'] as const),
  ...(['one-sided', 'reverse-kl', 'kl'] as const),
];

/** An objective that neither training nor the fresh audit uses. */
export function chooseOtherObjective(
  { objective }: AuditSettings,
  { objectives }: HardeningSettings,
): ObjectiveName {
  const found = [...preferredObjectives, ...objectiveNames].find(
    (name) => name !== objective && !objectives.includes(name),
  );
  if (found !== undefined) return found;
  throw new MistletoeError(
    'usage',
    'Training would search with every objective, so none is left for the audit "other-objective".',
    { hint: 'Leave one --search-objective out, or that audit.' },
  );
}
