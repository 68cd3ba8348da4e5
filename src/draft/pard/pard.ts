/**
 * PARD (arXiv 2504.18583): a draft model that drafts all levels in one pass. Behind the text it reads one mask token for
 * each further level; the row of the d-th mask scores level d + 1. So a level does not depend on the tokens drafted
 * before it, and the masks are read again as real tokens once these are verified. PARD-2 files are read in their mode
 * without the target's features.
 */
import { createDraftModel, describeDraftModel, openDraftModel } from '../draft-model/draft-model.js';
import { holdsDecoder, type DraftSystem } from '../draft-system.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import { readMaskToken } from '../reading/head-configuration.js';
import { startReading } from '../reading/checks.js';

export const pard: DraftSystem = {
  name: 'pard',
  title: 'PARD',
  recognise(names, config = {}) {
    if (!holdsDecoder(names)) return undefined;
    if (config.spd_type === 'pard2' || config.pard2 === true)
      return { layout: "PARD-2, in its mode without the target's features" };
    return config.spd_type === 'pard' || config.pard_token !== undefined ? { layout: 'PARD' } : undefined;
  },
  describe(checkpoint, context = {}) {
    const { facts, ...description } = describeDraftModel(checkpoint);
    // A model of its own: its sizes need not be the target's.
    const reading = startReading(checkpoint, { refuse: context.refuse });
    const maskToken = readMaskToken(reading, facts.draftVocabularySize!);
    return { ...description, facts: { ...facts, maskToken } };
  },
  async load(checkpoint, options) {
    const head = await openDraftModel(checkpoint, options);
    const [vocabularySize] = head.embedding.shape as [number];
    return createAttentionDrafter({
      ...head,
      system: pard.name,
      name: 'PARD',
      title: `the PARD model in ${checkpoint.folder}`,
      mask: { token: readMaskToken(startReading(checkpoint, {}), vocabularySize) },
    });
  },
  training: {
    sizes: ['layers', 'hiddenSize'],
    settings: () => ({ depth: 4, decay: 0.8, learn: 'all' }),
    create(target, drafter) {
      const { config, ...created } = createDraftModel(target, drafter);
      return { ...created, config: { ...config, pard_token: target.maskToken, spd_type: 'pard' } };
    },
  },
};
