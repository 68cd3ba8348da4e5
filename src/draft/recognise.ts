/** Which drafting system a checkpoint belongs to, told by the tensors it holds: names do not lie, configs do. */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';

export type DraftSystem = 'speculative-sampling' | 'medusa' | 'hydra' | 'eagle' | 'eagle3';

export interface Recognition {
  /** `decoder` is a whole language model: a target, or the drafter of plain speculative sampling. */
  readonly kind: DraftSystem | 'decoder' | 'unknown';
  /** Which of the published layouts it is, in words. */
  readonly layout: string;
  /** Medusa-2 keeps its heads inside the target's own shards. */
  readonly heads?: 'medusa';
}

export function recogniseCheckpoint({ tensors }: Pick<Checkpoint, 'tensors'>): Recognition {
  const names = [...tensors.keys()];
  const some = (pattern: RegExp): boolean => names.some((name) => pattern.test(name));
  const hasFusion = some(/^(model\.)?fc\.weight$/);
  // An EAGLE head stored below `model.` with its embedding has a decoder's names, and its fusion besides.
  const isDecoder =
    !hasFusion &&
    some(/^model\.layers\.0\.self_attn\.q_proj\.weight$/) &&
    some(/^model\.embed_tokens\.weight$/);
  if (isDecoder && some(/^medusa_head\.\d+\./)) {
    return { kind: 'decoder', layout: 'language model with Medusa-2 heads in its shards', heads: 'medusa' };
  }
  if (isDecoder) return { kind: 'decoder', layout: 'language model' };
  if (some(/^hydra_mlp\./)) {
    const isPrefix = some(/^prefix_embeding_layer\./);
    return { kind: 'hydra', layout: isPrefix ? 'Hydra++ (prefix-mlp)' : 'Hydra (mlp)' };
  }
  if (some(/^(medusa_heads?\.)?\d+\.\d+\.(linear\.)?weight$/))
    return { kind: 'medusa', layout: 'Medusa-1 heads' };
  if (some(/^(medusa_heads\.)?blocks\.\d+\.layers\.\d+\.weight$/))
    return { kind: 'medusa', layout: 'Medusa heads, vLLM naming' };
  if (hasFusion && some(/^(model\.)?midlayer\./)) return { kind: 'eagle3', layout: 'EAGLE-3 head' };
  if (hasFusion && some(/^(model\.)?layers\.0\.hidden_norm\.weight$/))
    return { kind: 'eagle3', layout: 'EAGLE-3 head, layers.0 naming' };
  if (hasFusion && some(/^(model\.)?layers\.0\.self_attn\.q_proj\.weight$/))
    return { kind: 'eagle', layout: 'EAGLE-1/-2 head' };
  return { kind: 'unknown', layout: 'no layout that is known here' };
}
