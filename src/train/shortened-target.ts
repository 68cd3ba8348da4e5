/**
 * A draft model made of its target's own layers: as wide as the target, with its embeddings, final norm and output, and a
 * few of its layers, the first and, from two on, the last among them. It knows the language from the beginning; what it
 * learns is to do without the layers between.
 */
import { readFloat32 } from '../checkpoint/read-tensor.js';
import { floatSource } from '../checkpoint/tensor-source.js';
import { MistletoeError } from '../core/errors.js';
import { decoderRecipes } from '../model/weights.js';
import { freshOf } from './fresh-tensors.js';
import type { NewCheckpoint } from './new-checkpoint.js';
import { describingFiles } from './new-checkpoint.js';
import type { NewTarget } from './new-target.js';

export function createShortenedTarget(target: NewTarget, layers: number): NewCheckpoint {
  const { config, configuration, tensors, folder } = target;
  refuseWholeTarget(layers, configuration.layerCount);
  const kept = spreadLayers(layers, configuration.layerCount);
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
    tensors: freshOf(decoderRecipes({ ...configuration, layerCount: layers }, '')).map(({ name, shape }) =>
      floatSource({ name, shape, dtype: 'F32' }, () => readFloat32(tensors.get(nameInTarget(name))!)),
    ),
    copies: describingFiles(folder),
  };
}

export function refuseWholeTarget(layers: number, layerCount: number): void {
  if (layers < layerCount) return;
  throw new MistletoeError(
    'usage',
    `A draft model of ${layers} of the target's layers was asked for; the target has ${layerCount}, and fewer were expected.`,
    { hint: 'A quarter of them or less is usual.' },
  );
}

/** [layer of the draft model] the target's: evenly from the first to the last. */
function spreadLayers(count: number, of: number): readonly number[] {
  return Array.from({ length: count }, (_, place) =>
    count === 1 ? 0 : Math.round((place * (of - 1)) / (count - 1)),
  );
}
