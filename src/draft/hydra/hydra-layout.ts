/** Layouts of published Hydra heads: `mlp`, and `prefix-mlp` (Hydra++) with a layer of its own. */
import * as z from '../../core/schema.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { storedSource } from '../../checkpoint/tensor-source.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import type { LayerSizes } from '../../model/decoder.js';
import { layerRecipes, linearRecipes, vectorRecipe } from '../../model/weights.js';
import type { DescribingContext, RecognisedLayout, TensorNames } from '../draft-system.js';
import { holdsDecoder, defaultHeads, type DrafterShape } from '../draft-system.js';
import { makeFresh, type Start, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import type { NewTarget } from '../fresh/new-target.js';
import { incomplete, listUnread, misfit, type Reading, startReading } from '../reading/checks.js';
import { countHeads, measureLayer, sizeOfFirst } from '../reading/draft-configuration.js';

/** Of weight names. */
export const scope = 'hydra.';

export interface HydraSizes {
  readonly heads: number;
  /** Residual blocks after the first one of each head. */
  readonly extraBlocks: number;
  readonly hasPrefix: boolean;
}

const prefixLayer = 'prefix_embeding_layer.layers.0';

export function recogniseHydra(names: TensorNames): RecognisedLayout | undefined {
  if (holdsDecoder(names) || !names.some(/^hydra_mlp\./)) return undefined;
  return { layout: names.some(/^prefix_embeding_layer\./) ? 'Hydra++ (prefix-mlp)' : 'Hydra (mlp)' };
}

const configSchema = z.object({
  hydra_num_heads: z.number().int().positive().default(4),
  hydra_num_layers: z.number().int().positive().default(1),
  hydra_head_arch: z.string().default('mlp'),
  grounded_heads: z.boolean().default(true),
  hidden_state_offset: z.number().default(0),
});
type HydraConfig = z.infer<typeof configSchema>;

export function describeHydra(checkpoint: Checkpoint, context: DescribingContext = {}) {
  const reading = startReading(checkpoint, context);
  const { target } = reading;
  const config = readConfig(reading);
  const hasPrefix = config.hydra_head_arch === 'prefix-mlp';
  const names = nameTensors(hasPrefix);
  const sizes = { hasPrefix, ...countBlocks(reading, config, names) };
  const sizeOf = (name: (head: number) => string, axis: number) =>
    sizeOfFirst(checkpoint, sizes.heads, name, axis);
  const hiddenSize = sizeOf((head) => `${names.block(head, 0)}.linear`, 0) ?? sizeOf(names.output, 1);
  const vocabularySize = sizeOf(names.output, 0);
  const width = target?.hiddenSize ?? hiddenSize ?? 1;
  const layer = target ?? measureLayer(checkpoint, prefixLayer, width);
  const recipes = hydraRecipes(sizes, layer, target?.vocabularySize ?? vocabularySize ?? 1);
  return {
    sizes,
    firstOutput: `${names.output(0)}.weight`,
    recipes,
    // The prefix layer reads embeddings; its own table is unused.
    unread: listUnread(checkpoint, recipes, [/^prefix_embeding_layer\.embed_tokens\.weight$/]),
    facts: {
      heads: sizes.heads,
      hiddenSize,
      draftVocabularySize: vocabularySize,
      expects: { hiddenSize, vocabularySize },
    },
  };
}

function readConfig({ config, reject }: Reading): HydraConfig {
  const parsed = configSchema.safeParse(config);
  if (!parsed.success) {
    const hint = 'Expected hydra_num_heads and hydra_num_layers.';
    reject("has a config.json that cannot be read as Hydra's", hint);
    return configSchema.parse({});
  }
  const { hydra_head_arch: kind, grounded_heads: isGrounded, hidden_state_offset: offset } = parsed.data;
  if (kind !== 'mlp' && kind !== 'prefix-mlp')
    reject(`has heads of kind "${kind}"`, 'Supported: mlp and prefix-mlp.');
  if (!isGrounded || offset !== 0) {
    const hint = 'Supported: grounded_heads true, hidden_state_offset 0.';
    reject('has ungrounded heads or a hidden state offset', hint);
  }
  return parsed.data;
}

interface HydraNames {
  readonly block: (head: number, block: number) => string;
  readonly output: (head: number) => string;
}

/** Dropout modules take the even places of prefix-mlp's lists. */
function nameTensors(hasPrefix: boolean): HydraNames {
  return {
    block: (head, block) => `hydra_mlp.${head}.${hasPrefix ? 2 * block + 1 : block}`,
    output: (head) => (hasPrefix ? `hydra_lm_head.${head}.1` : `hydra_lm_head.${head}`),
  };
}

/** Counts come from an untrusted file; they are limited by the tensors. */
function countBlocks(
  { tensors, reject }: Reading,
  { hydra_num_heads: heads, hydra_num_layers: layers, hydra_head_arch: kind }: HydraConfig,
  names: HydraNames,
): Pick<HydraSizes, 'heads' | 'extraBlocks'> {
  const found = countHeads(tensors, (name) => {
    const [, head, place] =
      /^hydra_(?:mlp|lm_head)\.(\d+)\.(?:(\d+)\.(?:linear|res_connection)\.)?/.exec(name) ?? [];
    if (head === undefined) return undefined;
    const block = kind === 'prefix-mlp' ? (Number(place) - 1) / 2 : Number(place);
    return { head, block: place === undefined ? undefined : String(block) };
  });
  const lost = layers > found.blocks ? names.block(0, layers - 1) : names.block(found.heads, 0);
  if (layers > found.blocks || heads > found.heads)
    reject(`lacks the tensor ${lost}.linear.weight`, incomplete);
  return {
    heads: Math.max(1, Math.min(heads, found.heads)),
    extraBlocks: Math.max(1, Math.min(layers, found.blocks)) - 1,
  };
}

function hydraRecipes(
  { heads, extraBlocks, hasPrefix }: HydraSizes,
  layer: LayerSizes,
  vocabularySize: number,
): WeightRecipe[] {
  const names = nameTensors(hasPrefix);
  const { hiddenSize } = layer;
  const ofHeads = Array.from({ length: heads }, (_, head) => {
    const name = `${scope}${head}`;
    const first = names.block(head, 0);
    const width = (head + 2) * hiddenSize;
    return [
      ...linearRecipes(`${name}.first`, `${first}.linear`, width, hiddenSize),
      ...linearRecipes(`${name}.residual`, `${first}.res_connection`, width, hiddenSize),
      ...Array.from({ length: extraBlocks }, (_, block) => {
        const source = `${names.block(head, block + 1)}.linear`;
        return linearRecipes(`${name}.block${block}`, source, hiddenSize, hiddenSize);
      }).flat(),
      ...linearRecipes(`${name}.lm_head`, names.output(head), hiddenSize, vocabularySize),
    ];
  }).flat();
  if (!hasPrefix) return ofHeads;
  return [
    ...ofHeads,
    ...layerRecipes(`${scope}prefix`, prefixLayer, layer),
    vectorRecipe(`${scope}prefix.norm.weight`, 'prefix_embeding_layer.norm.weight', hiddenSize),
  ];
}

/** Refuses heads for another width, or that do not see earlier tokens. */
export function requireGroundedHeads(
  { tensors, folder }: Checkpoint,
  { heads, hasPrefix }: HydraSizes,
  hiddenSize: number,
): void {
  const { block } = nameTensors(hasPrefix);
  for (let head = 0; head < heads; head++) {
    const found = tensors.get(`${block(head, 0)}.linear.weight`)?.shape[1];
    const width = (head + 2) * hiddenSize;
    if (found === undefined || found === width) continue;
    throw misfit(
      folder,
      `has head ${head} with ${found} inputs; ${width} were expected`,
      'It was trained for another target, or its heads are not grounded.',
    );
  }
}

/** New heads that start by drafting what the target's output says. */
export function createHydra(
  target: NewTarget,
  { heads = defaultHeads, prefixLayer: hasPrefix = false, layers = hasPrefix ? 4 : 1 }: DrafterShape,
): NewCheckpoint {
  const { name, configuration, output, embedding } = target;
  const { hiddenSize, vocabularySize } = configuration;
  const recipes = hydraRecipes({ heads, extraBlocks: layers - 1, hasPrefix }, configuration, vocabularySize);
  const startOf = (tensor: string): Start | undefined => {
    if (/^hydra_mlp\..*\.linear\.weight$/.test(tensor)) return 'zeros'; // such a block is the identity
    return /^hydra_lm_head\..*\.weight$/.test(tensor) ? { from: output } : undefined;
  };
  // Unused, but the authors' module has it and their loader expects it.
  const unused = { ...storedSource(embedding), name: 'prefix_embeding_layer.embed_tokens.weight' };
  return {
    config: {
      hydra_num_heads: heads,
      hydra_num_layers: layers,
      hydra_head_arch: hasPrefix ? 'prefix-mlp' : 'mlp',
      grounded_heads: true,
      hidden_state_offset: 0,
      base_model_name_or_path: name,
      hidden_size: hiddenSize,
      vocab_size: vocabularySize,
      torch_dtype: 'float32',
    },
    file: 'hydra_lm_head.safetensors',
    tensors: [...makeFresh(target, recipes, startOf), ...(hasPrefix ? [unused] : [])],
  };
}
