import * as z from '../core/schema.js';
import { MistletoeError } from '../core/errors.js';
import { deepestDraft } from '../core/limits.js';
import type { SettingsOf, SettingTable } from '../core/settings.js';
import { decimal, integer, oneOf, rareSetting, setting, toFlagName, yesNo } from '../core/settings.js';
import { keepRules } from '../measure/kept-class.js';
import { defaultObjective, objectiveNames } from './search/objectives.js';
import { createProjection, projectionKinds } from './search/projection.js';
import type { SearchSettings } from './search/search-problem.js';

/** Larger values would run out of memory or never finish. */
export const auditSettings = {
  suffixLength: setting(integer(1, 1024), 'tokens', 'length of the suffix'),
  window: rareSetting(integer(1, 16_384), 'tokens', 'max answer positions that the search scores'),
  shortestAnswer: rareSetting(integer(1, 16_384), 'tokens', 'skip prompts whose clean answer is shorter'),
  maxNewTokens: rareSetting(integer(1, 16_384), 'count', 'max length of the measured answers', {
    short: 'n',
  }),
  temperature: rareSetting(decimal({ min: 0 }), 'number', 'of target and drafter; 0 is greedy'),
  search: rareSetting(
    oneOf(['gradient', 'random']),
    'kind',
    'follow gradients, or try random changes (for drafters without gradients)',
  ),
  epsilon: rareSetting(
    decimal({ above: 0 }),
    'nats',
    'veto: max mean divergence of the target’s distribution',
  ),
  keep: setting(
    oneOf(keepRules),
    'class',
    'what the answer must keep; similar means identical or edit similarity of at least 0.9',
  ),
  divergence: rareSetting(
    oneOf(['clean-to-suffixed', 'suffixed-to-clean']),
    'direction',
    'direction of the KL divergence in the veto',
  ),
  objective: rareSetting(oneOf(objectiveNames), 'name', 'what the search maximizes', {
    shownDefault: 'margin; total-variation above temperature 0; paper: surprisal',
  }),
  draftDepth: rareSetting(
    integer(1, deepestDraft),
    'levels',
    'levels that margin and expected-length look ahead',
  ),
  projection: rareSetting(oneOf(projectionKinds), 'kind', 'what is removed from the gradient'),
  lambda: rareSetting(decimal({ min: 0 }), 'weight', 'weight of the direction projection'),
  steps: setting(integer(1, 1_000_000), 'count', 'steps of each search'),
  candidates: rareSetting(integer(1, 16_384), 'count', 'suffixes scored in each step'),
  topTokens: rareSetting(integer(1, 16_384), 'count', 'tokens considered at each position'),
  moves: rareSetting(integer(1, 1024), 'count', 'max tokens that a candidate changes'),
  merges: rareSetting(integer(1, 1024), 'count', 'max edits merged in a step; 1 merges none'),
  starts: rareSetting(integer(1, 16_384), 'count', 'random suffixes to start from'),
  finalists: rareSetting(integer(1, 16_384), 'count', 'suffixes decoded at the end of a search'),
  patience: rareSetting(integer(1, 1_000_000), 'steps', 'steps without improvement before the next start'),
  repeats: rareSetting(integer(1, 1000), 'seeds', 'searches on each prompt, each with its own seed'),
  randomDraws: rareSetting(integer(1, 1000), 'count', 'random suffixes measured on each prompt'),
  controlSearches: {
    type: yesNo,
    help: 'also search for preservation alone, and without projection',
    rare: true,
  },
  allowNonAscii: { type: yesNo, help: 'allow any printable text in suffixes', rare: true },
  chat: { type: yesNo, help: 'apply the chat template' },
} as const satisfies SettingTable;

export type AuditSettings = SettingsOf<typeof auditSettings>;

export function schemaOf<Table extends SettingTable>(table: Table): z.ZodType<SettingsOf<Table>> {
  return objectOf(table) as unknown as z.ZodType<SettingsOf<Table>>;
}

export function partialSchemaOf<Table extends SettingTable>(
  table: Table,
): z.ZodType<Partial<SettingsOf<Table>>> {
  return objectOf(table).partial() as unknown as z.ZodType<Partial<SettingsOf<Table>>>;
}

function objectOf(table: SettingTable): z.ZodObject {
  const shape = Object.fromEntries(
    Object.entries(table).map(([name, { type }]) => [
      name,
      z.custom((value) => type.check(value) !== undefined, `${type.expected} was expected`),
    ]),
  );
  return z.strictObject(shape);
}

export const settingsSchema = schemaOf(auditSettings);

/** Refuses the first wrong value by its name. `command` explains the settings in its help. */
export function parseSettings<Settings>(
  command: 'audit' | 'train' | 'harden',
  schema: z.ZodType<Settings>,
  values: Readonly<Record<string, unknown>>,
): Settings {
  const parsed = schema.safeParse(values);
  if (parsed.success) return parsed.data;
  const { place: name, fault } = z.describeFault(parsed.error);
  throw new MistletoeError(
    'usage',
    `The ${command} setting "${name}" is ${JSON.stringify(values[name])}; ${fault}.`,
    { hint: `\`mistletoe ${command} --help-all\` explains --${toFlagName(name)}.` },
  );
}

const standard: AuditSettings = {
  suffixLength: 20,
  window: 64,
  shortestAnswer: 24,
  maxNewTokens: 64,
  temperature: 0,
  search: 'gradient',
  epsilon: 0.1,
  keep: 'similar',
  divergence: 'clean-to-suffixed',
  objective: 'margin',
  draftDepth: 1,
  projection: 'direction',
  lambda: 1,
  steps: 100,
  candidates: 8,
  topTokens: 32,
  moves: 4,
  merges: 4,
  starts: 16,
  finalists: 6,
  patience: 12,
  repeats: 1,
  randomDraws: 4,
  controlSearches: false,
  allowNonAscii: false,
  chat: true,
};

/**
 * `quick` is a demonstration, `thorough` takes a night. `paper` has what is known of the paper (20 answer positions,
 * lambda 2, single-token moves) and one of two readings of its loss (`kl` is the other). Bounds and counts are ours.
 */
export const presets = {
  quick: { ...standard, steps: 24, topTokens: 12, starts: 8, finalists: 4, randomDraws: 2 },
  standard,
  thorough: {
    ...standard,
    steps: 600,
    candidates: 32,
    topTokens: 64,
    starts: 64,
    finalists: 16,
    patience: 24,
    repeats: 3,
    randomDraws: 8,
    controlSearches: true,
  },
  paper: { ...standard, objective: 'surprisal', window: 20, lambda: 2, moves: 1, merges: 1 },
} as const satisfies Record<string, AuditSettings>;

export type PresetName = keyof typeof presets;

export const attackSearch = (settings: AuditSettings): SearchSettings => ({
  ...settings,
  projection: createProjection(settings.projection, settings.lambda),
  searchMode: settings.search === 'random' ? 'unguided' : 'degradation',
});

/** A control lacks what guides the attack: the gradient or, where that draws its changes at random too, the objective. */
export const undirectedSearch = (settings: AuditSettings): SearchSettings => ({
  ...attackSearch(settings),
  searchMode: settings.search === 'random' ? 'blind' : 'unguided',
});

export function applyPreset(name: string, changes: Partial<AuditSettings>): AuditSettings {
  if (!Object.hasOwn(presets, name)) {
    throw new MistletoeError('usage', `The preset "${name}" is not known.`, {
      hint: `Choose one of ${Object.keys(presets).join(', ')}.`,
    });
  }
  const preset = presets[name as PresetName];
  // A preset's own objective takes precedence; the others follow the temperature.
  const objective =
    preset.objective === 'margin' ? defaultObjective(changes.temperature ?? 0) : preset.objective;
  // Control searches need gradients.
  const controlSearches = preset.controlSearches && changes.search !== 'random';
  const settings = parseSettings('audit', settingsSchema, {
    ...preset,
    objective,
    controlSearches,
    ...changes,
  });
  refuseContradictions(settings);
  return settings;
}

function refuseContradictions(settings: AuditSettings): void {
  const { window, shortestAnswer, draftDepth, maxNewTokens, keep, temperature } = settings;
  const shortest = Math.min(window, shortestAnswer);
  const contradictions: readonly (readonly [isGiven: boolean, problem: string, hint: string])[] = [
    [
      settings.search === 'random' && settings.controlSearches,
      'The control searches follow gradients; a search that follows none was asked for.',
      'Leave --control-searches out, or --search random.',
    ],
    [
      shortest <= draftDepth + 1,
      `Answers of ${shortest} tokens are too short for an objective that looks ${draftDepth} tokens ahead.`,
      'Raise --shortest-answer or --window, or lower --draft-depth.',
    ],
    [
      maxNewTokens < shortestAnswer,
      `Answers are cut at ${maxNewTokens} tokens, and an audit needs ${shortestAnswer}.`,
      'Raise --max-new-tokens, or lower --shortest-answer.',
    ],
    [
      temperature > 0 && keep !== 'distribution',
      `At temperature ${temperature} answers are drawn, so no suffix can be held to "${keep}".`,
      'Use --keep distribution; the divergence bound then stands for the answer.',
    ],
  ];
  for (const [isGiven, problem, hint] of contradictions)
    if (isGiven) throw new MistletoeError('usage', problem, { hint });
}
