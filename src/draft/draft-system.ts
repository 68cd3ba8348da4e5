/**
 * What a drafting system is to the rest of the program. One that has weights is known by the tensors of a folder, says
 * which of them it reads, and loads them; what `inspect` reports is told by the very recipes that loading runs. One
 * without weights is written by name where a folder could stand. A new system is one file and one line in systems.ts.
 */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CacheOptions } from '../checkpoint/cache/weight-cache.js';
import { prepareWeights } from '../checkpoint/cache/weight-cache.js';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import type { MistletoeError } from '../core/errors.js';
import type { CausalModel } from '../model/causal-model.js';
import type { WeightStore } from '../runtime/weights.js';
import type { Tokenizer } from '../text/tokenizer/tokenizer.js';
import type { Drafter } from './drafter.js';
import type { DrafterFacts } from './reading/drafter-facts.js';

/** What the layer ids of an EAGLE-3 head can mean: the inputs of these layers or their outputs (taps.ts). */
export const tapConventions = ['inputs', 'outputs'] as const;
export type TapConvention = (typeof tapConventions)[number];

export type DraftSystem = WeightedSystem | WeightlessSystem;

interface NamedSystem {
  /** In records and reports. */
  readonly name: string;
  /** In sentences. */
  readonly title: string;
}

export interface WeightedSystem extends NamedSystem {
  /** Undefined where the tensors are not of this system. */
  recognise(names: TensorNames): RecognisedLayout | undefined;
  /** What the checkpoint holds, without a target. Where `refuse` returns, it goes on as well as it can. */
  describe(checkpoint: Checkpoint, refuse: Refuse, options?: ReadingOptions): DrafterDescription;
  /** Throws at the first thing that is wrong, by itself or beside the target. */
  load(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter>;
}

export interface WeightlessSystem extends NamedSystem {
  /** How it is written in place of a folder, for messages. */
  readonly form: string;
  /** The one way to write what was asked for; throws where the rest of the text is not understood. */
  normalise(text: string): string;
  create(text: string, target: CausalModel): Drafter;
}

export interface RecognisedLayout {
  /** Which of the published layouts it is, in words. */
  readonly layout: string;
  /** The folder holds a whole language model, which can be a target. */
  readonly isTarget?: boolean;
}

export interface DrafterDescription {
  readonly facts: DrafterFacts;
  /** Everything that it reads. */
  readonly recipes: readonly WeightRecipe[];
  /** Tensors that nothing here reads. */
  readonly unread: readonly string[];
}

/** What the files of a drafter may leave open. */
export interface ReadingOptions {
  /** What the layer ids in the config.json of an EAGLE-3 head mean (taps.ts). */
  readonly taps?: TapConvention;
}

export interface DrafterOptions extends CacheOptions, ReadingOptions {
  readonly target: CausalModel;
  /** The target's, to compare with a draft model's own. */
  readonly tokenizer?: Tokenizer | undefined;
}

/** A drafter's weights, in the form in which its target's runtime takes them. */
export function prepareDrafterWeights(
  checkpoint: Checkpoint,
  recipes: readonly WeightRecipe[],
  { target, ...options }: DrafterOptions,
): Promise<WeightStore> {
  return prepareWeights(checkpoint, recipes, { ...options, runtime: target.runtime });
}

/** What becomes of a fault: a loader throws it, an inspection writes it down and goes on. */
export type Refuse = (fault: MistletoeError) => void;

export const refuseAtOnce: Refuse = (fault) => {
  throw fault;
};

/** The tensors' names: they do not lie, configs do. */
export interface TensorNames {
  has(name: string): boolean;
  some(pattern: RegExp): boolean;
}

export function namesOf({ tensors }: Pick<Checkpoint, 'tensors'>): TensorNames {
  const names = [...tensors.keys()];
  return {
    has: (name) => tensors.has(name),
    some: (pattern) => names.some((name) => pattern.test(name)),
  };
}

export function holdsDecoder(names: TensorNames): boolean {
  return names.has('model.layers.0.self_attn.q_proj.weight') && names.has('model.embed_tokens.weight');
}
