/** What a training run is set to: one schema for flags, for callers and for the run's own record. */
import { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { mostNewTokens } from '../core/limits.js';
import type { Drafter } from '../draft/drafter.js';
import { adamDefaults } from './loop/adamw.js';
import type { Objective } from './loop/losses.js';

const count = z.int().positive();
const share = z.number().min(0).max(1);

export const settingsSchema = z.strictObject({
  /** Updates of the parameters. */
  steps: count,
  /** Tokens of a batch, padding among them. */
  batchTokens: count,
  /** Whether a row of a batch has one text and padding behind it, or as many texts as fit it. */
  rows: z.enum(['padded', 'packed']),
  /** Batches whose gradients make one update. */
  accumulation: count,
  /** The learning rate's peak, the steps until it is reached, and what is left of it at the end. */
  rate: z.number().positive(),
  warmupSteps: z.int().min(0),
  rateFloor: share,
  weightDecay: z.number().min(0),
  /** Longest gradient, all parameters together. */
  clip: z.number().positive(),
  /** Levels of a draft that are trained. */
  depth: count,
  labels: z.enum(['soft', 'tokens']),
  /** What a level counts beside the one before it. */
  decay: share,
  featureWeight: z.number().min(0),
  labelWeight: z.number().min(0),
  noise: z.number().min(0),
  /** Tokens that are foreseen: those of the answers, or those of the prompts as well. */
  learn: z.enum(['answers', 'all']),
  /** What stays as it is besides the target: nothing, or what has a row for each token: embeddings and output. */
  freeze: z.enum(['none', 'vocabulary']),
  /** Longer texts are cut. */
  maxTokens: count,
  /** Of each answer that the target writes. */
  maxNewTokens: count.max(mostNewTokens),
  /** Of the target's answers; 0 is greedy. */
  temperature: z.number().min(0),
  /** Whether the target writes the answers; without it, the data must have them. */
  generate: z.boolean(),
  /** Share of the texts that is held out, and how many of those are looked at most. */
  validation: share,
  validationTexts: count,
  /** Length of the drafts whose accepted length is measured on them. */
  chain: count,
  /** Updates between two such measurements, and between two saved states. */
  validateEvery: count,
  saveEvery: count,
  /** Bytes on the disk for the target's states, which are then computed once; 0: for every batch. */
  keepStates: z.int().min(0),
  /** Measurements without a better one after which the run ends; 0: never. */
  patience: z.int().min(0),
  seed: z.int(),
});
export type TrainSettings = z.infer<typeof settingsSchema>;

const common = {
  ...{
    steps: 2000,
    batchTokens: 2048,
    rows: 'padded',
    accumulation: 1,
    rate: 1e-3,
    warmupSteps: 100,
    rateFloor: 0.05,
  },
  ...{ weightDecay: adamDefaults.weightDecay, clip: adamDefaults.clip },
  ...{ depth: 1, labels: 'soft', decay: 1, featureWeight: 0, labelWeight: 1, noise: 0 },
  ...{ learn: 'answers', freeze: 'none' },
  ...{ maxTokens: 512, maxNewTokens: 192, temperature: 0, generate: true },
  ...{ validation: 0.02, validationTexts: 64, chain: 4, validateEvery: 200, saveEvery: 100, patience: 0 },
  keepStates: 0,
  seed: 0,
} as const satisfies TrainSettings;

/** Each system as its authors train it, but for batches and rates, which are for one machine. */
export function defaultSettings({
  system,
  maximumDepth,
}: Pick<Drafter, 'system' | 'maximumDepth'>): TrainSettings {
  const chain = Math.min(common.chain, maximumDepth);
  switch (system) {
    case 'medusa':
      return { ...common, chain, depth: maximumDepth, labels: 'tokens', decay: 0.8 };
    case 'hydra':
      return { ...common, chain, depth: maximumDepth, weightDecay: 0.1 };
    case 'eagle':
      return { ...common, featureWeight: 1, labelWeight: 0.1, noise: 0.2 };
    case 'eagle3':
      return { ...common, depth: 4, decay: 0.8 };
    case 'speculative-sampling':
      // It has a language to learn, of which prompts are a good part; heads borrow that from their target.
      return { ...common, learn: 'all' };
    default:
      return common;
  }
}

export function completeSettings(given: Readonly<Record<string, unknown>>): TrainSettings {
  const parsed = settingsSchema.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const name = issue?.path.join('.') ?? '';
  throw new MistletoeError(
    'usage',
    `The setting "${name}" is ${JSON.stringify(given[name])}: ${issue?.message ?? 'it cannot be used'}.`,
  );
}

export function objectiveOf(settings: TrainSettings): Objective {
  const { depth, labels, decay, featureWeight, labelWeight, noise } = settings;
  return { depth, labels, decay, featureWeight, labelWeight, noise };
}
