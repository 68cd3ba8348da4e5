import { schemaOf } from '../audit/settings.js';
import { MistletoeError } from '../core/errors.js';
import { deepestDraft, maxNewTokensLimit } from '../core/limits.js';
import type { SettingsOf, SettingTable } from '../core/settings.js';
import { byteSize, decimal, integer, oneOf, seedType, stricterFlag, yesNo } from '../core/settings.js';
import type { Drafter } from '../draft/drafter.js';
import { adamDefaults } from './loop/adamw.js';
import type { Objective } from './loop/losses.js';

const count = integer(1);
const share = decimal({ min: 0, max: 1 });
const weight = decimal({ min: 0 });

export const learningSettings = {
  steps: { type: count, value: 'count', help: 'weight updates' },
  batchTokens: { type: count, value: 'count', help: 'tokens in a batch, padding included' },
  rows: {
    type: oneOf(['padded', 'packed']),
    value: 'layout',
    help: 'batch layout: padded or packed',
    rare: true,
  },
  accumulation: { type: count, value: 'count', help: 'batches per weight update', rare: true },
  rate: {
    type: decimal({ above: 0 }),
    value: 'number',
    flag: 'learning-rate',
    help: 'peak learning rate',
  },
  warmupSteps: {
    type: integer(0),
    value: 'updates',
    was: ['--warmup'],
    help: 'updates until the peak learning rate',
    shownDefault: 'a twentieth of the steps',
    rare: true,
  },
  rateFloor: { type: share, value: 'share', help: 'share of the peak that is left at the end', rare: true },
  weightDecay: { type: weight, value: 'number', help: 'AdamW weight decay', rare: true },
  clip: { type: decimal({ above: 0 }), value: 'norm', help: 'maximum gradient norm', rare: true },
} as const satisfies SettingTable;

export const objectiveSettings = {
  depth: {
    type: integer(1, deepestDraft),
    value: 'levels',
    help: 'draft levels that are trained',
    shownDefault: '1; medusa and hydra: one per head; eagle3, p-eagle and pard: 4',
    rare: true,
  },
  labels: {
    type: oneOf(['soft', 'tokens']),
    value: 'kind',
    help: 'learn the target’s distribution, or the tokens of the text only',
    rare: true,
  },
  decay: { type: share, value: 'factor', help: 'weight of a level relative to the previous one', rare: true },
  featureWeight: {
    type: weight,
    value: 'number',
    help: 'weight of the distance to the target’s features; eagle only',
    rare: true,
  },
  labelWeight: { type: weight, value: 'number', help: 'weight of the label loss', rare: true },
  noise: {
    type: weight,
    value: 'width',
    help: 'width of the uniform noise added to the input features',
    rare: true,
  },
  learn: {
    type: oneOf(['answers', 'all']),
    value: 'tokens',
    help: 'tokens to predict: those of the answers, or of the prompts too',
    rare: true,
  },
  freeze: {
    type: oneOf(['none', 'vocabulary']),
    value: 'part',
    help: 'weights that are not trained: none, or embeddings and output',
    rare: true,
  },
} as const satisfies SettingTable;

export const textSettings = {
  maxTokens: {
    type: stricterFlag(integer(1), integer(2)),
    value: 'count',
    help: 'longer texts are cut',
    rare: true,
  },
  maxNewTokens: {
    type: integer(1, maxNewTokensLimit),
    value: 'count',
    short: 'n',
    help: 'max length of the answers that the target generates',
  },
  temperature: { type: weight, value: 'number', help: 'of those answers; 0 is greedy', rare: true },
  generate: { type: yesNo, help: 'let the target generate all answers', rare: true },
  validation: {
    type: stricterFlag(share, decimal({ min: 0, max: 0.5 })),
    value: 'share',
    help: 'conversations held out; 0 holds out none',
  },
  validationTexts: { type: count, value: 'count', help: 'max held-out texts to measure', rare: true },
  chain: {
    type: integer(1, deepestDraft),
    value: 'tokens',
    help: 'draft length in these measurements',
    shownDefault: '4, or the number of heads if lower',
    rare: true,
  },
  validateEvery: { type: count, value: 'updates', help: 'updates between measurements', rare: true },
  saveEvery: { type: count, value: 'updates', help: 'updates between saved states', rare: true },
  keepStates: {
    type: byteSize(0),
    value: 'size',
    help: 'cache the target’s hidden states on disk for later epochs, up to this size, as 20GB',
    shownDefault: 'none',
    rare: true,
  },
  patience: {
    type: integer(0),
    value: 'count',
    help: 'stop after this many measurements without improvement; 0: never',
    rare: true,
  },
  seed: { type: seedType, value: 'number', help: 'random seed' },
} as const satisfies SettingTable;

export const trainSettings = { ...learningSettings, ...objectiveSettings, ...textSettings };
export type TrainSettings = SettingsOf<typeof trainSettings>;
export const settingsSchema = schemaOf(trainSettings);

const common = {
  steps: 2000,
  batchTokens: 2048,
  rows: 'padded',
  accumulation: 1,
  rate: 1e-3,
  warmupSteps: 100,
  rateFloor: 0.05,
  weightDecay: adamDefaults.weightDecay,
  clip: adamDefaults.clip,
  depth: 1,
  labels: 'soft',
  decay: 1,
  featureWeight: 0,
  labelWeight: 1,
  noise: 0,
  learn: 'answers',
  freeze: 'none',
  maxTokens: 512,
  maxNewTokens: 192,
  temperature: 0,
  generate: true,
  validation: 0.02,
  validationTexts: 64,
  chain: 4,
  validateEvery: 200,
  saveEvery: 100,
  patience: 0,
  keepStates: 0,
  seed: 0,
} as const satisfies TrainSettings;

/** As the authors train each system, with batch sizes and learning rates for one machine. */
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
    case 'p-eagle':
      return { ...common, depth: 4, decay: 0.8 };
    case 'pard':
      return { ...common, depth: 4, decay: 0.8, learn: 'all' };
    case 'speculative-sampling':
      // A draft model learns the language itself, so prompts help too.
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
