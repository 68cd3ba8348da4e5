import type { NewCheckpoint } from '../fresh/new-checkpoint.js';

/**
 * A draft model that reads masks. Its mask token must not occur in texts: the padding token, or the last id, which is
 * reserved or padding in the vocabularies of published models.
 */
export function addMaskToken(draftModel: NewCheckpoint): NewCheckpoint {
  const { pad_token_id: padding, vocab_size: size } = draftModel.config;
  const token = typeof padding === 'number' && padding >= 0 ? padding : (size as number) - 1;
  return { ...draftModel, config: { ...draftModel.config, pard_token: token, spd_type: 'pard' } };
}
