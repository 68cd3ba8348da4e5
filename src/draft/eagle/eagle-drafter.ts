/** The common part of EAGLE, EAGLE-3 and MTP drafters. */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { subtractDimensions } from '../../graph/dimension.js';
import { weight, type Tensor } from '../../graph/tensor.js';
import { slice } from '../../graph/operations/shaping.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { AttentionContext, AttentionMemory, KeyValueRows } from '../../model/decoder.js';
import { embeddingTable } from '../../model/decoder.js';
import { createRotary } from '../../model/rotary/rotary.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { DraftedLogits, Drafter, TeacherForcing } from '../drafter.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import type { AttentionHead, HeadMemory, HeadStep } from '../programs/attention-head.js';
import { cutRows, maskBehindRoots, seeEarlierLevels, fillWithMasks } from '../programs/attention-head.js';
import { dropFirst, dropLast } from '../programs/states.js';
import { anotherTarget, countParameters, misfit } from '../reading/checks.js';
import type { EagleParts } from './eagle-parts.js';

type HeadParts = Pick<EagleParts, 'configuration' | 'stateWidth' | 'ownVocabulary' | 'window'>;

/** What the systems do differently. */
export interface EagleHead extends Pick<AttentionHead, 'fuse' | 'step' | 'score' | 'vocabularies' | 'mask'> {
  readonly parts: HeadParts;
  readonly scope: string;
  readonly described: Pick<Drafter, 'system' | 'name' | 'reads' | 'taps'>;
}

export function createEagleDrafter(
  checkpoint: Checkpoint,
  { parts, scope, described, ...own }: EagleHead,
  target: CausalModel,
  weights: WeightStore,
): Drafter {
  const { configuration, stateWidth, window } = parts;
  const { contextLength } = target.configuration;
  const head: AttentionHead = {
    ...own,
    title: `the head in ${checkpoint.folder}`,
    runtime: target.runtime,
    weights: [weights, target.weights],
    sizes: configuration,
    // Angles continue past the length in config.json, as in the authors' code.
    reach: window?.isMixed === true ? Math.min(contextLength, window.length) : contextLength,
    window: window?.isMixed === true ? undefined : window?.length,
    stateWidth,
    featureWidth: own.mask === undefined ? configuration.hiddenSize : 0,
    rotary: createRotary(configuration),
    embedding: embeddingOf(checkpoint, parts, scope, target),
  };
  return createAttentionDrafter(
    head,
    { ...described, parameterCount: countParameters(weights) },
    (teacher, depth) =>
      draftLogits(head, described.reads === 'taps' ? teacher.taps! : teacher.features, teacher, depth),
  );
}

export const ofLayer = ({ past, earlier, drafted }: HeadMemory, layer = 0): AttentionMemory => ({
  past: past?.[layer],
  earlier: earlier?.[layer],
  drafted: drafted?.[layer],
});

/** A head's own table takes precedence, as in the authors' loader. [vocabulary, hidden] */
function embeddingOf(
  { folder }: Checkpoint,
  { ownVocabulary, configuration: { hiddenSize } }: HeadParts,
  scope: string,
  { configuration, scope: targetScope }: CausalModel,
): Tensor {
  if (ownVocabulary === undefined) return embeddingTable(configuration, targetScope);
  const { vocabularySize } = configuration;
  if (ownVocabulary === vocabularySize)
    return weight(`${scope}embed_tokens.weight`, [vocabularySize, hiddenSize]);
  throw misfit(
    folder,
    `has embeddings of its own for ${ownVocabulary} tokens; the target has ${vocabularySize}`,
    anotherTarget,
  );
}

/**
 * An EAGLE draft along known tokens. Depth 0 pairs the target's states with the next tokens; further depths use the
 * features predicted one depth before, or masks (P-EAGLE). Row t attends to the true rows up to t and its own earlier
 * depths: what a chain drafted at t would see (the "training-time test" of EAGLE-3, arXiv 2503.01840).
 */
function draftLogits(
  head: AttentionHead,
  states: Tensor,
  teacher: TeacherForcing,
  depth: number,
): DraftedLogits {
  const { context, past, firstRow } = teacher;
  const embeddings = teacher.embedWith(head.embedding);
  const logits: Tensor[] = [];
  const earlier: (readonly KeyValueRows[])[] = []; // [level - 1][layer]
  let first: HeadStep | undefined;
  let features = head.fuse(dropLast(states, 1));
  for (let level = 0; level < depth; level++) {
    const drafted =
      first &&
      seeEarlierLevels(
        first.rows.map((rows) => cutRows(rows, level)),
        earlier,
        head.window,
      );
    const tokens = dropFirst(embeddings, 1 + level);
    const masks =
      head.mask === undefined || level === 0
        ? undefined
        : fillWithMasks(head, head.mask, tokens.shape.slice(0, 2));
    const step = head.step(
      masks?.embeddings ?? tokens,
      masks?.features ?? features,
      cutContext(context, level, head.window),
      { past, drafted },
    );
    if (first === undefined) first = step;
    else earlier.push(step.rows);
    logits.push(head.score(dropFirst(step.features, firstRow)));
    features = dropLast(step.features, 1);
  }
  return { logits, features: first!.features, rows: first!.rows };
}

/** Without the rows that end too early for this level. */
function cutContext(
  { cosine, sine, mask }: AttentionContext,
  level: number,
  window: number | undefined,
): AttentionContext {
  const shift = (x: Tensor): Tensor => slice(x, 0, level, subtractDimensions(x.shape[0]!, 1));
  const columns = subtractDimensions(mask.shape.at(-1)!, level + 1);
  const rows = maskBehindRoots(mask, 0, level, window);
  return { cosine: shift(cosine), sine: shift(sine), mask: slice(rows, -1, 0, columns) };
}
