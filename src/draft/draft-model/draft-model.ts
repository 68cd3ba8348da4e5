/**
 * Plain speculative sampling (arXiv 2211.17192, 2302.01318): any language model can draft. If only the sizes of the
 * vocabularies differ, the common ids are the draft vocabulary; if the tokenizers differ, see other-vocabulary.ts.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { slice } from '../../graph/operations/shaping.js';
import { createModel } from '../../model/causal-model.js';
import { parseConfiguration } from '../../model/configuration.js';
import { embeddingTable, projectToVocabulary, runDecoder } from '../../model/decoder.js';
import { contextError } from '../../model/forward.js';
import { decoderRecipes, findUnreadTensors, requireLayers } from '../../model/weights.js';
import {
  holdsDecoder,
  type DrafterDescription,
  type DrafterOptions,
  type WeightedSystem,
} from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import type { AttentionHead } from '../programs/attention-head.js';
import { dropFirst } from '../programs/states.js';
import { countParameters } from '../reading/checks.js';
import { findStart } from './draft-text.js';
import { createDraftModel, refuseTwoSizes, refuseWholeTarget } from './new-draft-model.js';
import { translateDrafter } from './other-vocabulary.js';
import {
  describeSharing,
  findOtherVocabulary,
  readTokenizers,
  requireSameVocabulary,
  type TokenizerPair,
} from './vocabulary-match.js';

export const draftModel: WeightedSystem = {
  name: 'speculative-sampling',
  title: 'a draft model',
  recognise: (names) => (holdsDecoder(names) ? { layout: 'language model', isTarget: true } : undefined),
  describe: describeDraftModel,
  async load(checkpoint, options) {
    const pair = await readTokenizers(checkpoint, options);
    const other = findOtherVocabulary(checkpoint.folder, pair);
    if (other === undefined) return createDrafter(await openDraftModel(checkpoint, options, pair));
    options.onNotice?.(
      `The draft model ${checkpoint.folder} has another vocabulary. ${describeSharing(other)}.`,
    );
    const inner = createDrafter(await openModel(checkpoint, options));
    return translateDrafter(inner, { ...other, start: await findStart(other.draft) });
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

function createDrafter({ head, parameterCount }: OpenedModel): Drafter {
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
}

interface OpenedModel {
  readonly head: AttentionHead;
  readonly parameterCount: number;
}

/** Refuses a model with another vocabulary than the target's. */
export async function openDraftModel(
  checkpoint: Checkpoint,
  options: DrafterOptions,
  pair?: TokenizerPair,
): Promise<OpenedModel> {
  requireSameVocabulary(checkpoint.folder, pair ?? (await readTokenizers(checkpoint, options)));
  return openModel(checkpoint, options, options.target.configuration.vocabularySize);
}

async function openModel(
  checkpoint: Checkpoint,
  { target, ...options }: DrafterOptions,
  size?: number,
): Promise<OpenedModel> {
  const { runtime } = target;
  const model = await createModel(checkpoint, { ...options, runtime, scope: 'draft.' });
  const { configuration, scope, weights } = model;
  const { contextLength, slidingWindow, vocabularySize } = configuration;
  const targetSize = size ?? vocabularySize;
  // Models of one tokenizer are padded to different sizes (Qwen2.5: 151,936 rows at 0.5B, 152,064 at 7B, for 151,665
  // tokens). The drafter proposes from the common ids, renormalized, which keeps verification lossless.
  const draftSize = Math.min(targetSize, vocabularySize);
  const targetTokens =
    draftSize === targetSize ? undefined : Int32Array.from({ length: draftSize }, (_, token) => token);
  const head: AttentionHead = {
    title: `the draft model ${model.name}`,
    runtime,
    weights: [weights],
    sizes: configuration,
    reach: contextLength,
    window: slidingWindow,
    stateWidth: 0,
    featureWidth: 0,
    vocabularies: { targetSize, draftSize, targetTokens },
    rotary: model.rotary,
    embedding: embeddingTable(configuration, scope),
    fuse: (states) => states,
    step: (embeddings, _, context, memory) =>
      runDecoder(configuration, scope, embeddings, { context, ...memory }),
    score(features) {
      const logits = projectToVocabulary(configuration, scope, features);
      return draftSize === vocabularySize ? logits : slice(logits, -1, 0, draftSize);
    },
    requireContext(positions) {
      if (positions > contextLength) throw contextError(positions, configuration);
    },
  };
  return { head, parameterCount: countParameters(weights) };
}
