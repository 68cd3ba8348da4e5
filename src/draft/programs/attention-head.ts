/** What draft models and EAGLE heads do differently, for attention-drafter.ts. */
import type { Shape } from '../../graph/dimension.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { broadcast } from '../../graph/operations/shaping.js';
import { constant, type Tensor } from '../../graph/tensor.js';
import type { CacheSizes } from '../../model/cache/cache-pool.js';
import type { AttentionContext, DraftedRows, KeyValueRows } from '../../model/decoder.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import type { Runtime } from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { Drafter } from '../drafter.js';
import type { Vocabularies } from '../../model/lanes/sampler.js';

export interface HeadStep {
  readonly features: Tensor; // [batch, position, hidden] what the next step is fed with
  readonly rows: readonly KeyValueRows[]; // [layer]
}

export interface HeadMemory {
  readonly past: readonly KeyValueRows[] | undefined; // [layer]
  readonly earlier?: readonly KeyValueRows[] | undefined; // [layer]
  readonly drafted?: readonly DraftedRows[] | undefined; // [layer]
}

export interface AttentionHead extends Pick<
  Drafter,
  'system' | 'name' | 'reads' | 'taps' | 'parameterCount'
> {
  /** Names it in errors. */
  readonly title: string;
  readonly runtime: Runtime;
  /** Its own, and those that it borrows from the target. */
  readonly weights: readonly WeightStore[];
  readonly sizes: CacheSizes;
  readonly reach: number;
  /** Positions that a row sees, in all layers; default all. */
  readonly window?: number | undefined;
  /** Positions up to which it is exact, if only some layers have a window. */
  readonly windowEnd?: number | undefined;
  /** Of the target's states that it reads; 0 if it reads tokens alone. */
  readonly stateWidth: number;
  /** Of the features that it is fed with while drafting; 0 if it reads tokens or masks alone. */
  readonly featureWidth: number;
  readonly vocabularies: Vocabularies;
  readonly rotary: RotaryTable;
  readonly embedding: Tensor; // [vocabulary, hidden]
  /** Read in the place of drafted tokens and features: the levels of a chain are then independent, and one pass. */
  readonly mask?: MaskRow | undefined;
  fuse(states: Tensor): Tensor; // [batch, position, stateWidth] -> [batch, position, hidden]
  /** `features` is undefined if it reads tokens alone. */
  step(
    embeddings: Tensor, // [batch, position, hidden]
    features: Tensor | undefined, // [batch, position, hidden]
    context: AttentionContext,
    memory: HeadMemory,
  ): HeadStep;
  /** features [..., hidden] -> [..., draft vocabulary] */
  score(features: Tensor): Tensor;
  /** Throws if a prefix is longer than its context. */
  requireContext?(positions: number): void;
}

/** What a drafter reads in the place of a drafted token (PARD, P-EAGLE). */
export interface MaskRow {
  readonly token: number;
  /** In the place of features, for heads that read them. [1, 1, hidden] */
  readonly features?: Tensor | undefined;
}

/** What a head reads at a position: `features` is undefined if it reads tokens alone. */
export interface FedRows {
  readonly embeddings: Tensor; // [..., hidden]
  readonly features: Tensor | undefined; // [..., hidden]
}

/** `leading`: two axes before the hidden one. */
export function fillWithMasks(
  { embedding }: Pick<AttentionHead, 'embedding'>,
  { token, features }: MaskRow,
  leading: Shape,
): FedRows {
  const row = gatherRows(embedding, constant([token], [1], 'int32'));
  return {
    embeddings: broadcast(row, [...leading, row.shape.at(-1)!]),
    features: features && broadcast(features, [...leading, features.shape.at(-1)!]),
  };
}
