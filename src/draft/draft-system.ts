/**
 * A drafting system, recognized by a folder's tensors; `inspect` reports through the recipes that loading runs. A new
 * system is one folder, with its training recipe, and one line in systems.ts.
 */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CacheOptions } from '../checkpoint/cache/weight-cache.js';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import type { MistletoeError } from '../core/errors.js';
import type { CausalModel } from '../model/causal-model.js';
import type { Tokenizer } from '../text/tokenizer/tokenizer.js';
import type { Drafter } from './drafter.js';
import { deepestDraft } from '../core/limits.js';
import type { SettingsOf, SettingTable } from '../core/settings.js';
import { integer, rareSetting, setting, yesNo } from '../core/settings.js';
import type { ModelConfiguration } from '../model/configuration.js';
import type { NewCheckpoint } from './fresh/fresh-tensors.js';
import type { NewTarget } from './fresh/new-target.js';

/** Meaning of an EAGLE-3 head's layer ids: inputs or outputs of these layers (taps.ts). */
export const tapConventions = ['inputs', 'outputs'] as const;
export type TapConvention = (typeof tapConventions)[number];

export interface DraftSystem {
  readonly name: string;
  readonly title: string;
  /** Undefined if the tensors are not of this system. */
  recognise(names: TensorNames, config?: Checkpoint['config']): RecognisedLayout | undefined;
  describe(checkpoint: Checkpoint, context?: DescribingContext): DrafterDescription;
  load(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter>;
  readonly training: TrainingRecipe;
}

export interface RecognisedLayout {
  readonly layout: string;
  readonly isTarget?: boolean | undefined;
}

/** What a drafter's tensors say about it and its target. */
export interface DrafterFacts {
  /** Fixed draft length; absent if drafts have any length. */
  readonly heads?: number | undefined;
  /** Drafts a chain in one pass behind masks of this token. */
  readonly maskToken?: number | undefined;
  readonly hiddenSize?: number | undefined;
  readonly draftVocabularySize?: number | undefined;
  readonly rotary?: { readonly base: number; readonly origin: string } | undefined;
  /** Optional parts and settings. */
  readonly traits?: readonly string[] | undefined;
  readonly expects: ExpectedTarget;
}

export interface ExpectedTarget {
  readonly hiddenSize?: number | undefined;
  readonly vocabularySize?: number | undefined;
  /** Number of tapped residual streams. */
  readonly taps?: number | undefined;
  readonly tapRule?: string | undefined;
}

export interface DrafterDescription {
  readonly facts: DrafterFacts;
  readonly recipes: readonly WeightRecipe[];
  readonly unread: readonly string[];
}

export interface ReadingOptions {
  /** Meaning of an EAGLE-3 head's layer ids (taps.ts). */
  readonly taps?: TapConvention | undefined;
}

export interface DrafterOptions extends CacheOptions, ReadingOptions {
  readonly target: CausalModel;
  /** The target's, to compare with a draft model's own. */
  readonly tokenizer?: Tokenizer | undefined;
}

export interface DescribingContext extends ReadingOptions {
  /** Records a fault, and the description continues as well as it can; by default it is thrown. */
  readonly refuse?: ((fault: MistletoeError) => void) | undefined;
  /** Its sizes replace those of the tensors, or what config.json lacks. */
  readonly target?: ModelConfiguration | undefined;
}

/** Tensor names are more reliable than configs. */
export interface TensorNames {
  has(name: string): boolean;
  some(pattern: RegExp): boolean;
}

export function namesOf({ tensors }: Pick<Checkpoint, 'tensors'>): TensorNames {
  const names = [...tensors.keys()];
  return { has: (name) => tensors.has(name), some: (pattern) => names.some((name) => pattern.test(name)) };
}

export function holdsDecoder(names: TensorNames): boolean {
  return names.has('model.layers.0.self_attn.q_proj.weight') && names.has('model.embed_tokens.weight');
}

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

/**
 * How fresh drafters of a system are created and trained. The graph of its drafter (drafter.ts) gives the loss, and saving
 * runs its weight recipes backwards.
 */
export interface TrainingRecipe {
  /** With `draftVocabulary`, the draft vocabulary is chosen from the training texts. */
  readonly sizes: readonly (keyof DrafterShape)[];
  /** Default of the size `heads`, if not the common one. */
  readonly heads?: number;
  /** As the authors train it. `heads`: the fixed draft length, or Infinity. */
  settings(heads: number): RecipeSettings;
  checkShape?(shape: DrafterShape): void;
  /** Refuses targets, before a run has a folder. */
  checkTarget?(target: CheckedTarget, shape: DrafterShape): void;
  /** In the published layout, initialized as the authors do. */
  create(target: NewTarget, drafter: FreshDrafter): NewCheckpoint;
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
