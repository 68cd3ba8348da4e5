/** The common part of EAGLE and EAGLE-3 drafters. */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { lazily } from '../../core/lazy.js';
import { subtractDimensions } from '../../graph/dimension.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { input, weight } from '../../graph/operations/leaves.js';
import { slice } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { AttentionContext, KeyValueRows } from '../../model/decoder-layer.js';
import { joinRows } from '../../model/decoder-layer.js';
import { embeddingTable } from '../../model/decoder.js';
import {
  declareAttention,
  declarePast,
  joinLanes,
  lanes,
  partLanes,
  row,
  selectRows,
  stackRows,
} from '../../model/lanes/lane-graph.js';
import { compileLanes, runDirectly } from '../../model/lanes/lane-program.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { DraftedLogits, Drafter, TeacherForcing } from '../drafter.js';
import type { VerifiedGraph } from '../programs/fused-drafts.js';
import { createFusedPrograms, prepareFused } from '../programs/fused-drafts.js';
import { dropFirst, dropLast } from '../programs/states.js';
import { anotherTarget, misfit } from '../reading/checks.js';
import type { EagleParts } from './eagle-parts.js';
import type { EagleHead, EaglePrograms } from './eagle-session.js';
import { buildEagleGraph, readEaglePrefix, startEagleSession } from './eagle-session.js';

/** Verified states first, then its own features. */
function readVerified(head: EagleHead): VerifiedGraph {
  const { configuration } = head;
  const states = joinLanes(input('states', [row, lanes, head.stateWidth]));
  const tokens = input('tokens', [row, lanes], 'int32');
  const [past] = declarePast(configuration);
  const context = declareAttention(configuration);
  const embed = (ids: Tensor): Tensor => joinLanes(gatherRows(head.embedding, ids));
  const first = head.step(head.fuse(states), embed(tokens), context, { past });
  let earlier: KeyValueRows = first.rows;
  let features = selectRows(first.features, 1);
  return {
    context,
    rows: stackRows([first.rows], configuration),
    root: head.score(features),
    next(ids, own, arrange) {
      const step = head.step(joinLanes(arrange(features)), embed(ids), own, { past, earlier });
      earlier = joinRows(earlier, step.rows);
      features = partLanes(step.features, ids.shape[0]);
      return head.score(features);
    },
  };
}

/**
 * An EAGLE draft along known tokens. Depth 0 pairs the target's states with the next tokens; further depths use the
 * features predicted one depth before. Row t attends to the true rows up to t and its own earlier depths: what a
 * chain drafted at t would see (the "training-time test" of EAGLE-3, arXiv 2503.01840).
 */
function draftEagleLogits(
  head: EagleHead,
  states: Tensor,
  teacher: TeacherForcing,
  depth: number,
): DraftedLogits {
  const embeddings = teacher.embedWith(head.embedding);
  const past = teacher.past?.[0];
  const logits: Tensor[] = [];
  const diagonal: KeyValueRows[] = [];
  let first: KeyValueRows | undefined;
  let predicted: Tensor | undefined;
  let features = head.fuse(dropLast(states, 1));
  for (let level = 0; level < depth; level++) {
    const cut = level + 1; // rows that end too early for this level, counted from the positions given
    const context = cutContext(teacher.context, level, cut);
    const tokens = dropFirst(embeddings, 1 + level);
    const trim = (rows: KeyValueRows): KeyValueRows => ({
      keys: dropLast(rows.keys, level),
      values: dropLast(rows.values, level),
    });
    const step = head.step(features, tokens, context, {
      past,
      ...(first === undefined
        ? {}
        : {
            drafted: {
              rows: trim(first),
              diagonal: diagonal.map((rows, index) => cutRows(rows, level - 1 - index)),
            },
          }),
    });
    predicted ??= step.features;
    if (first === undefined) first = step.rows;
    else diagonal.push(step.rows);
    logits.push(head.score(dropFirst(step.features, teacher.firstRow)));
    features = dropLast(step.features, 1);
  }
  return { logits, features: predicted!, rows: [first!] };
}

function cutRows(rows: KeyValueRows, count: number): KeyValueRows {
  return { keys: dropLast(rows.keys, count), values: dropLast(rows.values, count) };
}

function cutContext({ cosine, sine, mask }: AttentionContext, level: number, cut: number): AttentionContext {
  const shift = (x: Tensor): Tensor => slice(x, 0, level, subtractDimensions(x.shape[0]!, cut - level));
  const rows = subtractDimensions(mask.shape.at(-2)!, cut);
  const columns = subtractDimensions(mask.shape.at(-1)!, cut);
  return { cosine: shift(cosine), sine: shift(sine), mask: slice(slice(mask, -2, 0, rows), -1, 0, columns) };
}

export interface LoadedHead extends Pick<Drafter, 'system' | 'name' | 'reads' | 'taps' | 'parameterCount'> {
  readonly head: EagleHead;
  readonly weights: WeightStore;
}

/** A head's own table takes precedence, as in the authors' loader. [vocabulary, hidden] */
export function embeddingOf(
  { folder }: Checkpoint,
  { ownVocabulary, configuration: { hiddenSize } }: EagleParts,
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

export function createEagleDrafter({ head, weights, ...described }: LoadedHead): Drafter {
  const { target, configuration, vocabularies } = head;
  const stores = [weights, target.weights];
  const compile = (kind: 'verified' | 'drafted') =>
    lazily(() => compileLanes(target.runtime, 'draft', buildEagleGraph(head, kind), stores));
  const programs: EaglePrograms = {
    verified: compile('verified'),
    drafted: compile('drafted'),
    wholes: createFusedPrograms(
      target.runtime,
      stores,
      { vocabularies, headSize: configuration.headSize },
      () => readVerified(head),
    ),
  };
  return {
    ...described,
    maximumDepth: Infinity,
    vocabularySize: vocabularies.draftSize,
    async prepare(drafts) {
      const { verified, drafted, wholes } = programs;
      await Promise.all([verified(), drafted(), prepareFused(wholes, drafts)]);
    },
    startSession: (scheduler = runDirectly) => startEagleSession(head, programs, scheduler),
    graph: {
      weights: stores,
      targetTokens: vocabularies.targetTokens,
      attention: {
        sizes: configuration,
        rotary: head.rotary,
        readPrefix: (verified, cache) => readEaglePrefix(head, programs, verified, cache),
      },
      draftLogits: (teacher, depth) => {
        const states = described.reads === 'taps' ? teacher.taps! : teacher.features;
        return draftEagleLogits(head, states, teacher, depth);
      },
    },
  };
}
