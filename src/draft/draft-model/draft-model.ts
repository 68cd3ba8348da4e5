/** Plain speculative sampling: any language model with the target's vocabulary can draft. */
import { hasTokenizer } from '../../text/tokenizer/tokenizer-file.js';
import { loadTokenizer } from '../../text/tokenizer/tokenizer.js';
import { parseConfiguration } from '../../model/configuration.js';
import { decoderRecipes, findUnreadTensors, requireLayers } from '../../model/weights.js';
import type { WeightedSystem } from '../draft-system.js';
import { holdsDecoder } from '../draft-system.js';
import { loadDraftModel } from './speculative-sampling.js';

export const draftModel: WeightedSystem = {
  name: 'speculative-sampling',
  title: 'a draft model',
  recognise: (names) => (holdsDecoder(names) ? { layout: 'language model', isTarget: true } : undefined),
  /** Throws if config.json cannot be read. */
  describe(checkpoint) {
    const { config, folder, tensors } = checkpoint;
    const configuration = parseConfiguration(config, `config.json of ${folder}`);
    requireLayers(checkpoint, configuration.layerCount);
    const recipes = decoderRecipes(configuration, '');
    const { hiddenSize, vocabularySize } = configuration;
    return {
      recipes,
      unread: findUnreadTensors(tensors.keys(), recipes, configuration).unknown,
      facts: { hiddenSize, draftVocabularySize: vocabularySize, expects: { vocabularySize } },
    };
  },
  async load(checkpoint, { target, tokenizer, ...options }) {
    const { folder, config } = checkpoint;
    const { vocabularySize } = parseConfiguration(config, `config.json of ${folder}`);
    const own = (await hasTokenizer(folder))
      ? await loadTokenizer(folder, { modelVocabularySize: vocabularySize })
      : undefined;
    return loadDraftModel(checkpoint, target, { target: tokenizer, drafter: own }, options);
  },
};
