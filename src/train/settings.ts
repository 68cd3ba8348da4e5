import { parseSettings, schemaOf } from '../audit/settings.js';
import { deepestDraft, maxNewTokensLimit } from '../core/limits.js';
import type { SettingsOf, SettingTable } from '../core/settings.js';
import {
  byteSize,
  decimal,
  integer,
  oneOf,
  rareSetting,
  seedType,
  setting,
  stricterFlag,
  yesNo,
} from '../core/settings.js';
import type { Drafter } from '../draft/drafter.js';
import { findTrainable } from '../draft/systems.js';
import { adamDefaults } from './loop/adamw.js';

const count = integer(1);
const share = decimal({ min: 0, max: 1 });
const weight = decimal({ min: 0 });

export const learningSettings = {
  steps: setting(count, 'count', 'weight updates'),
  batchTokens: setting(count, 'count', 'tokens in a batch, padding included'),
  rows: rareSetting(oneOf(['padded', 'packed']), 'layout', 'batch layout: padded or packed'),
  accumulation: rareSetting(count, 'count', 'batches per weight update'),
  rate: setting(decimal({ above: 0 }), 'number', 'peak learning rate', { flag: 'learning-rate' }),
  warmupSteps: rareSetting(integer(0), 'updates', 'updates until the peak learning rate', {
    was: ['--warmup'],
    shownDefault: 'a twentieth of the steps',
  }),
  rateFloor: rareSetting(share, 'share', 'share of the peak that is left at the end'),
  weightDecay: rareSetting(weight, 'number', 'AdamW weight decay'),
  clip: rareSetting(decimal({ above: 0 }), 'norm', 'maximum gradient norm'),
} as const satisfies SettingTable;

export const objectiveSettings = {
  depth: rareSetting(integer(1, deepestDraft), 'levels', 'draft levels that are trained'),
  labels: rareSetting(
    oneOf(['soft', 'tokens']),
    'kind',
    'learn the target’s distribution, or the tokens of the text only',
  ),
  decay: rareSetting(share, 'factor', 'weight of a level relative to the previous one'),
  featureWeight: rareSetting(weight, 'number', 'weight of the distance to the target’s features; eagle only'),
  labelWeight: rareSetting(weight, 'number', 'weight of the label loss'),
  distanceWeight: rareSetting(weight, 'number', 'weight of the L1 distance to the target’s distribution'),
  confidenceWeight: rareSetting(weight, 'number', 'weight of the confidence head’s loss; dspark only'),
  noise: rareSetting(weight, 'width', 'width of the uniform noise added to the input features'),
  learn: rareSetting(
    oneOf(['answers', 'all']),
    'tokens',
    'tokens to predict: those of the answers, or of the prompts too',
  ),
  freeze: rareSetting(
    oneOf(['none', 'vocabulary']),
    'part',
    'weights that are not trained: none, or embeddings and output',
  ),
} as const satisfies SettingTable;

export const textSettings = {
  maxTokens: rareSetting(stricterFlag(integer(1), integer(2)), 'count', 'longer texts are cut'),
  maxNewTokens: setting(
    integer(1, maxNewTokensLimit),
    'count',
    'max length of the answers that the target generates',
    { short: 'n' },
  ),
  temperature: rareSetting(weight, 'number', 'of those answers; 0 is greedy'),
  generate: { type: yesNo, help: 'let the target generate all answers', rare: true },
  validation: setting(
    stricterFlag(share, decimal({ min: 0, max: 0.5 })),
    'share',
    'conversations held out; 0 holds out none',
  ),
  validationTexts: rareSetting(count, 'count', 'max held-out texts to measure'),
  chain: rareSetting(integer(1, deepestDraft), 'tokens', 'draft length in these measurements', {
    shownDefault: '4, or the number of heads if lower',
  }),
  validateEvery: rareSetting(count, 'updates', 'updates between measurements'),
  saveEvery: rareSetting(count, 'updates', 'updates between saved states'),
  keepStates: rareSetting(
    byteSize(0),
    'size',
    'cache the target’s hidden states on disk for later epochs, up to this size, as 20GB',
    { shownDefault: 'none' },
  ),
  patience: rareSetting(
    integer(0),
    'count',
    'stop after this many measurements without improvement; 0: never',
  ),
  seed: setting(seedType, 'number', 'random seed'),
} as const satisfies SettingTable;

export const trainSettings = { ...learningSettings, ...objectiveSettings, ...textSettings };
export type TrainSettings = SettingsOf<typeof trainSettings>;
export const settingsSchema = schemaOf(trainSettings);

export const commonSettings = {
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
  distanceWeight: 0,
  confidenceWeight: 0,
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

/** As the authors train the system, with batch sizes and learning rates for one machine. */
export function defaultSettings({
  system,
  maximumDepth,
}: Pick<Drafter, 'system' | 'maximumDepth'>): TrainSettings {
  const chain = Math.min(commonSettings.chain, maximumDepth);
  return { ...commonSettings, chain, ...findTrainable(system)?.training.settings(maximumDepth) };
}

export const completeSettings = (given: Readonly<Record<string, unknown>>): TrainSettings =>
  parseSettings('train', settingsSchema, given);
