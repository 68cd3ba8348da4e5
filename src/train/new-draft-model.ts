/** A small language model with its target's vocabulary, that begins with what the target knows of it. */
import { MistletoeError } from '../core/errors.js';
import { parseConfiguration } from '../model/configuration.js';
import { embeddingName, outputName } from '../model/tied-output.js';
import { decoderRecipes } from '../model/weights.js';
import { freshOf, makeFresh } from './fresh-tensors.js';
import type { NewCheckpoint } from './new-checkpoint.js';
import { describingFiles } from './new-checkpoint.js';
import type { LayerChoice, NewTarget } from './new-target.js';
import { llamaConfig } from './new-target.js';

/** Two fifths of the heads and a quarter of the layers: a tenth of what its target's layers take. */
export function chooseDraftModel({ configuration }: NewTarget, wanted: Partial<LayerChoice>): LayerChoice {
  const { headSize, hiddenSize, intermediateSize, layerCount } = configuration;
  const groupSize = configuration.headCount / configuration.keyValueHeadCount;
  const headCount = wanted.headCount ?? Math.max(1, Math.round(0.4 * configuration.headCount));
  const width = wanted.hiddenSize ?? headCount * headSize;
  return {
    headCount,
    hiddenSize: width,
    keyValueHeadCount:
      wanted.keyValueHeadCount ?? (headCount % groupSize === 0 ? headCount / groupSize : headCount),
    intermediateSize:
      wanted.intermediateSize ?? Math.max(8, 8 * Math.floor((width * intermediateSize) / hiddenSize / 8)),
    layers: wanted.layers ?? Math.max(1, Math.round(layerCount / 4)),
  };
}

export function createDraftModel(
  target: NewTarget,
  choice: LayerChoice,
  seed: number | string,
): NewCheckpoint {
  const { headCount, keyValueHeadCount } = choice;
  if (headCount % keyValueHeadCount !== 0) {
    throw new MistletoeError(
      'usage',
      `A draft model cannot have ${headCount} heads for ${keyValueHeadCount} key-value heads; a multiple was expected.`,
    );
  }
  const config = llamaConfig(target, choice);
  const recipes = decoderRecipes(parseConfiguration(config, 'the configuration of the draft model'), '');
  const tables = new Map([
    [embeddingName, target.embedding],
    [outputName, target.output],
  ]);
  const fresh = freshOf(recipes).map((tensor) => {
    const folded = tables.get(tensor.name);
    return folded === undefined ? tensor : { ...tensor, start: { folded } };
  });
  return {
    config,
    file: 'model.safetensors',
    tensors: makeFresh(fresh, { seed, deviation: target.deviation }),
    copies: describingFiles(target.folder),
  };
}
