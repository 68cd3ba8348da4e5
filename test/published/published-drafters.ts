/**
 * Published drafters: config.json with the keys and values of the releases, tiny sizes, the tensors' names and the
 * file's format. `score` is the reference, run with facts that are written here by hand.
 */
import { createRandom } from '../../src/core/random.js';
import type { WritableTensor, WritableTensors } from '../support/checkpoint/encode-values.js';
import { noise } from '../support/tiny-checkpoints.js';
import type { MedusaNames } from './float64-drafters.js';
import { scoreWithDraftModel, scoreWithPard, scoreWithHydra, scoreWithMedusa } from './float64-drafters.js';
import { scoreWithEagle } from './float64-eagle.js';
import type { LayerFacts } from './float64-layer.js';
import { Float64Model } from './float64-model.js';
import type { PublishedDrafter } from './drafter-row.js';
import { draftSizes } from './drafter-row.js';
import { blockRows } from './published-blocks.js';
import { eagle3Rows } from './published-eagle3.js';
import { mtpRows } from './published-mtp.js';
import type { Config, LayerSizes } from './published-layouts.js';
import { bias, decoderWeights, layerWeights, linear, storeAs } from './published-layouts.js';
import type { PublishedTarget } from './published-targets.js';
import { drafterTarget, paddedTarget, publishedTargets } from './published-targets.js';

const { hidden, vocabulary } = draftSizes;

interface MedusaRow extends MedusaNames {
  readonly name: string;
  readonly layout: string;
  readonly hasBias: boolean;
  readonly file: string;
  readonly config: Config;
}

function medusa({ name, layout, hasBias, file, config, ...names }: MedusaRow): PublishedDrafter {
  const random = createRandom(4, 'medusa', ...(hasBias ? [] : ['without bias']));
  const tensors: Record<string, WritableTensor> = {};
  for (let head = 0; head < 5; head++) {
    for (let layer = 0; layer < names.layers; layer++) {
      tensors[`${names.block(head, layer)}.weight`] = linear(random, hidden, hidden);
      if (hasBias) tensors[`${names.block(head, layer)}.bias`] = bias(random, hidden);
    }
    tensors[`${names.output(head)}.weight`] = linear(random, vocabulary, hidden, 3);
  }
  const stored = storeAs('F16', tensors);
  return {
    ...{ name, kind: 'medusa', layout, target: drafterTarget },
    folder: { config, file, tensors: stored },
    score: () => scoreWithMedusa(stored, names),
  };
}

/** Names and config of vLLM's own class: blocks and output projections are two lists. */
const vllmMedusa = (name: string, prefix: string, layers: number, hasBias: boolean): MedusaRow => ({
  ...{ name, layout: 'Medusa heads, vLLM naming', hasBias, layers },
  block: (head: number, layer: number): string => `${prefix}blocks.${head}.layers.${layer}`,
  output: (head: number): string => `${prefix}lm_heads.${head}`,
  file: 'model.safetensors',
  config: {
    ...{ architectures: ['MedusaModel'], model_type: 'medusa', hidden_size: hidden, vocab_size: vocabulary },
    ...{ num_heads: 5, num_hidden_layers: layers, max_paths: 64, topk: 10 },
    truncated_vocab_size: vocabulary,
    ...(hasBias ? { medusa_fc_bias: true } : {}),
  },
});

const medusaRows: readonly MedusaRow[] = [
  {
    name: 'FasterDecoding/medusa-vicuna-7b-v1.3',
    layout: 'Medusa-1 heads',
    hasBias: true,
    layers: 1,
    block: (head) => `${head}.0.linear`,
    output: (head) => `${head}.1`,
    file: 'medusa_lm_head.pt',
    // The file has five heads, whatever this says.
    config: {
      ...{ medusa_num_heads: 2, medusa_num_layers: 1, base_model_name_or_path: 'lmsys/vicuna-7b-v1.3' },
    },
  },
  vllmMedusa("Medusa in vLLM's layout", '', 1, false),
  vllmMedusa("Medusa in vLLM's layout, with biases and two layers", 'medusa_heads.', 2, true),
];

function hydra(name: string, layers: number, hasPrefix: boolean): PublishedDrafter {
  const random = createRandom(4, 'hydra', name);
  const place = (block: number): number => (hasPrefix ? 2 * block + 1 : block);
  const tensors: Record<string, WritableTensor> = {};
  const addLinear = (at: string, outputs: number, inputs: number, gain = 1): void => {
    tensors[`${at}.weight`] = linear(random, outputs, inputs, gain);
    tensors[`${at}.bias`] = bias(random, outputs);
  };
  for (let head = 0; head < 4; head++) {
    const width = (head + 2) * hidden;
    addLinear(`hydra_mlp.${head}.${place(0)}.linear`, hidden, width);
    addLinear(`hydra_mlp.${head}.${place(0)}.res_connection`, hidden, width);
    for (let block = 1; block < layers; block++)
      addLinear(`hydra_mlp.${head}.${place(block)}.linear`, hidden, hidden);
    addLinear(hasPrefix ? `hydra_lm_head.${head}.1` : `hydra_lm_head.${head}`, vocabulary, hidden, 3);
  }
  // The layer is a copy of the target's kind, grouped queries and rotary base included.
  const { facts } = drafterTarget;
  const layer: LayerSizes = { ...draftSizes, keyValueHeads: facts.keyValueHeads };
  const prefix = 'prefix_embeding_layer';
  const all: WritableTensors = hasPrefix
    ? {
        ...tensors,
        [`${prefix}.embed_tokens.weight`]: noise(random, [vocabulary, hidden], 1),
        ...layerWeights(`${prefix}.layers.0`, layer, random),
        [`${prefix}.norm.weight`]: noise(random, [hidden], 1),
      }
    : tensors;
  return {
    name,
    kind: 'hydra',
    layout: hasPrefix ? 'Hydra++ (prefix-mlp)' : 'Hydra (mlp)',
    target: drafterTarget,
    folder: {
      config: {
        ...{ hydra_num_heads: 4, hydra_num_layers: layers, grounded_heads: true, hidden_state_offset: 0 },
        ...{ hydra_head_arch: hasPrefix ? 'prefix-mlp' : 'mlp' },
        base_model_name_or_path: 'lmsys/vicuna-7b-v1.3',
      },
      file: 'hydra_lm_head.pt',
      tensors: all,
    },
    score: (target) => scoreWithHydra(all, target, { layers, ...(hasPrefix ? { prefix: facts } : {}) }),
  };
}

export interface EagleRow {
  readonly name: string;
  readonly keyValueHeads: number;
  readonly config: Readonly<Record<string, unknown>>;
  readonly hasBias: boolean;
  readonly facts: Pick<LayerFacts, 'normEpsilon' | 'rotary'>;
}

function eagle({ name, keyValueHeads, config, hasBias, facts }: EagleRow): PublishedDrafter {
  const random = createRandom(4, 'eagle', name);
  const sizes = { ...draftSizes, keyValueHeads };
  const tensors = storeAs('F16', {
    // Published files bring a table; another one than the target's shows which of the two is read.
    'embed_tokens.weight': noise(random, [vocabulary, hidden], 1),
    'fc.weight': linear(random, hidden, 2 * hidden),
    ...(hasBias ? { 'fc.bias': bias(random, hidden) } : {}),
    ...layerWeights('layers.0', sizes, random, { inputNorm: false }),
  });
  return {
    name,
    kind: 'eagle',
    layout: 'EAGLE-1/-2 or HASS head',
    target: drafterTarget,
    folder: {
      config: {
        ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_act: 'silu', pad_token_id: 0 },
        ...{ hidden_size: hidden, intermediate_size: sizes.intermediate, num_hidden_layers: 1 },
        ...{ num_attention_heads: sizes.heads, vocab_size: vocabulary, tie_word_embeddings: false },
        ...config,
      },
      file: 'pytorch_model.bin',
      tensors,
    },
    score: (target) => scoreWithEagle(tensors, target, { ...sizes, ...facts }),
  };
}

function draftModel(
  name: string,
  release: PublishedTarget,
  target: PublishedTarget,
  tokenizerSize?: number,
): PublishedDrafter {
  return {
    name,
    kind: 'decoder',
    layout: 'language model',
    target,
    folder: release.folder,
    ...(tokenizerSize === undefined ? {} : { tokenizerSize }),
    score: () =>
      scoreWithDraftModel(
        new Float64Model(release.folder.tensors, release.facts),
        Number(target.folder.config.vocab_size),
      ),
  };
}

/** amd/PARD-Qwen2.5-0.5B: the small model's own layout, and two keys in config.json. */
export const pardMask = 37;
function pard(
  name: string,
  release: PublishedTarget,
  keys: Readonly<Record<string, unknown>>,
): PublishedDrafter {
  const plain = draftModel(name, release, paddedTarget, 38);
  return {
    ...plain,
    kind: 'pard',
    layout:
      'spd_type' in keys && keys.spd_type === 'pard2'
        ? "PARD-2, in its mode without the target's features"
        : 'PARD',
    folder: { ...release.folder, config: { ...release.folder.config, ...keys } },
    score: () =>
      scoreWithPard(
        new Float64Model(release.folder.tensors, release.facts),
        Number(paddedTarget.folder.config.vocab_size),
        pardMask,
      ),
  };
}

/** double7/vicuna-68m, the draft model that Spec-Bench uses for Vicuna. */
function vicuna68m(): PublishedTarget {
  const sizes = {
    ...{ hidden: 24, intermediate: 32, heads: 3, keyValueHeads: 3, headSize: 8 },
    ...{ layers: 2, vocabulary },
  };
  return {
    name: 'double7/vicuna-68m',
    family: 'llama',
    facts: { ...sizes, normEpsilon: 1e-6, rotary: { base: 10_000 } },
    folder: {
      config: {
        ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_act: 'silu' },
        ...{ bos_token_id: 0, eos_token_id: 2, pad_token_id: 1, rms_norm_eps: 1e-6 },
        ...{ hidden_size: sizes.hidden, intermediate_size: sizes.intermediate, num_hidden_layers: 2 },
        ...{ num_attention_heads: 3, num_key_value_heads: 3, vocab_size: vocabulary },
        ...{ max_position_embeddings: 2048, rope_scaling: null, tie_word_embeddings: false },
      },
      file: 'model.safetensors',
      tensors: decoderWeights(sizes, createRandom(4, 'vicuna-68m')),
    },
  };
}

const small = publishedTargets.find(({ name }) => name === 'Qwen/Qwen2.5-0.5B-Instruct')!;

export const publishedDrafters: readonly PublishedDrafter[] = [
  draftModel('double7/vicuna-68m', vicuna68m(), drafterTarget),
  draftModel('Qwen/Qwen2.5-0.5B-Instruct for Qwen2.5-7B-Instruct', small, paddedTarget, 38),
  pard('amd/PARD-Qwen2.5-0.5B', small, { pard_token: pardMask, spd_type: 'pard' }),
  pard('amd/PARD2-Qwen3-8B, as a PARD model', small, {
    pard_token: pardMask,
    spd_type: 'pard2',
    pard2: true,
  }),
  ...medusaRows.map(medusa),
  hydra('Hydra with one layer, as ankner/hydra trains it by default', 1, false),
  hydra('ankner/hydra-vicuna-7b-v1.3', 4, true),
  eagle({
    name: 'yuhuili/EAGLE-Vicuna-7B-v1.3',
    keyValueHeads: 4, // config.json has no num_key_value_heads: as many as heads
    config: { bos_token_id: 1, eos_token_id: 2, max_position_embeddings: 2048, rms_norm_eps: 1e-6 },
    hasBias: true,
    facts: { normEpsilon: 1e-6, rotary: { base: 10_000 } },
  }),
  eagle({
    name: 'yuhuili/EAGLE-LLaMA3-Instruct-8B',
    keyValueHeads: 2,
    config: {
      ...{ bos_token_id: 128_000, eos_token_id: 128_001, max_position_embeddings: 2048, bias: false },
      ...{ num_key_value_heads: 2, rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
    },
    hasBias: false,
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 } },
  }),
  ...eagle3Rows,
  ...blockRows,
  ...mtpRows,
];
