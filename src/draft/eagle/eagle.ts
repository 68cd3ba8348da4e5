/**
 * EAGLE (arXiv 2401.15077) and EAGLE-2: one Llama layer without input norm reads fc [e(x_t+1); f_t] and predicts the
 * target's next feature; the target's output projection turns it into tokens. HASS (arXiv 2408.15766) trains the same
 * head in another way.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { concatenate } from '../../graph/operations/shaping.js';
import { projectToVocabulary, project, runLayer } from '../../model/decoder.js';
import { anotherTarget, misfit, requireSizes, requireWidth } from '../reading/checks.js';
import { prepareDrafterWeights, type DrafterOptions, type WeightedSystem } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { createEagleDrafter, ofLayer, type EagleHead } from './eagle-drafter.js';
import { describeEagleFacts } from './eagle-facts.js';
import { describeEagle } from './eagle-parts.js';
import { createEagle } from './new-eagle.js';

const scope = 'eagle.';

export const eagle: WeightedSystem = {
  name: 'eagle',
  title: 'EAGLE-1/-2',
  recognise: (names) =>
    names.some(/^(model\.)?fc\.weight$/) && names.some(/^(model\.)?layers\.0\.self_attn\.q_proj\.weight$/)
      ? { layout: 'EAGLE-1/-2 or HASS head' }
      : undefined,
  describe(checkpoint, refuse) {
    const parts = describeEagle(checkpoint, '', { refuse });
    return { ...parts, facts: describeEagleFacts(checkpoint, parts) };
  },
  load: loadEagle,
  training: {
    sizes: [],
    settings: () => ({ featureWeight: 1, labelWeight: 0.1, noise: 0.2 }),
    create: (target, _, seed) => createEagle(target, seed),
  },
};

async function loadEagle(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  requireSizes(checkpoint, target);
  const parts = describeEagle(checkpoint, scope, { target: target.configuration });
  const { configuration, hasFusionBias, draftVocabulary, hasOutputBias } = parts;
  const { hiddenSize } = configuration;
  const { vocabularySize } = target.configuration;
  requireWidth(checkpoint, `${parts.prefix}fc.weight`, 0, target.configuration.hiddenSize);
  requireWidth(checkpoint, `${parts.prefix}fc.weight`, 1, 2 * hiddenSize);
  if (draftVocabulary !== undefined && draftVocabulary !== vocabularySize) {
    throw misfit(
      checkpoint.folder,
      `has an lm_head of its own for ${draftVocabulary} tokens; the target has ${vocabularySize}`,
      anotherTarget,
    );
  }
  const weights = await prepareDrafterWeights(checkpoint, parts, options);
  const head: EagleHead = {
    parts,
    scope,
    described: { system: eagle.name, name: 'EAGLE', reads: 'features', taps: [] },
    vocabularies: { targetSize: vocabularySize, draftSize: vocabularySize },
    fuse: (states) => states,
    step(embeddings, features, context, memory) {
      const joined = concatenate([embeddings, features!], -1);
      const fused = project(joined, `${scope}fc`, 2 * hiddenSize, hiddenSize, hasFusionBias);
      const layer = `${scope}layer`;
      const { hidden, rows } = runLayer(fused, layer, configuration, context, ofLayer(memory), {
        inputNorm: false,
      });
      return { features: hidden, rows: [rows] };
    },
    score: (features) =>
      draftVocabulary === undefined
        ? projectToVocabulary(target.configuration, target.scope, features)
        : project(features, `${scope}lm_head`, hiddenSize, draftVocabulary, hasOutputBias),
  };
  return createEagleDrafter(checkpoint, head, target, weights);
}
