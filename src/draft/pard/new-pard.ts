import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { NewCheckpoint } from '../fresh/new-checkpoint.js';

/** A draft model that reads masks. */
export function addMaskToken(draftModel: NewCheckpoint): NewCheckpoint {
  const { config } = draftModel;
  return { ...draftModel, config: { ...config, pard_token: chooseMaskToken(config), spd_type: 'pard' } };
}

/**
 * A token that does not occur in texts: the padding token, or the last id, which is reserved or padding in the
 * vocabularies of published models.
 */
export function chooseMaskToken({ pad_token_id: padding, vocab_size: size }: Checkpoint['config']): number {
  return typeof padding === 'number' && padding >= 0 ? padding : (size as number) - 1;
}
