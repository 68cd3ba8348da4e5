/**
 * Layouts of published Medusa heads: three naming schemes, and Medusa-2 with heads among its target's tensors.
 */
import * as z from '../../core/schema.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { showValue } from '../../core/json-text.js';
import { linearRecipes } from '../../model/weights.js';
import type { DescribingContext, RecognisedLayout, TensorNames } from '../draft-system.js';
import { holdsDecoder, namesOf, defaultHeads, type DrafterShape } from '../draft-system.js';
import { makeFresh, type NewCheckpoint, type Start } from '../fresh/fresh-tensors.js';
import type { NewTarget } from '../fresh/new-target.js';
import { incomplete, listUnread, startReading } from '../reading/checks.js';
import { countHeads, sizeOfFirst } from '../reading/draft-configuration.js';

/** Of weight names. */
export const scope = 'medusa.';

export interface MedusaSizes {
  readonly heads: number;
  readonly layers: number;
  /** Of the blocks; vLLM's heads have none by default. */
  readonly hasBias: boolean;
  readonly hiddenSize: number;
  readonly vocabularySize: number;
}

interface Layout {
  readonly words: string;
  readonly prefix: string;
  /** Matches a head's tensor, and the layer of a block. */
  readonly place: RegExp;
  readonly mayLackBias: boolean;
  readonly block: (head: number, layer: number) => string;
  readonly output: (head: number, layers: number) => string;
}

const numbered = (prefix: string): Layout => ({
  words: 'Medusa-1 heads',
  mayLackBias: false,
  prefix,
  place: /^(\d+)\.(?:(\d+)\.linear|\d+)\.(?:weight|bias)$/,
  block: (head, layer) => `${prefix}${head}.${layer}.linear`,
  output: (head, layers) => `${prefix}${head}.${layers}`,
});
const namedByVllm = (prefix: string): Layout => ({
  words: 'Medusa heads, vLLM naming',
  mayLackBias: true,
  prefix,
  place: /^(?:blocks\.(\d+)\.layers\.(\d+)|lm_heads\.(\d+))\.(?:weight|bias)$/,
  block: (head, layer) => `${prefix}blocks.${head}.layers.${layer}`,
  output: (head) => `${prefix}lm_heads.${head}`,
});
const authorsLayout = numbered('');
const layouts: readonly Layout[] = [
  authorsLayout,
  numbered('medusa_head.'),
  numbered('medusa_heads.'),
  namedByVllm(''),
  namedByVllm('medusa_heads.'),
];

export function recogniseMedusa(names: TensorNames): RecognisedLayout | undefined {
  if (holdsDecoder(names)) {
    return names.some(/^medusa_head\.\d+\./)
      ? { layout: 'language model with Medusa-2 heads in its shards', isTarget: true }
      : undefined;
  }
  const found = layouts.find(({ prefix, place }) =>
    names.some(new RegExp(`^${prefix.replace('.', '\\.')}${place.source.slice(1)}`)),
  );
  return found === undefined ? undefined : { layout: found.words };
}

const declaredHeads = z.number().int().positive();

export function describeMedusa(checkpoint: Checkpoint, context: DescribingContext = {}) {
  const { config, target, reject } = startReading(checkpoint, context);
  const { layout, heads: found, layers } = findLayout(checkpoint);
  if (found === 0) {
    reject(
      'holds no Medusa head that is known here',
      'Expected 0.0.linear.weight, medusa_head.0.0.linear.weight or blocks.0.layers.0.weight.',
    );
  }
  const declared = declaredHeads.safeParse(config.medusa_num_heads ?? config.num_heads);
  // Published configs may declare fewer heads than the file holds; fewer than declared is damage.
  if (declared.success && declared.data > found && found > 0)
    reject(`declares ${declared.data} heads and holds ${found}`, incomplete);
  const { logit_scale: scale } = config;
  if (scale !== undefined && scale !== null && scale !== 1)
    reject(`scales its logits by ${showValue(scale)}`, 'Heads without "logit_scale" are supported.');
  const heads = Math.max(1, found);
  const sizeOf = (name: (head: number) => string, axis: number) => sizeOfFirst(checkpoint, heads, name, axis);
  const output = (head: number): string => layout.output(head, layers);
  const hiddenSize = sizeOf((head) => layout.block(head, 0), 1) ?? sizeOf(output, 1);
  const vocabularySize = sizeOf(output, 0);
  const sizes = {
    heads,
    layers,
    hasBias: !layout.mayLackBias || config.medusa_fc_bias === true || namesOf(checkpoint).some(/\.bias$/),
    hiddenSize: target?.hiddenSize ?? hiddenSize ?? 1,
    vocabularySize: target?.vocabularySize ?? vocabularySize ?? 1,
  };
  const recipes = medusaRecipes(sizes, layout);
  // Among a target's shards, only the heads count.
  const others = holdsDecoder(namesOf(checkpoint)) ? [/^(?!medusa_head)/] : [];
  return {
    sizes,
    firstBlock: `${layout.block(0, 0)}.weight`,
    firstOutput: `${output(0)}.weight`,
    recipes,
    unread: listUnread(checkpoint, recipes, others),
    facts: {
      heads,
      hiddenSize,
      draftVocabularySize: vocabularySize,
      expects: { hiddenSize, vocabularySize },
    },
  };
}

function findLayout({ tensors }: Checkpoint) {
  const found = layouts.map((layout) => {
    const counts = countHeads(tensors, (name) => {
      const place = name.startsWith(layout.prefix) && layout.place.exec(name.slice(layout.prefix.length));
      return place ? { head: place[1] ?? place[3]!, block: place[2] } : undefined;
    });
    return { layout, heads: counts.heads, layers: Math.max(1, counts.blocks), isSeen: counts.isSeen };
  });
  return found.find(({ heads }) => heads > 0) ?? found.find(({ isSeen }) => isSeen) ?? found[0]!;
}

function medusaRecipes(
  { heads, layers, hasBias, hiddenSize, vocabularySize }: MedusaSizes,
  layout: Layout,
): WeightRecipe[] {
  return Array.from({ length: heads }, (_, head) => [
    ...Array.from({ length: layers }, (_, layer) => {
      const source = layout.block(head, layer);
      return linearRecipes(`${scope}${head}.${layer}`, source, hiddenSize, hiddenSize, hasBias);
    }).flat(),
    ...linearRecipes(
      `${scope}${head}.lm_head`,
      layout.output(head, layers),
      hiddenSize,
      vocabularySize,
      false,
    ),
  ]).flat();
}

/** New heads that start by drafting what the target's output says. */
export function createMedusa(
  target: NewTarget,
  { heads = defaultHeads, layers = 1 }: DrafterShape,
): NewCheckpoint {
  const { hiddenSize, vocabularySize } = target.configuration;
  const sizes = { heads, layers, hasBias: true, hiddenSize, vocabularySize };
  // A block of zeros is the identity.
  const startOf = (name: string): Start => (name.includes('.linear.') ? 'zeros' : { from: target.output });
  return {
    config: {
      medusa_num_heads: heads,
      medusa_num_layers: layers,
      base_model_name_or_path: target.name,
      hidden_size: hiddenSize,
      vocab_size: vocabularySize,
      torch_dtype: 'float32',
    },
    file: 'medusa_lm_head.safetensors',
    tensors: makeFresh(target, medusaRecipes(sizes, authorsLayout), startOf),
  };
}
