/** A tiny drafter of every system in every published layout, made for the target of tiny-checkpoints. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WritableTensor, WritableTensors } from './checkpoint/encode-values.js';
import { writeSafetensors } from './checkpoint/write-safetensors.js';
import { blockVariants } from './tiny-blocks.js';
import type { Random } from '../../src/core/random.js';
import { createRandom } from '../../src/core/random.js';
import type { TinySizes } from './tiny-checkpoints.js';
import {
  createWorld,
  decoderTensors,
  layerTensors,
  llamaConfig,
  matrix,
  noise,
  normWeight,
  writeCheckpoint,
  writeDecoder,
} from './tiny-checkpoints.js';

export interface DrafterVariant {
  readonly name: string;
  readonly kind: string;
  readonly layout: string;
  readonly maximumDepth: number;
  /** What loadDrafter is given. */
  write(folder: string, sizes: TinySizes): string;
}

const medusaHeads = 4;
type MedusaNames = readonly [
  block: (head: number, layer: number) => string,
  output: (head: number, layers: number) => string,
];
export const numbered = (prefix: string): MedusaNames => [
  (head, layer) => `${prefix}${head}.${layer}.linear`,
  (head, layers) => `${prefix}${head}.${layers}`,
];
const namedByVllm = (prefix: string): MedusaNames => [
  (head, layer) => `${prefix}blocks.${head}.layers.${layer}`,
  (head) => `${prefix}lm_heads.${head}`,
];

export function medusaTensors(sizes: TinySizes, [block, output]: MedusaNames, layers = 1): WritableTensors {
  const { hiddenSize } = sizes;
  const random = createRandom(2, 'medusa');
  const world = createWorld(sizes);
  const entries = Array.from({ length: medusaHeads }, (_, head) => [
    ...Array.from({ length: layers }, (_, layer) => [
      [`${block(head, layer)}.weight`, noise(random, [hiddenSize, hiddenSize], 0.1)],
      [`${block(head, layer)}.bias`, noise(random, [hiddenSize], 0.1)],
    ]).flat(),
    [`${output(head, layers)}.weight`, world.outputFor(head + 2, random)],
  ]).flat();
  return Object.fromEntries(entries) as WritableTensors;
}

/** Hydra's lists hold a dropout before every block in the prefix-mlp form, so that blocks stand at odd places. */
export function hydraTensors(sizes: TinySizes, layers: number, hasPrefix: boolean): WritableTensors {
  const { hiddenSize, vocabularySize } = sizes;
  const random = createRandom(2, 'hydra');
  const world = createWorld(sizes);
  const place = (block: number): number => (hasPrefix ? 2 * block + 1 : block);
  const tensors: Record<string, WritableTensors[string]> = {};
  for (let head = 0; head < 4; head++) {
    const width = (head + 2) * hiddenSize;
    const first = `hydra_mlp.${head}.${place(0)}`;
    tensors[`${first}.linear.weight`] = noise(random, [hiddenSize, width], 0.05);
    tensors[`${first}.linear.bias`] = noise(random, [hiddenSize], 0.1);
    const lastToken = (row: number, column: number): number =>
      column === (head + 1) * hiddenSize + row ? 1 : 0;
    tensors[`${first}.res_connection.weight`] = matrix(random, [hiddenSize, width], lastToken, 0.2);
    tensors[`${first}.res_connection.bias`] = noise(random, [hiddenSize], 0.1);
    for (let block = 1; block < layers; block++) {
      const name = `hydra_mlp.${head}.${place(block)}.linear`;
      tensors[`${name}.weight`] = noise(random, [hiddenSize, hiddenSize], 0.05);
      tensors[`${name}.bias`] = noise(random, [hiddenSize], 0.1);
    }
    const output = `hydra_lm_head.${head}${hasPrefix ? '.1' : ''}`;
    tensors[`${output}.weight`] = world.outputFor(1, random);
    tensors[`${output}.bias`] = noise(random, [vocabularySize], 0.2);
  }
  if (!hasPrefix) return tensors;
  const prefix = 'prefix_embeding_layer';
  return {
    ...tensors,
    [`${prefix}.embed_tokens.weight`]: noise(random, [vocabularySize, hiddenSize], 1),
    ...layerTensors(`${prefix}.layers.0`, sizes, random, { deviation: 0.3 }),
    [`${prefix}.norm.weight`]: normWeight(random, hiddenSize),
  };
}

export interface EagleShape {
  readonly bias: boolean;
  /** The target's table again, or one of its own; then it has an output projection of its own too. */
  readonly embedding: boolean | 'own';
  readonly prefix?: string;
}

export function eagleTensors(
  sizes: TinySizes,
  { bias, embedding, prefix = '' }: EagleShape,
): WritableTensors {
  const { hiddenSize } = sizes;
  const random = createRandom(2, 'eagle');
  const takeEmbedding = (row: number, column: number): number => (row === column ? 1 : 0);
  return {
    [`${prefix}fc.weight`]: matrix(random, [hiddenSize, 2 * hiddenSize], takeEmbedding, 0.25),
    ...(bias ? { [`${prefix}fc.bias`]: noise(random, [hiddenSize], 0.1) } : {}),
    ...layerTensors(`${prefix}layers.0`, sizes, random, { inputNorm: false }),
    ...(embedding === true ? { [`${prefix}embed_tokens.weight`]: createWorld(sizes).embedding } : {}),
    ...(embedding === 'own'
      ? {
          [`${prefix}embed_tokens.weight`]: disturb(createWorld(sizes).embedding, random),
          'lm_head.weight': createWorld(sizes).outputFor(1, random),
        }
      : {}),
  };
}

/** The same tensor, a little off. */
function disturb({ dtype, shape, values }: WritableTensor, random: Random): WritableTensor {
  const { values: noises } = noise(random, shape, 0.2);
  return {
    dtype,
    shape,
    values: Array.from(values, (value, index) => value + noises[index]!),
  };
}

/** Reads mostly the token, as the tiny EAGLE head does. */
export function mtpTensors(sizes: TinySizes): WritableTensors {
  const { hiddenSize, headCount, keyValueHeadCount } = sizes;
  const random = createRandom(2, 'mtp');
  const module = 'model.mtp_layers.0';
  const takeEmbedding = (row: number, column: number): number => (column === hiddenSize + row ? 1 : 0);
  const keyValueWidth = (hiddenSize / headCount) * keyValueHeadCount;
  return {
    [`${module}.token_layernorm.weight`]: normWeight(random, hiddenSize),
    [`${module}.hidden_layernorm.weight`]: normWeight(random, hiddenSize),
    [`${module}.final_layernorm.weight`]: normWeight(random, hiddenSize),
    [`${module}.input_proj.weight`]: matrix(random, [hiddenSize, 2 * hiddenSize], takeEmbedding, 0.25),
    ...layerTensors(module, sizes, random),
    [`${module}.self_attn.q_proj.bias`]: noise(random, [hiddenSize], 0.3),
    [`${module}.self_attn.k_proj.bias`]: noise(random, [keyValueWidth], 0.3),
    [`${module}.self_attn.v_proj.bias`]: noise(random, [keyValueWidth], 0.3),
  };
}

function mtp(isInTarget: boolean): DrafterVariant {
  return {
    name: isInTarget ? "MTP in the target's shards" : 'MTP',
    kind: isInTarget ? 'decoder' : 'mtp',
    layout: isInTarget ? 'language model with an MTP module of MiMo' : 'MTP module of MiMo',
    maximumDepth: Infinity,
    write: (folder, sizes) =>
      writeCheckpoint(
        folder,
        'model.safetensors',
        { ...(isInTarget ? decoderTensors(sizes) : {}), ...mtpTensors(sizes) },
        { ...llamaConfig(sizes), num_nextn_predict_layers: 1 },
      ),
  };
}

export interface Eagle3Shape {
  /** Tokens that the drafter knows; all where absent, and then without d2t and t2d. */
  readonly draftTokens?: readonly number[] | undefined;
  readonly layer?: string;
  readonly prefix?: string;
  readonly taps?: number;
  readonly embedding?: 'own';
  /** Biases, and norms of queries and keys. */
  readonly extras?: boolean;
  readonly fusionNorm?: 'joined' | 'each';
  readonly layers?: number;
  readonly hasMask?: boolean;
}

export function eagle3Tensors(sizes: TinySizes, shape: Eagle3Shape): WritableTensors {
  const { draftTokens, layer = 'midlayer', prefix = '', taps = 3, extras = false, fusionNorm } = shape;
  const { hiddenSize, vocabularySize } = sizes;
  const random = createRandom(2, 'eagle3');
  const world = createWorld(sizes);
  const width = taps * hiddenSize;
  const meanTap = (row: number, column: number): number => (column % hiddenSize === row ? 1 / taps : 0);
  const known = new Set(draftTokens);
  return {
    [`${prefix}fc.weight`]: matrix(random, [hiddenSize, width], meanTap, 0.05),
    [`${prefix}${layer}.hidden_norm.weight`]: normWeight(random, hiddenSize),
    ...layerTensors(`${prefix}${layer}`, sizes, random, { attentionInputSize: 2 * hiddenSize }),
    ...furtherLayers(sizes, prefix, shape.layers, random),
    ...(shape.hasMask === true ? { [`${prefix}mask_hidden`]: noise(random, [1, 1, width], 1) } : {}),
    [`${prefix}norm.weight`]: normWeight(random, hiddenSize),
    'lm_head.weight': world.outputFor(2, random, draftTokens),
    ...(extras ? extraTensors(sizes, `${prefix}${layer}`, prefix, draftTokens, random) : {}),
    ...(shape.embedding === 'own'
      ? { [`${prefix}embed_tokens.weight`]: disturb(world.embedding, random) }
      : {}),
    ...(fusionNorm === 'joined' ? { [`${prefix}input_norm.weight`]: normWeight(random, width) } : {}),
    ...(fusionNorm === 'each'
      ? Object.fromEntries(
          Array.from({ length: taps }, (_, tap) => [
            `${prefix}fc_norm.${tap}.weight`,
            normWeight(random, hiddenSize),
          ]),
        )
      : {}),
    ...(draftTokens === undefined
      ? {}
      : {
          d2t: {
            dtype: 'I64',
            shape: [draftTokens.length],
            values: draftTokens.map((token, draft) => token - draft),
          },
          t2d: {
            dtype: 'BOOL',
            shape: [vocabularySize],
            values: Array.from({ length: vocabularySize }, (_, token) => (known.has(token) ? 1 : 0)),
          },
        }),
  };
}

function furtherLayers(sizes: TinySizes, prefix: string, count = 1, random: Random): WritableTensors {
  const layers = Array.from({ length: count - 1 }, (_, index) =>
    layerTensors(`${prefix}layers.${index + 1}`, sizes, random),
  );
  return Object.fromEntries(layers.flatMap((layer) => Object.entries(layer)));
}

function extraTensors(
  sizes: TinySizes,
  layer: string,
  prefix: string,
  draftTokens: readonly number[] | undefined,
  random: Random,
): WritableTensors {
  const { hiddenSize, headCount, keyValueHeadCount, vocabularySize } = sizes;
  const headSize = hiddenSize / headCount;
  const bias = (size: number): WritableTensor => noise(random, [size], 0.3);
  return {
    [`${prefix}fc.bias`]: bias(hiddenSize),
    'lm_head.bias': bias(draftTokens?.length ?? vocabularySize),
    [`${layer}.self_attn.q_proj.bias`]: bias(hiddenSize),
    [`${layer}.self_attn.k_proj.bias`]: bias(headSize * keyValueHeadCount),
    [`${layer}.self_attn.v_proj.bias`]: bias(headSize * keyValueHeadCount),
    [`${layer}.self_attn.o_proj.bias`]: bias(hiddenSize),
    [`${layer}.self_attn.q_norm.weight`]: normWeight(random, headSize),
    [`${layer}.self_attn.k_norm.weight`]: normWeight(random, headSize),
  };
}

/** Two of three tokens, which leaves gaps of different width. */
export function someTokens({ vocabularySize }: TinySizes): number[] {
  return Array.from({ length: vocabularySize }, (_, token) => token).filter((token) => token % 3 !== 1);
}

/** A target with Medusa-2 heads, in two shards with an index. */
export function writeMedusa2(folder: string, sizes: TinySizes): string {
  mkdirSync(folder, { recursive: true });
  const shards: Readonly<Record<string, WritableTensors>> = {
    'model-00001-of-00002.safetensors': decoderTensors(sizes),
    'model-00002-of-00002.safetensors': medusaTensors(sizes, numbered('medusa_head.')),
  };
  const weightMap: Record<string, string> = {};
  for (const [file, tensors] of Object.entries(shards)) {
    writeSafetensors(join(folder, file), tensors);
    for (const name of Object.keys(tensors)) weightMap[name] = file;
  }
  writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ weight_map: weightMap }));
  const config = { ...llamaConfig(sizes), medusa_num_heads: medusaHeads, medusa_num_layers: 1 };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  return folder;
}

function medusa(name: string, file: string, names: MedusaNames, layout: string, layers = 1): DrafterVariant {
  return {
    name,
    kind: 'medusa',
    layout,
    maximumDepth: medusaHeads,
    write: (folder, sizes) =>
      writeCheckpoint(folder, file, medusaTensors(sizes, names, layers), {
        medusa_num_heads: 2, // as the published configs say, whatever the file holds
        medusa_num_layers: layers,
      }),
  };
}

function hydra(name: string, layers: number, hasPrefix: boolean): DrafterVariant {
  return {
    name,
    kind: 'hydra',
    layout: hasPrefix ? 'Hydra++ (prefix-mlp)' : 'Hydra (mlp)',
    maximumDepth: 4,
    write: (folder, sizes) =>
      writeCheckpoint(folder, 'hydra_lm_head.pt', hydraTensors(sizes, layers, hasPrefix), {
        hydra_num_heads: 4,
        hydra_num_layers: layers,
        hydra_head_arch: hasPrefix ? 'prefix-mlp' : 'mlp',
        grounded_heads: true,
        hidden_state_offset: 0,
      }),
  };
}

function eagle(name: string, file: string, shape: EagleShape): DrafterVariant {
  return {
    name,
    kind: 'eagle',
    layout: 'EAGLE-1/-2 or HASS head',
    maximumDepth: Infinity,
    write: (folder, sizes) =>
      writeCheckpoint(folder, file, eagleTensors(sizes, shape), {
        ...llamaConfig({ ...sizes, layerCount: 1 }),
        ...(shape.bias ? {} : { bias: false }),
      }),
  };
}

type Eagle3Settings = Omit<Eagle3Shape, 'draftTokens'> & {
  readonly isSmaller: boolean;
  readonly config?: Readonly<Record<string, unknown>>;
};

function eagle3(name: string, file: string, settings: Eagle3Settings): DrafterVariant {
  return {
    name,
    kind: 'eagle3',
    layout: settings.layer === 'layers.0' ? 'EAGLE-3 head, layers.0 naming' : 'EAGLE-3 head',
    maximumDepth: Infinity,
    write(folder, sizes) {
      const draftTokens = settings.isSmaller ? someTokens(sizes) : undefined;
      return writeCheckpoint(folder, file, eagle3Tensors(sizes, { ...settings, draftTokens }), {
        ...llamaConfig({ ...sizes, layerCount: 1 }),
        draft_vocab_size: draftTokens?.length ?? sizes.vocabularySize,
        ...settings.config,
      });
    },
  };
}

/** As vLLM's library writes it: the layer's settings one level down, no norm_before_residual, which means true. */
function speculators(name: string): DrafterVariant {
  return {
    name,
    kind: 'eagle3',
    layout: 'EAGLE-3 head, layers.0 naming',
    maximumDepth: Infinity,
    write(folder, sizes) {
      const draftTokens = someTokens(sizes);
      const tensors = eagle3Tensors(sizes, { draftTokens, layer: 'layers.0', embedding: 'own' });
      return writeCheckpoint(folder, 'model.safetensors', tensors, {
        architectures: ['Eagle3Speculator'],
        speculators_model_type: 'eagle3',
        draft_vocab_size: draftTokens.length,
        transformer_layer_config: { ...llamaConfig({ ...sizes, layerCount: 1 }), rope_theta: 50_000 },
      });
    },
  };
}

const draftModel: DrafterVariant = {
  name: 'draft model',
  kind: 'decoder',
  layout: 'language model',
  maximumDepth: Infinity,
  write: (folder, sizes) =>
    writeDecoder(folder, { ...sizes, hiddenSize: 12, headCount: 2, keyValueHeadCount: 1, layerCount: 2 }, 7),
};

const pard: DrafterVariant = {
  name: 'PARD',
  kind: 'pard',
  layout: 'PARD',
  maximumDepth: Infinity,
  write(folder, sizes) {
    const own = { ...sizes, hiddenSize: 12, headCount: 2, keyValueHeadCount: 1, layerCount: 2 };
    return writeCheckpoint(folder, 'model.safetensors', decoderTensors(own, 7), {
      ...llamaConfig(own),
      ...{ pard_token: 3, spd_type: 'pard' },
    });
  },
};

/** Every drafter that lies in a folder. */
export const drafterVariants: readonly DrafterVariant[] = [
  draftModel,
  {
    ...draftModel,
    name: 'draft model equal to the target',
    write: (folder, sizes) => writeDecoder(folder, sizes),
  },
  pard,
  medusa('Medusa, torch file', 'medusa_lm_head.pt', numbered(''), 'Medusa-1 heads'),
  medusa('Medusa, safetensors, two layers', 'medusa_lm_head.safetensors', numbered(''), 'Medusa-1 heads', 2),
  medusa('Medusa, vLLM naming', 'model.safetensors', namedByVllm(''), 'Medusa heads, vLLM naming'),
  {
    name: "Medusa-2 in the target's shards",
    kind: 'decoder',
    layout: 'language model with Medusa-2 heads in its shards',
    maximumDepth: medusaHeads,
    write: writeMedusa2,
  },
  hydra('Hydra, one layer', 1, false),
  hydra('Hydra, three layers', 3, false),
  hydra('Hydra++', 4, true),
  eagle('EAGLE, torch file, with bias', 'pytorch_model.bin', { bias: true, embedding: true }),
  eagle('EAGLE, safetensors, without bias', 'model.safetensors', { bias: false, embedding: false }),
  eagle('EAGLE below model.', 'model.safetensors', { bias: true, embedding: true, prefix: 'model.' }),
  eagle3('EAGLE-3 with d2t', 'pytorch_model.bin', { isSmaller: true }),
  eagle3("EAGLE-3 with the target's vocabulary", 'model.safetensors', { isSmaller: false }),
  eagle3('EAGLE-3 by SpecForge', 'model.safetensors', {
    isSmaller: true,
    config: { architectures: ['LlamaForCausalLMEagle3'] },
  }),
  eagle3('EAGLE-3, layers.0 naming', 'model.safetensors', { isSmaller: true, layer: 'layers.0' }),
  eagle('EAGLE with tables of its own', 'model.safetensors', { bias: true, embedding: 'own' }),
  eagle3('EAGLE-3 with taps of its own', 'model.safetensors', {
    isSmaller: true,
    taps: 2,
    config: { eagle_aux_hidden_state_layer_ids: [0, 3] },
  }),
  eagle3('EAGLE-3 with taps named by outputs', 'model.safetensors', {
    isSmaller: true,
    taps: 2,
    config: {
      architectures: ['LlamaForCausalLMEagle3'],
      eagle_config: { eagle_aux_hidden_state_layer_ids: [1, 2] },
    },
  }),
  eagle3('EAGLE-3 with biases, norms of queries and keys, and embeddings of its own', 'model.safetensors', {
    ...{ isSmaller: true, extras: true, embedding: 'own' },
    config: { attention_bias: true },
  }),
  eagle3('EAGLE-3 with a norm before the fusion', 'model.safetensors', {
    ...{ isSmaller: true, layer: 'layers.0', fusionNorm: 'joined' },
    config: { eagle_config: { norm_before_fc: true }, norm_before_residual: true },
  }),
  eagle3('EAGLE 3.1', 'model.safetensors', {
    ...{ isSmaller: true, layer: 'layers.0', fusionNorm: 'each' },
    config: { fc_norm: true, norm_output: true },
  }),
  speculators('EAGLE-3 in the speculators format'),
  eagle3('EAGLE-3 of two layers', 'model.safetensors', {
    ...{ isSmaller: true, layers: 2, layer: 'layers.0' },
    config: { num_hidden_layers: 2 },
  }),
  {
    ...eagle3('P-EAGLE', 'model.safetensors', {
      ...{ isSmaller: true, layers: 2, hasMask: true },
      config: { num_hidden_layers: 2, mask_token_id: 3 },
    }),
    ...{ kind: 'p-eagle', layout: 'P-EAGLE head' },
  },
  ...blockVariants,
  mtp(false),
  mtp(true),
];

/** A drafter without weights: there is nothing to write, and nothing to recognise. */
export const ngramVariant: DrafterVariant = {
  name: 'ngram',
  kind: 'ngram',
  layout: 'none',
  maximumDepth: Infinity,
  write: () => 'ngram:1,3',
};

/** Drafters that propose into one tree. */
export const joinVariants = (...variants: readonly DrafterVariant[]): DrafterVariant => ({
  name: variants.map(({ name }) => name).join('+'),
  kind: variants.at(-1)!.kind,
  layout: 'none',
  maximumDepth: Math.min(...variants.map(({ maximumDepth }) => maximumDepth)),
  write: (folder, sizes) =>
    variants.map((variant, index) => variant.write(`${folder}-${index}`, sizes)).join('+'),
});

const variantOf = (name: string): DrafterVariant => drafterVariants.find((variant) => variant.name === name)!;

/** Matches of the lookup may be short, so that both of them draft. */
export const hybridVariant = joinVariants(ngramVariant, variantOf('EAGLE-3 with d2t'));
/** Two that draw above temperature 0. */
export const drawnVariant = joinVariants(variantOf('draft model'), variantOf('EAGLE-3 with d2t'));

const plainestLayouts = ['draft model', 'PARD', 'Medusa, torch file', 'Hydra++', 'EAGLE, torch file, with bias', 'EAGLE-3 with d2t', 'P-EAGLE', 'MTP', 'DFlash', 'DSpark']; // prettier-ignore

/** One drafter of each system, for suites about systems rather than layouts. */
export const oneOfEachSystem = drafterVariants.filter(({ name }) => plainestLayouts.includes(name));
