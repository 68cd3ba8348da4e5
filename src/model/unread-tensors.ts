/**
 * Every tensor of a checkpoint is read, known to be unneeded, or the reason for a refusal: a decoder that is run
 * without a part of it writes fluent and wrong text, and nothing else would say so.
 */
import type { MistletoeError } from '../core/errors.js';
import { quote, refuse } from '../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import { listRead } from '../checkpoint/weight-recipe.js';
import type { ModelConfiguration } from './configuration.js';
import { families } from './configuration.js';
import { outputName } from './tied-output.js';

export interface UnneededTensor {
  readonly name: string;
  /** Why nothing is lost without it. */
  readonly reason: string;
}

export interface UnreadTensors {
  readonly unneeded: readonly UnneededTensor[];
  readonly unknown: readonly string[];
}

const unneededAlways: readonly { readonly pattern: RegExp; readonly reason: string }[] = [
  {
    pattern: /(^|\.)rotary_emb\.(inv_freq|cos_cached|sin_cached)$/,
    reason: 'computed from config.json',
  },
  { pattern: /\.self_attn\.(bias|masked_bias)$/, reason: 'the mask of older exports' },
  { pattern: /^medusa_head\./, reason: 'heads of Medusa-2, which a drafter reads' },
];

/** What the recipes leave in the checkpoint. */
export function findUnreadTensors(
  names: Iterable<string>,
  recipes: readonly WeightRecipe[],
  { tiedEmbeddings }: Pick<ModelConfiguration, 'tiedEmbeddings'>,
): UnreadTensors {
  const read = listRead(recipes);
  const unneeded: UnneededTensor[] = [];
  const unknown: string[] = [];
  for (const name of names) {
    if (read.has(name)) continue;
    const known =
      tiedEmbeddings && name === outputName
        ? { reason: 'tied to the embedding' }
        : unneededAlways.find(({ pattern }) => pattern.test(name));
    if (known === undefined) unknown.push(name);
    else unneeded.push({ name, reason: known.reason });
  }
  return { unneeded, unknown };
}

const shown = 3;

/** The refusal that unknown tensors deserve; undefined where there are none. */
export function describeUnknownTensors(
  place: string,
  { unknown }: UnreadTensors,
  { family, layerCount }: Pick<ModelConfiguration, 'family' | 'layerCount'>,
): MistletoeError | undefined {
  if (unknown.length === 0) return undefined;
  const named = unknown.slice(0, shown).map(quote).join(', ');
  const more = unknown.length > shown ? ` and ${unknown.length - shown} more` : '';
  return refuse(
    `${place} holds ${named}${more}, which a ${families[family].name} decoder of ${layerCount} layers does not read`,
    'Without them it would be another model: check architectures, num_hidden_layers, attention_bias and ' +
      'tie_word_embeddings in config.json, or take it and the weights from the same checkpoint.',
  );
}
