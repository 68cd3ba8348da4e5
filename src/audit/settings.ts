/** The settings of an audit: presets, every field of which can be overridden. */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { deepestDraft } from '../core/limits.js';
import { keepRules } from '../measure/kept-class.js';
import { defaultObjective, objectiveNames } from './search/objectives.js';
import { projectionKinds } from './search/projection.js';
import type { Drive } from './search/search-problem.js';

/** Far beyond any search that ends; what is larger would run out of memory, or never begin. */
const upTo = (most: number) => z.number().int().positive().max(most);

/** How the attack finds its way: along gradients, or by trying changes at random. */
export const searchKinds = ['gradient', 'random'] as const;

export const settingsSchema = z
  .object({
    suffixLength: upTo(1024),
    window: upTo(16_384),
    shortestAnswer: upTo(16_384),
    maxNewTokens: upTo(16_384),
    temperature: z.number().nonnegative(),
    search: z.enum(searchKinds),
    epsilon: z.number().positive(),
    keep: z.enum(keepRules),
    divergence: z.enum(['clean-to-suffixed', 'suffixed-to-clean']),
    objective: z.enum(objectiveNames as [string, ...string[]]),
    draftDepth: upTo(deepestDraft),
    projection: z.enum(projectionKinds),
    lambda: z.number().nonnegative(),
    steps: upTo(1_000_000),
    candidates: upTo(16_384),
    topTokens: upTo(16_384),
    moves: upTo(1024),
    merges: upTo(1024),
    starts: upTo(16_384),
    finalists: upTo(16_384),
    patience: upTo(1_000_000),
    repeats: upTo(1000),
    randomDraws: upTo(1000),
    controlSearches: z.boolean(),
    allowNonAscii: z.boolean(),
    chat: z.boolean(),
  })
  .strict();

export type AuditSettings = Readonly<z.infer<typeof settingsSchema>>;

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
 * `quick` is a demonstration and `thorough` a night; `paper` has what is known of the paper's setting: surprisal of the
 * drafter's tokens, 20 answer positions, lambda 2, single-token moves.
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

export const driveOf = ({ search }: AuditSettings): Drive =>
  search === 'random' ? 'unguided' : 'degradation';

export function applyPreset(name: string, changes: Partial<AuditSettings>): AuditSettings {
  if (!Object.hasOwn(presets, name)) {
    throw new MistletoeError('usage', `The preset "${name}" is not known.`, {
      hint: `Choose one of ${Object.keys(presets).join(', ')}.`,
    });
  }
  const preset = presets[name as PresetName];
  // A preset that names an objective of its own keeps it; the others follow the temperature.
  const objective =
    preset.objective === 'margin' ? defaultObjective(changes.temperature ?? 0) : preset.objective;
  // Both control searches follow gradients: a preset that has them does without where there is to be none.
  const controlSearches = preset.controlSearches && changes.search !== 'random';
  const parsed = settingsSchema.safeParse({ ...preset, objective, controlSearches, ...changes });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new MistletoeError(
      'usage',
      `The audit's setting "${issue?.path.join('.') ?? ''}" is wrong: ${issue?.message ?? ''}.`,
      { hint: '`mistletoe audit --help` shows what each preset has.' },
    );
  }
  refuseContradictions(parsed.data);
  return parsed.data;
}

function refuseContradictions(settings: AuditSettings): void {
  const { window, shortestAnswer, draftDepth, maxNewTokens, keep, temperature } = settings;
  if (settings.search === 'random' && settings.controlSearches) {
    throw new MistletoeError(
      'usage',
      'The control searches follow gradients; a search that follows none was asked for.',
      { hint: 'Leave --control-searches out, or --search random.' },
    );
  }
  const shortest = Math.min(window, shortestAnswer);
  if (shortest <= draftDepth + 1) {
    throw new MistletoeError(
      'usage',
      `Answers of ${shortest} tokens are too short for an objective that looks ${draftDepth} tokens ahead.`,
      { hint: 'Raise --shortest-answer or --window, or lower --draft-depth.' },
    );
  }
  if (maxNewTokens < shortestAnswer) {
    throw new MistletoeError(
      'usage',
      `Answers are cut at ${maxNewTokens} tokens, and an audit needs ${shortestAnswer}.`,
      { hint: 'Raise --max-new-tokens, or lower --shortest-answer.' },
    );
  }
  if (temperature > 0 && keep !== 'distribution') {
    throw new MistletoeError(
      'usage',
      `At temperature ${temperature} answers are drawn, so no suffix can be held to "${keep}".`,
      { hint: 'Use --keep distribution; the divergence bound then stands for the answer.' },
    );
  }
}
