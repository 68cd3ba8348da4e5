/** Recipes that the hardening study compares. */
import type { HardeningSettings } from '../../src/train/harden/hardening-settings.js';
import type { TrainSettings } from '../../src/train/settings.js';
import type { Chain, Variant } from './jobs.js';

export interface StudiedVariant extends Variant {
  /** All unless told. */
  readonly drafters?: readonly string[];
  readonly roles?: readonly Chain['role'][];
  /** How far on the way from the weights before to those after; all of it unless told. */
  readonly blends?: readonly number[];
}

/** Lengths on held-out texts before and after a round are enough. */
const atRate = (rate: number): Partial<TrainSettings> => ({ rate, validateEvery: 10_000, saveEvery: 10_000 });

const first = {
  ...{ rounds: 6, promptsPerRound: 32, suffixesPerPrompt: 8, randomPerPrompt: 0, spread: 0 },
  ...{ searchSteps: 24, searchGrowth: 1.2, stepsPerRound: 300, suffixedShare: 0.5, replayRounds: 6 },
} as const satisfies Partial<HardeningSettings>;
const alone = {
  ...{ ...first, rounds: 8, randomPerPrompt: 4, replayRounds: 8 },
} as const satisfies Partial<HardeningSettings>;
const spread = { ...alone, spread: 6 } as const satisfies Partial<HardeningSettings>;

/** Searched suffixes alone, at different rates and in different portions. */
export const firstVariants: readonly StudiedVariant[] = [
  { name: 'base', hardening: first, training: atRate(5e-4), roles: ['hardened', 'random'] },
  {
    name: 'gentle',
    hardening: { ...first, suffixesPerPrompt: 4, stepsPerRound: 200 },
    training: atRate(2e-4),
  },
  { name: 'hot', hardening: { ...first, suffixedShare: 0.7 }, training: atRate(1e-3) },
  { name: 'mixed', hardening: { ...first, randomPerPrompt: 8 }, training: atRate(5e-4) },
  {
    name: 'small',
    hardening: {
      ...{ ...first, rounds: 12, promptsPerRound: 16, searchGrowth: 1.1 },
      ...{ stepsPerRound: 150, replayRounds: 12 },
    },
    training: atRate(5e-4),
  },
];

/** Lower rates, a few random suffixes beside the searched ones, and these behind other questions as well. */
export const laterVariants: readonly StudiedVariant[] = [
  ...[
    { name: 'alone', hardening: alone, training: atRate(2e-4), blends: [0.5, 1] },
    { name: 'spread', hardening: spread, training: atRate(2e-4), blends: [0.5, 1] },
    { name: 'spread-fast', hardening: spread, training: atRate(5e-4), blends: [0.3, 0.6, 1] },
  ].map((variant) => ({ ...variant, drafters: ['eagle3'] })),
  ...[
    { name: 'alone', hardening: alone, training: atRate(2e-4), blends: [1] },
    { name: 'spread', hardening: spread, training: atRate(2e-4), blends: [1] },
    { name: 'spread-fast', hardening: spread, training: atRate(5e-4), blends: [0.7, 1] },
  ].map((variant) => ({ ...variant, drafters: ['sps'] })),
];
