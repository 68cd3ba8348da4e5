/**
 * How fresh drafters of a system are created and trained. A system with a recipe is a choice of `train --system`; the
 * graph of its drafter (drafter.ts) gives the loss, and saving runs its weight recipes backwards.
 */
import { deepestDraft } from '../core/limits.js';
import {
  integer,
  rareSetting,
  setting,
  yesNo,
  type SettingsOf,
  type SettingTable,
} from '../core/settings.js';
import type { ModelConfiguration } from '../model/configuration.js';
import type { NewCheckpoint } from './fresh/fresh-tensors.js';
import type { NewTarget } from './fresh/new-target.js';

/** Sizes that a user can ask for. Flags, config files and run folders read this table. */
export const drafterSizes = {
  heads: rareSetting(integer(1, deepestDraft), 'count', 'drafted tokens: heads, or slots of a block'),
  layers: setting(integer(1, 1024), 'count', 'decoder layers, or blocks per head'),
  hiddenSize: rareSetting(integer(1, 2 ** 20), 'width', 'width of the hidden states'),
  targetLayers: rareSetting(
    integer(1, 1024),
    'count',
    'make the draft model from this many of the target’s own layers, at the target’s width',
  ),
  draftVocabulary: rareSetting(integer(1), 'tokens', 'tokens that can be proposed'),
  prefixLayer: { type: yesNo, help: 'an extra layer before the heads: Hydra++', rare: true },
} as const satisfies SettingTable;

/** Missing sizes are as published or follow from the target. */
export type DrafterShape = Partial<SettingsOf<typeof drafterSizes>>;

export const defaultHeads = 4;

export interface FreshDrafter extends DrafterShape {
  /** Ascending; by default the target's whole vocabulary. */
  readonly draftTokens?: Int32Array | undefined;
}

/** Settings of `train` that differ from the common ones; train/settings.ts explains each. */
export interface RecipeSettings {
  readonly depth?: number;
  readonly labels?: 'soft' | 'tokens';
  readonly decay?: number;
  readonly featureWeight?: number;
  readonly labelWeight?: number;
  readonly distanceWeight?: number;
  readonly confidenceWeight?: number;
  readonly noise?: number;
  readonly learn?: 'answers' | 'all';
  readonly weightDecay?: number;
}

export interface TrainingRecipe {
  /** With `draftVocabulary`, the draft vocabulary is chosen from the training texts. */
  readonly sizes: readonly (keyof DrafterShape)[];
  /** Default of the size `heads`, if not the common one. */
  readonly heads?: number;
  /** As the authors train it. `heads`: the fixed draft length, or Infinity. */
  settings(heads: number): RecipeSettings;
  /** Refuses sizes that exclude each other. */
  checkShape?(shape: DrafterShape): void;
  /** Refuses targets, before a run has a folder. */
  checkTarget?(target: CheckedTarget, shape: DrafterShape): void;
  /** In the published layout, initialized as the authors do. */
  create(target: NewTarget, drafter: FreshDrafter, seed: number | string): NewCheckpoint;
  /**
   * Two groups name a block of which equal copies learn as one: authors' code repeats one module and stores it under
   * several names.
   */
  readonly repeatedBlocks?: RegExp;
}

export interface CheckedTarget {
  readonly folder: string;
  readonly configuration: ModelConfiguration;
}
