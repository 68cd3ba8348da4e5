/** A drafter's checkpoint while a loader or `inspect` reads it, and what both require of it. */
import { listFirst } from '../../core/number-text.js';
import type { Problem } from '../../checkpoint/open-checkpoint.js';
import { quote, type Checkpoint } from '../../checkpoint/stored-tensor.js';
import { listRead, type WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { MistletoeError } from '../../core/errors.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { DescribingContext, DrafterDescription, DrafterOptions } from '../draft-system.js';
import type { DraftGraph, Drafter } from '../drafter.js';
import { flattenConfig, type Config } from './draft-configuration.js';
import { prepareWeights } from '../../checkpoint/cache/weight-cache.js';

export interface Reading extends Checkpoint {
  /** config.json without its nesting. */
  readonly settings: Config;
  readonly target: ModelConfiguration | undefined;
  /** A loader throws the problem; an inspection records it and continues. */
  readonly reject: (fault: string, hint: string) => void;
  /** Undefined after a fault that was recorded. */
  readonly attempt: <Result>(read: () => Result) => Result | undefined;
}

export function startReading(checkpoint: Checkpoint, { refuse, target }: DescribingContext): Reading {
  const refuseOrThrow = (fault: MistletoeError): void => {
    if (refuse === undefined) throw fault;
    refuse(fault);
  };
  const settings = flattenConfig(checkpoint.config);
  if (target !== undefined) requireSizes(checkpoint.folder, settings, target);
  return {
    ...checkpoint,
    settings,
    target,
    reject(fault, hint) {
      refuseOrThrow(misfit(checkpoint.folder, fault, hint));
    },
    attempt(read) {
      try {
        return read();
      } catch (fault) {
        if (!(fault instanceof MistletoeError)) throw fault;
        refuseOrThrow(fault);
        return undefined;
      }
    },
  };
}

/** Those of the optional parts and settings that a head has. */
export const listTraits = (traits: readonly (readonly [boolean, string])[]): readonly string[] =>
  traits.flatMap(([has, trait]) => (has ? [trait] : []));

const recomputed = [/(^|\.)rotary_emb\.inv_freq$/];

/**
 * Every tensor of a drafter must be read or known to be unneeded. A head without one of its parts would still draft,
 * only worse.
 */
export function listUnread(
  { tensors }: Pick<Checkpoint, 'tensors'>,
  recipes: readonly WeightRecipe[],
  unneeded: readonly RegExp[] = [],
): readonly string[] {
  const read = listRead(recipes);
  const patterns = [...recomputed, ...unneeded];
  return [...tensors.keys()].filter((name) => !read.has(name) && !patterns.some((known) => known.test(name)));
}

export function unreadProblems(unread: readonly string[]): readonly Problem[] {
  if (unread.length === 0) return [];
  return [{ problem: `The drafter ${describeUnread(unread)}.`, remedy: unreadHint }];
}

export function prepareDrafterWeights(
  checkpoint: Checkpoint,
  { recipes, unread }: Pick<DrafterDescription, 'recipes' | 'unread'>,
  { target, ...options }: DrafterOptions,
): Promise<WeightStore> {
  if (unread.length > 0) throw misfit(checkpoint.folder, describeUnread(unread), unreadHint);
  return prepareWeights(checkpoint, recipes, { ...options, runtime: target.runtime });
}

const shown = 3;

const describeUnread = (unread: readonly string[]): string =>
  `holds ${listFirst(unread, shown, quote)}, which nothing here reads`;

const unreadHint =
  'Without them it would draft worse than it can, in silence. docs/published-checkpoints.md lists the layouts that are supported.';

export function misfit(folder: string, fault: string, hint: string): MistletoeError {
  return new MistletoeError('drafter', `The drafter in ${folder} ${fault}.`, { hint });
}

export const incomplete = 'The file is incomplete: download it again.';

export const anotherTarget = 'It was trained for another target: use it with the one it belongs to.';

/** Declared sizes; tensor shapes are checked otherwise. */
function requireSizes(folder: string, config: Config, target: ModelConfiguration): void {
  const expected = [
    ['hidden size', config.target_hidden_size ?? config.hidden_size, target.hiddenSize],
    ['vocabulary size', config.vocab_size, target.vocabularySize],
  ] as const;
  for (const [what, declared, wanted] of expected) {
    if (typeof declared === 'number' && declared !== wanted) {
      throw misfit(folder, `has ${what} ${declared}; the target's is ${wanted}`, anotherTarget);
    }
  }
}

export function shapeOf({ tensors, folder }: Checkpoint, name: string): readonly number[] {
  const tensor = tensors.get(name);
  if (tensor === undefined) throw misfit(folder, `lacks the tensor ${name}`, incomplete);
  return tensor.shape;
}

/** `axis` 0 is the output, 1 the input. */
export function requireWidth(checkpoint: Checkpoint, name: string, axis: 0 | 1, wanted: number): void {
  const found = shapeOf(checkpoint, name)[axis];
  if (found !== wanted) {
    throw misfit(
      checkpoint.folder,
      `has ${name} with ${found ?? 'no'} ${axis === 0 ? 'rows' : 'columns'}; the target asks for ${wanted}`,
      anotherTarget,
    );
  }
}

type WithGraph = Pick<Drafter, 'name' | 'graph' | 'parameterCount'>;

export function requireGraph({ name, graph, parameterCount }: WithGraph): DraftGraph {
  if (graph !== undefined) return graph;
  const why = parameterCount === 0 ? 'it has no weights' : "its tokens are not the target's";
  throw new MistletoeError('drafter', `The drafter ${name} has no gradient: ${why}.`, {
    hint: "Use a drafter with weights: a draft model with the target's tokenizer, or heads such as those of Medusa or EAGLE-3.",
  });
}

export function countParameters(weights: WeightStore): number {
  let total = 0;
  for (const { shape } of weights.tensors.values())
    total += shape.reduce((product, size) => product * size, 1);
  return total;
}
