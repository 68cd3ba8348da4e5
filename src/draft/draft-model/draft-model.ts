/**
 * Plain speculative sampling (arXiv 2211.17192, 2302.01318): any language model with the target's vocabulary can draft. If
 * the sizes of the vocabularies differ, the common ids are the draft vocabulary.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { slice } from '../../graph/operations/shaping.js';
import { createModel } from '../../model/causal-model.js';
import { parseConfiguration } from '../../model/configuration.js';
import { embeddingTable, projectToVocabulary, runDecoder } from '../../model/decoder.js';
import { contextError } from '../../model/forward.js';
import { decoderRecipes, findUnreadTensors, requireLayers } from '../../model/weights.js';
import { hasTokenizer } from '../../text/tokenizer/tokenizer-file.js';
import { findVocabularyDifference, loadTokenizer, type Tokenizer } from '../../text/tokenizer/tokenizer.js';
import {
  holdsDecoder,
  type DrafterDescription,
  type DrafterOptions,
  type WeightedSystem,
} from '../draft-system.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import type { AttentionHead } from '../programs/attention-head.js';
import type { Vocabularies } from '../programs/scores.js';
import { dropFirst } from '../programs/states.js';
import { countParameters, misfit } from '../reading/checks.js';
import { createDraftModel, refuseTwoSizes, refuseWholeTarget } from './new-draft-model.js';

export const draftModel: WeightedSystem = {
  name: 'speculative-sampling',
  title: 'a draft model',
  recognise: (names) => (holdsDecoder(names) ? { layout: 'language model', isTarget: true } : undefined),
  describe: describeDraftModel,
  async load(checkpoint, options) {
    const { head, parameterCount } = await openDraftModel(checkpoint, options);
    return createAttentionDrafter(
      head,
      { system: draftModel.name, name: 'draft model', reads: 'tokens', taps: [], parameterCount },
      (teacher, depth) => {
        // Every depth reads the same pass: along known tokens the model sees exactly the text.
        const embeddings = teacher.embedWith(head.embedding);
        const { features, rows } = head.step(embeddings, undefined, teacher.context, { past: teacher.past });
        const all = head.score(dropFirst(dropFirst(features, 1), teacher.firstRow));
        return { logits: Array.from({ length: depth }, (_, level) => dropFirst(all, level)), rows };
      },
    );
  },
  training: {
    sizes: ['layers', 'hiddenSize', 'targetLayers'],
    // It learns the language itself, so prompts help too.
    settings: () => ({ learn: 'all' }),
    checkShape: refuseTwoSizes,
    checkTarget: ({ configuration }, { targetLayers = 0 }) => {
      refuseWholeTarget(targetLayers, configuration.layerCount);
    },
    create: createDraftModel,
  },
};

/** Throws if config.json cannot be read. */
export function describeDraftModel(checkpoint: Checkpoint): DrafterDescription {
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
}

export async function openDraftModel(
  checkpoint: Checkpoint,
  { target, tokenizer, ...options }: DrafterOptions,
): Promise<{ readonly head: AttentionHead; readonly parameterCount: number }> {
  const { folder, config } = checkpoint;
  const { vocabularySize } = parseConfiguration(config, `config.json of ${folder}`);
  const own = (await hasTokenizer(folder))
    ? await loadTokenizer(folder, { modelVocabularySize: vocabularySize })
    : undefined;
  const sizes = { target: target.configuration.vocabularySize, drafter: vocabularySize };
  requireSameVocabulary(folder, { target: tokenizer, drafter: own }, sizes);

  const { runtime } = target;
  const model = await createModel(checkpoint, { ...options, runtime, scope: 'draft.' });
  const { configuration, scope, weights } = model;
  const { contextLength, slidingWindow } = configuration;
  const vocabularies = shareVocabulary(target.configuration, configuration);
  const head: AttentionHead = {
    title: `the draft model ${model.name}`,
    runtime,
    weights: [weights],
    sizes: configuration,
    reach: contextLength,
    window: slidingWindow,
    stateWidth: 0,
    featureWidth: 0,
    vocabularies,
    rotary: model.rotary,
    embedding: embeddingTable(configuration, scope),
    fuse: (states) => states,
    step: (embeddings, _, context, memory) =>
      runDecoder(configuration, scope, embeddings, { context, ...memory }),
    score(features) {
      const logits = projectToVocabulary(configuration, scope, features);
      const { draftSize } = vocabularies;
      return draftSize === vocabularySize ? logits : slice(logits, -1, 0, draftSize);
    },
    requireContext(positions) {
      if (positions > contextLength) throw contextError(positions, configuration);
    },
  };
  return { head, parameterCount: countParameters(weights) };
}

// Whether draft model and target share a vocabulary. Models of one tokenizer are padded to different sizes (Qwen2.5:
// 151,936 rows at 0.5B, 152,064 at 7B, for 151,665 tokens). The drafter proposes from the common ids, renormalized,
// which keeps verification lossless; ids that only the target has are never proposed.
interface TokenizerPair {
  readonly target: Tokenizer | undefined;
  /** Undefined if the folder has none: it then uses the target's. */
  readonly drafter: Tokenizer | undefined;
}

interface VocabularySize {
  readonly vocabularySize: number;
}

function shareVocabulary(target: VocabularySize, drafter: VocabularySize): Vocabularies {
  const targetSize = target.vocabularySize;
  const draftSize = Math.min(targetSize, drafter.vocabularySize);
  if (draftSize === targetSize) return { targetSize, draftSize };
  return { targetSize, draftSize, targetTokens: Int32Array.from({ length: draftSize }, (_, token) => token) };
}

const sameTokenizer = "Speculative sampling needs a draft model with the target's tokenizer.";

function requireSameVocabulary(
  folder: string,
  { target, drafter }: TokenizerPair,
  sizes: { readonly target: number; readonly drafter: number },
): void {
  const sizesDiffer = sizes.target !== sizes.drafter;
  if (target === undefined || drafter === undefined) {
    if (!sizesDiffer) return;
    throw misfit(
      folder,
      `has a vocabulary of ${sizes.drafter} tokens; the target's has ${sizes.target}, and without the tokenizers of both nothing shows that the difference is padding`,
      `${sameTokenizer} Put its tokenizer.json into its folder.`,
    );
  }
  const difference = findVocabularyDifference(target, drafter);
  if (difference !== undefined) {
    const quote = (piece: string | undefined): string =>
      piece === undefined ? 'nothing' : JSON.stringify(piece);
    throw misfit(
      folder,
      `has another vocabulary: token ${difference.id} is ${quote(difference.right)} there and ${quote(difference.left)} in the target`,
      sameTokenizer,
    );
  }
  const shared = Math.min(sizes.target, sizes.drafter);
  if (sizesDiffer && shared < target.vocabularySize) {
    throw misfit(
      folder,
      `has a vocabulary of ${sizes.drafter} tokens; the target's has ${sizes.target}, and the tokenizer's ${target.vocabularySize} tokens do not fit into both`,
      sameTokenizer,
    );
  }
}
