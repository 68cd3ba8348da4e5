/**
 * Multi-token prediction as in MiMo-7B (arXiv 2505.07608): a module in the target's own checkpoint that predicts one more
 * token. It joins the norms of the target's final state at t and of token t + 1, runs one layer like the target's, and
 * ends with a norm; the target's output projection reads the result, and a longer draft feeds it back.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { multiplyDimensions } from '../../graph/dimension.js';
import { exponential, greater, select } from '../../graph/operations/elementwise.js';
import { sum } from '../../graph/operations/reductions.js';
import { concatenate, reshape, transpose } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import {
  normalise,
  project,
  projectToVocabulary,
  runLayer,
  type AttentionContext,
} from '../../model/decoder.js';
import { prepareDrafterWeights, type DrafterOptions, type WeightedSystem } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { createEagleDrafter, ofLayer, type EagleHead } from '../eagle/eagle-drafter.js';
import type { HeadMemory } from '../programs/attention-head.js';
import { requireSizes, requireWidth } from '../reading/checks.js';
import { createMtp, describeMtp, findOtherFamily, fusionName, recogniseMtp } from './mtp-layout.js';

const scope = 'mtp.';

export const mtp: WeightedSystem = {
  name: 'mtp',
  title: 'MTP (MiMo)',
  recognise: recogniseMtp,
  describe(checkpoint, refuse) {
    const refusal = findOtherFamily(checkpoint);
    if (refusal === undefined) return describeMtp(checkpoint, '', { refuse });
    refuse(refusal);
    return { recipes: [], unread: [], facts: { expects: {} } };
  },
  load: loadMtp,
  training: {
    sizes: [],
    // One module unrolled, as FastMTP (arXiv 2509.18362) trains it.
    settings: () => ({ depth: 3, labels: 'tokens', decay: 0.6 }),
    create: (target, _, seed) => createMtp(target, seed),
  },
};

async function loadMtp(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  const refusal = findOtherFamily(checkpoint);
  if (refusal !== undefined) throw refusal;
  requireSizes(checkpoint, target);
  requireWidth(checkpoint, fusionName, 0, target.configuration.hiddenSize);
  const parts = describeMtp(checkpoint, scope, { target: target.configuration });
  const { configuration } = parts;
  const { hiddenSize } = configuration;
  const { vocabularySize } = target.configuration;
  const weights = await prepareDrafterWeights(checkpoint, parts, options);
  const head: EagleHead = {
    parts,
    scope,
    described: { system: mtp.name, name: 'MTP', reads: 'features', taps: [] },
    vocabularies: { targetSize: vocabularySize, draftSize: vocabularySize },
    fuse: (states) => states,
    step(embeddings, features, context, memory) {
      const read = hideFirstToken(embeddings, context, memory);
      const tokens = normalise(read, `${scope}token_layernorm`, configuration);
      const states = normalise(features!, `${scope}hidden_layernorm`, configuration);
      const joined = concatenate([states, tokens], -1);
      const fused = project(joined, `${scope}input_proj`, 2 * hiddenSize, hiddenSize);
      const { hidden, rows } = runLayer(fused, `${scope}layer`, configuration, context, ofLayer(memory));
      return { features: normalise(hidden, `${scope}final_layernorm`, configuration), rows: [rows] };
    },
    score: (features) => projectToVocabulary(target.configuration, target.scope, features),
  };
  return createEagleDrafter(checkpoint, head, target, weights);
}

/**
 * MiMo was trained with zeros in the place of the embedding in the first row of a text. That row, and no other, sees only
 * itself. Drafted rows that see others outside the mask are never first.
 */
function hideFirstToken(
  embeddings: Tensor, // [batch, position, hidden]
  { mask, lanes }: AttentionContext,
  { earlier, drafted }: HeadMemory,
): Tensor {
  if (earlier !== undefined || drafted !== undefined) return embeddings;
  const seen = sum(exponential(mask), [-1]);
  const rows = mask.shape.at(-2)!;
  const perRow =
    lanes === undefined
      ? seen
      : reshape(transpose(seen, [2, 0, 1, 3]), [1, multiplyDimensions(rows, lanes), 1]);
  return select(greater(perRow, 1.5), embeddings, 0);
}
