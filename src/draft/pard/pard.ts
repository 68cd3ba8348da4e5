/**
 * PARD (arXiv 2504.18583): a draft model that drafts all levels in one pass. Behind the text it reads one mask token for
 * each further level; the row of the d-th mask scores level d + 1. So a level does not depend on the tokens drafted
 * before it, and the masks are read again as real tokens once these are verified. PARD-2 files are read in their mode
 * without the target's features.
 */
import { subtractDimensions, type Dimension } from '../../graph/dimension.js';
import { slice } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { KeyValueRows } from '../../model/decoder.js';
import { describeDraftModel, openDraftModel, createDraftModel } from '../draft-model/draft-model.js';
import { holdsDecoder, type WeightedSystem } from '../draft-system.js';
import type { DraftedLogits, TeacherForcing } from '../drafter.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import type { AttentionHead, MaskRow } from '../programs/attention-head.js';
import { maskBehindRoots, seeEarlierLevels, fillWithMasks } from '../programs/attention-head.js';
import { dropFirst } from '../programs/states.js';
import { refuseAtOnce } from '../reading/checks.js';
import { readMaskToken } from '../reading/head-configuration.js';

export const pard: WeightedSystem = {
  name: 'pard',
  title: 'PARD',
  recognise(names, config = {}) {
    if (!holdsDecoder(names)) return undefined;
    if (config.spd_type === 'pard2' || config.pard2 === true)
      return { layout: "PARD-2, in its mode without the target's features" };
    return config.spd_type === 'pard' || config.pard_token !== undefined ? { layout: 'PARD' } : undefined;
  },
  describe(checkpoint, refuse) {
    const { facts, ...description } = describeDraftModel(checkpoint);
    const maskToken = readMaskToken(checkpoint, facts.draftVocabularySize!, refuse);
    return { ...description, facts: { ...facts, maskToken } };
  },
  async load(checkpoint, options) {
    const { head: plain, parameterCount } = await openDraftModel(checkpoint, options);
    const [vocabularySize] = plain.embedding.shape as [number];
    const mask = { token: readMaskToken(checkpoint, vocabularySize, refuseAtOnce) };
    const head = { ...plain, title: `the PARD model in ${checkpoint.folder}`, mask };
    return createAttentionDrafter(
      head,
      { system: pard.name, name: 'PARD', reads: 'tokens', taps: [], parameterCount },
      (teacher, depth) => draftLogits(head, mask, teacher, depth),
    );
  },
  training: {
    sizes: ['layers', 'hiddenSize'],
    settings: () => ({ depth: 4, decay: 0.8, learn: 'all' }),
    create(target, drafter, seed) {
      const { config, ...created } = createDraftModel(target, drafter, seed);
      return { ...created, config: { ...config, pard_token: target.maskToken, spd_type: 'pard' } };
    },
  },
};

/**
 * Along known tokens: the rows of a level belong to all roots at once. A root's mask row sees the true rows up to the
 * root and the root's own earlier masks.
 */
function draftLogits(
  head: AttentionHead,
  mask: MaskRow,
  teacher: TeacherForcing,
  depth: number,
): DraftedLogits {
  const { context, past, firstRow } = teacher;
  const embeddings = teacher.embedWith(head.embedding);
  const [batch, positions] = embeddings.shape as [Dimension, Dimension];
  const first = head.step(embeddings, undefined, context, { past });
  const logits = [head.score(dropFirst(dropFirst(first.features, 1), firstRow))];
  const earlier: (readonly KeyValueRows[])[] = []; // [level - 1][layer]
  for (let level = 1; level < depth; level++) {
    const masks = fillWithMasks(head, mask, [batch, subtractDimensions(positions, level + 1)]);
    const drafted = seeEarlierLevels(first.rows, earlier, head.window);
    // A row stands `level` behind its root and sees what the root sees.
    const shift = (x: Tensor): Tensor => slice(x, 0, level + 1);
    const own = {
      cosine: shift(context.cosine),
      sine: shift(context.sine),
      mask: maskBehindRoots(context.mask, 1, level, head.window),
    };
    const step = head.step(masks.embeddings, undefined, own, { past, drafted });
    earlier.push(step.rows);
    logits.push(head.score(dropFirst(step.features, firstRow)));
  }
  return { logits, rows: first.rows };
}
