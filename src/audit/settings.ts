/** The settings of an audit: three presets, every field of which can be overridden. */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { objectiveNames } from './objectives.js';
import { projectionKinds } from './projection.js';

const count = z.number().int().positive();

export const settingsSchema = z
  .object({
    suffixLength: count,
    window: count.min(3),
    maxNewTokens: count,
    epsilon: z.number().positive(),
    similarity: z.number().min(0).max(1),
    excess: z.number().nonnegative(),
    repetition: z.number().min(0).max(1),
    divergence: z.enum(['clean-to-suffixed', 'suffixed-to-clean']),
    objective: z.enum(objectiveNames as [string, ...string[]]),
    draftDepth: count,
    projection: z.enum(projectionKinds),
    lambda: z.number().nonnegative(),
    steps: count,
    candidates: count,
    topTokens: count,
    positions: count,
    merges: count,
    buffer: count,
    decodes: z.number().int().nonnegative(),
    patience: count,
    repeats: count,
    controlSearches: z.boolean(),
    allowNonAscii: z.boolean(),
    chat: z.boolean(),
  })
  .strict();

export type AuditSettings = Readonly<z.infer<typeof settingsSchema>>;

const standard: AuditSettings = {
  suffixLength: 20,
  window: 20,
  maxNewTokens: 96,
  epsilon: 0.1,
  similarity: 0.5,
  excess: 0.2,
  repetition: 0.2,
  divergence: 'clean-to-suffixed',
  objective: 'total-variation',
  draftDepth: 4,
  projection: 'direction',
  lambda: 2,
  steps: 32,
  candidates: 16,
  topTokens: 64,
  positions: 4,
  merges: 4,
  buffer: 4,
  decodes: 4,
  patience: 8,
  repeats: 1,
  controlSearches: true,
  allowNonAscii: false,
  chat: true,
};

/** `standard` has the paper's suffix length, window and lambda; `quick` is a demonstration, `thorough` a weekend. */
export const presets = {
  quick: {
    ...standard,
    suffixLength: 12,
    window: 12,
    maxNewTokens: 64,
    steps: 6,
    candidates: 24,
    positions: 2,
    decodes: 2,
  },
  standard,
  thorough: {
    ...standard,
    steps: 120,
    candidates: 256,
    topTokens: 128,
    positions: 8,
    buffer: 24,
    repeats: 5,
  },
} as const satisfies Record<string, AuditSettings>;

export type PresetName = keyof typeof presets;

export function applyPreset(name: string, changes: Partial<AuditSettings>): AuditSettings {
  if (!Object.hasOwn(presets, name)) {
    throw new MistletoeError('usage', `The preset "${name}" is not known.`, {
      hint: `Choose one of ${Object.keys(presets).join(', ')}.`,
    });
  }
  const merged = { ...presets[name as PresetName], ...changes };
  const parsed = settingsSchema.safeParse(merged);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new MistletoeError(
      'usage',
      `The audit's setting "${issue?.path.join('.') ?? ''}" is wrong: ${issue?.message ?? ''}.`,
    );
  }
  if (parsed.data.window <= parsed.data.draftDepth + 1) {
    throw new MistletoeError(
      'usage',
      `A window of ${parsed.data.window} is too short for drafts ${parsed.data.draftDepth} deep.`,
      {
        hint: 'Use a window of at least the draft depth plus 2.',
      },
    );
  }
  if (parsed.data.maxNewTokens < parsed.data.window) {
    throw new MistletoeError(
      'usage',
      `Answers of at most ${parsed.data.maxNewTokens} tokens are shorter than the window of ${parsed.data.window}.`,
      { hint: 'Raise --max-new-tokens, or lower --window.' },
    );
  }
  return parsed.data;
}
