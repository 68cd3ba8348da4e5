/** One published drafter: its folder in tiny, and the reference that says what it has to draft. */
import type { Scorer } from './float64-drafters.js';
import type { Float64Model } from './float64-model.js';
import type { DecoderSizes, PublishedFolder } from './published-layouts.js';
import type { PublishedTarget } from './published-targets.js';

export interface PublishedDrafter {
  readonly name: string;
  readonly kind:
    | 'decoder'
    | 'pard'
    | 'medusa'
    | 'hydra'
    | 'eagle'
    | 'eagle3'
    | 'p-eagle'
    | 'mtp'
    | 'dflash'
    | 'dspark';
  readonly layout: string;
  readonly folder: PublishedFolder;
  readonly target: PublishedTarget;
  /** Tokens of the tokenizer that target and draft model come with; heads need none. */
  readonly tokenizerSize?: number;
  score(target: Float64Model): Scorer;
}

/** Sizes that a head has in common with its target; it may have other heads. */
export const draftSizes = {
  ...{ hidden: 32, intermediate: 48, heads: 4, keyValueHeads: 2, headSize: 8 },
  ...{ layers: 1, vocabulary: 40 },
} as const satisfies DecoderSizes;
