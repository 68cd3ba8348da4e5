/** A small language model with its target's vocabulary and folded embeddings. */
import { readFloat32 } from '../../checkpoint/read-tensor.js';
import { floatSource } from '../../checkpoint/tensor-source.js';
import { MistletoeError } from '../../core/errors.js';
import { parseConfiguration } from '../../model/configuration.js';
import { embeddingName, outputName, decoderRecipes } from '../../model/weights.js';
import { makeFresh, type Start, describingFiles, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { llamaConfig, type LayerChoice, type NewTarget } from '../fresh/new-target.js';
import type { DrafterShape } from '../training-recipe.js';

/** Two fifths of the heads and a quarter of the layers: a tenth of the weights of the target's layers. */
function chooseSizes({ configuration }: NewTarget, wanted: DrafterShape): LayerChoice {
  const { headSize, hiddenSize, intermediateSize, layerCount } = configuration;
  const groupSize = configuration.headCount / configuration.keyValueHeadCount;
  const headCount = Math.max(1, Math.round(0.4 * configuration.headCount));
  const width = wanted.hiddenSize ?? headCount * headSize;
  return {
    headCount,
    hiddenSize: width,
    keyValueHeadCount: headCount % groupSize === 0 ? headCount / groupSize : headCount,
    intermediateSize: Math.max(8, 8 * Math.floor((width * intermediateSize) / hiddenSize / 8)),
    layers: wanted.layers ?? Math.max(1, Math.round(layerCount / 4)),
  };
}

export function createDraftModel(
  target: NewTarget,
  shape: DrafterShape,
  seed: number | string,
): NewCheckpoint {
  if (shape.targetLayers !== undefined) return createShortenedTarget(target, shape.targetLayers);
  const config = llamaConfig(target, chooseSizes(target, shape));
  const recipes = decoderRecipes(parseConfiguration(config, 'the configuration of the draft model'), '');
  const startOf = (name: string): Start | undefined => {
    if (name === embeddingName) return { folded: target.embedding };
    return name === outputName ? { folded: target.output } : undefined;
  };
  return {
    config,
    file: 'model.safetensors',
    tensors: makeFresh(recipes, { seed, deviation: target.deviation, startOf }),
    copies: describingFiles(target.folder),
  };
}

/**
 * A draft model of the target's own layers: same width, embeddings, final norm and output, and a few layers from the
 * first to the last. It learns to do without the layers between.
 */
function createShortenedTarget(target: NewTarget, layers: number): NewCheckpoint {
  const { config, configuration, tensors, folder } = target;
  if (configuration.experts !== undefined) {
    throw new MistletoeError(
      'usage',
      'A draft model of the layers of a target with experts was asked for; training experts is not supported.',
      { hint: 'Leave out --target-layers for a dense draft model.' },
    );
  }
  const kept = Array.from({ length: layers }, (_, place) =>
    layers === 1 ? 0 : Math.round((place * (configuration.layerCount - 1)) / (layers - 1)),
  );
  const nameInTarget = (name: string): string =>
    name.replace(/^model\.layers\.(\d+)\./, (_, place: string) => `model.layers.${kept[Number(place)]!}.`);
  const { layer_types: types } = config;
  return {
    config: {
      ...config,
      ...(Array.isArray(types) ? { layer_types: kept.map((layer) => types[layer] as unknown) } : {}),
      num_hidden_layers: layers,
      ...('dtype' in config ? { dtype: 'float32' } : { torch_dtype: 'float32' }),
    },
    file: 'model.safetensors',
    tensors: decoderRecipes({ ...configuration, layerCount: layers }, '')
      .flatMap(({ parts }) => parts)
      .map(({ tensor: name, shape }) =>
        floatSource({ name, shape, dtype: 'F32' }, () => readFloat32(tensors.get(nameInTarget(name))!)),
      ),
    copies: describingFiles(folder),
  };
}

export function refuseTwoSizes({ targetLayers, layers, hiddenSize }: DrafterShape): void {
  if (targetLayers === undefined || (layers ?? hiddenSize) === undefined) return;
  throw new MistletoeError(
    'usage',
    `A draft model of ${targetLayers} of the target's layers has the target's sizes; ${layers === undefined ? `a width of ${hiddenSize}` : `${layers} layers`} cannot be had beside.`,
    { hint: 'Leave out --target-layers, or --layers and --hidden-size.' },
  );
}

export function refuseWholeTarget(layers: number, layerCount: number): void {
  if (layers < layerCount) return;
  throw new MistletoeError(
    'usage',
    `A draft model of ${layers} of the target's layers was asked for; the target has ${layerCount}, and fewer were expected.`,
    { hint: 'A quarter of them or less is usual.' },
  );
}
