/**
 * The loss: a drafter's distribution of each drafted token should be the target's. Row t of draft level d predicts token
 * t + 2 + d; the target predicts that token at its position t + 1 + d. Drafts that cross into another text are ignored.
 *
 *   soft    cross-entropy to the target's distribution (EAGLE, EAGLE-3, Hydra++, draft models)
 *   tokens  cross-entropy to the token itself (Medusa-1, arXiv 2401.10774)
 *
 * Deeper levels count decay^d. DSpark (arXiv 2607.05147) adds the L1 distance between the two distributions, and its
 * confidence head learns the probability that a level is accepted, 1 - distance / 2. EAGLE (arXiv 2401.15077) adds a
 * smooth L1 distance between its feature and the target's.
 * A draft vocabulary smaller than the target's learns the target's distribution within it, and nothing where the target's
 * most likely token lies outside. Sums over tokens, not means: batches are of different sizes, and the update divides.
 */
import type { DraftedLogits, Drafter } from '../../draft/drafter.js';
import { dropFirst, dropLast } from '../../draft/programs/states.js';
import { requireGraph } from '../../draft/reading/checks.js';
import { symbol } from '../../graph/dimension.js';
import {
  add,
  exponential,
  greater,
  maximum,
  multiply,
  negate,
  select,
  stopGradient,
  subtract,
} from '../../graph/operations/elementwise.js';
import { argmax, gatherRows, pick } from '../../graph/operations/indexing.js';
import { input, type Tensor } from '../../graph/tensor.js';
import { logSoftmax, mean, reduceMaximum, softmax, sum } from '../../graph/operations/reductions.js';
import { concatenate, reshape } from '../../graph/operations/shaping.js';
import type { CausalModel } from '../../model/causal-model.js';
import { type AttentionContext, projectToTokens, projectToVocabulary } from '../../model/decoder.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import { type NamedValues, float32, int32 } from '../../runtime/program.js';
import { type TextBatch, maskTexts } from '../data/batches.js';
import type { TrainSettings } from '../settings.js';

/** A drafter in training and its frozen target. */
export interface Pair {
  readonly target: CausalModel;
  readonly drafter: Drafter;
}

const batch = symbol('batch');
const row = symbol('row');

/** Inputs that a batch gives to every program. */
export const tokensInput = (): Tensor => input('tokens', [batch, row], 'int32');

const featuresInput = ({ configuration }: CausalModel): Tensor =>
  input('features', [batch, row, configuration.hiddenSize]);

function draftAlong({ target, drafter }: Pair, depth: number, features: Tensor): DraftedLogits {
  const graph = requireGraph(drafter);
  const { hiddenSize } = target.configuration;
  const tokens = tokensInput();
  const taps =
    drafter.taps.length === 0 ? undefined : input('taps', [batch, row, drafter.taps.length * hiddenSize]);
  return graph.draftLogits(
    {
      features,
      taps,
      firstRow: 0,
      past: undefined,
      embedWith: (table) => gatherRows(table, tokens),
      context: declareContext('draft.', graph.attention?.sizes.headSize ?? 2),
    },
    depth,
  );
}

export function declareContext(prefix: string, headSize: number): AttentionContext {
  const angles = (name: string): Tensor => input(`${prefix}${name}`, [row, headSize / 2]);
  return { cosine: angles('cosine'), sine: angles('sine'), mask: input('mask', [batch, row, row]) };
}

export function contextInputs(
  prefix: string,
  rotary: RotaryTable,
  batch: TextBatch,
  window?: number,
): NamedValues {
  const [count, length] = batch.shape;
  const { cosine, sine } = rotary.anglesAt(Int32Array.from({ length }, (_, position) => position));
  const shape = [length, cosine.length / length];
  return {
    mask: float32(maskTexts(batch, window), [count, length, length]),
    [`${prefix}cosine`]: float32(cosine, shape),
    [`${prefix}sine`]: float32(sine, shape),
  };
}

export type Objective = Pick<
  TrainSettings,
  'depth' | 'labels' | 'decay' | 'featureWeight' | 'labelWeight' | 'noise'
> &
  Partial<Pick<TrainSettings, 'distanceWeight' | 'confidenceWeight'>>;

/** Sums over the rows of all levels, for the log. */
export const lossParts = ['distance', 'confidence'] as const;
export type LossParts<Value> = Partial<Readonly<Record<(typeof lossParts)[number], Value>>>;

/** Sums over the tokens in the loss. [1] */
export function buildLoss(pair: Pair, objective: Objective) {
  const { depth, labels, decay, featureWeight, labelWeight, noise } = objective;
  const { distanceWeight = 0, confidenceWeight = 0 } = objective;
  const truth = featuresInput(pair.target);
  const read = noise > 0 ? add(truth, input('noise', truth.shape)) : truth;
  const drafted = draftAlong(pair, depth, read);
  const confidences =
    confidenceWeight > 0 && drafted.confidences?.length === depth ? drafted.confidences : undefined;
  const hasDistance = distanceWeight > 0 || confidences !== undefined;
  // Positions count from the start of each token's own text.
  const [weights, positions] = [input('weights', [batch, row]), input('positions', [batch, row])];
  const weightsOf = (level: number): Tensor =>
    dropFirst(select(greater(positions, level + 1), weights, 0), level + 2);
  // Cut before projecting: logits are far larger. No draft predicts the first row's token or the last.
  const judging = dropLast(dropFirst(truth, 1), 1);
  const teacher = labels === 'soft' || hasDistance ? describeTeacher(pair, judging) : undefined;
  const judged = drafted.logits.map((logits, level) => {
    const scores = logSoftmax(dropLast(logits, 1));
    const ofLevel = (x: Tensor): Tensor => dropFirst(x, level);
    const own = weightsOf(level);
    const isCounted = labels === 'tokens' ? input('labelWeights', [batch, row]) : teacher?.isInside;
    const skipped = labels === 'tokens' ? level + 2 : level;
    const counted = isCounted === undefined ? own : multiply(own, dropFirst(isCounted, skipped));
    const entropies =
      labels === 'tokens'
        ? negate(pick(scores, dropFirst(input('labels', [batch, row], 'int32'), skipped)))
        : negate(flatten(sum(multiply(ofLevel(teacher!.distribution), scores), [-1])));
    const difference = hasDistance && subtract(exponential(scores), ofLevel(teacher!.distribution));
    // L1, from 0 to 2. [batch, row, 1]
    const distances = difference ? sum(maximum(difference, negate(difference)), [-1]) : undefined;
    const confidence = confidences && judgeConfidence(dropLast(confidences[level]!, 1), distances!);
    return {
      rows: total(counted),
      entropy: total(multiply(entropies, counted)),
      distance: distances && total(multiply(flatten(distances), counted)),
      confidence: confidence && total(multiply(confidence, counted)),
    };
  });
  const levels = judged.map(({ entropy }) => entropy);
  const weigh = (sums: readonly Tensor[], weight: number): Tensor =>
    sums.map((each, level) => multiply(each, weight * decay ** level)).reduce(plus);
  let loss = weigh(levels, labelWeight);
  const parts: { -readonly [Part in keyof LossParts<Tensor>]: Tensor } = {};
  for (const [part, weight] of [
    ['distance', distanceWeight],
    ['confidence', confidenceWeight],
  ] as const) {
    const sums = judged.flatMap((level) => level[part] ?? []);
    if (weight === 0 || sums.length === 0) continue;
    loss = add(loss, weigh(sums, weight));
    parts[part] = sums.reduce(plus);
  }
  if (featureWeight > 0 && drafted.features !== undefined) {
    const apart = smoothDistance(dropLast(drafted.features, 1), judging);
    loss = add(loss, multiply(total(multiply(apart, weightsOf(0))), featureWeight));
  }
  return {
    loss,
    /** [level] Unweighted cross-entropy over the level's rows. */
    levels,
    /** [level] Counted rows: fewer at deeper levels, and only tokens that can be drafted. */
    rows: judged.map(({ rows }) => rows),
    /** Unweighted; those in the objective. */
    parts,
  };
}

/** Cross-entropy to the probability of acceptance, which does not learn from it. [batch, row, 1] -> [batch, row] */
function judgeConfidence(logits: Tensor, distances: Tensor): Tensor {
  const rejected = stopGradient(multiply(distances, 0.5));
  const scores = logSoftmax(concatenate([logits, multiply(logits, 0)], -1));
  const labels = concatenate([subtract(1, rejected), rejected], -1);
  return negate(flatten(sum(multiply(scores, labels), [-1])));
}

/** The most likely drafted token of each level. [depth] -> [batch, row - 2 - depth] */
export function buildChoices(pair: Pair, depth: number): readonly Tensor[] {
  const { logits } = draftAlong(pair, depth, featuresInput(pair.target));
  return logits.map((level) => argmax(dropLast(level, 1)));
}

/**
 * The distribution [batch, row - 2, draft vocabulary]; `isInside` [batch, row - 2] is 1 if the target's most likely token
 * can be drafted, undefined if all can.
 */
function describeTeacher({ target, drafter }: Pair, features: Tensor) {
  const { configuration, scope } = target;
  if (drafter.graph?.targetTokens === undefined)
    return {
      distribution: softmax(projectToVocabulary(configuration, scope, features)),
      isInside: undefined,
    };
  const logitsOf = (name: string, count: number): Tensor =>
    projectToTokens(configuration, scope, features, input(name, [count], 'int32'));
  const inside = logitsOf('draftTokens', drafter.vocabularySize);
  const others = configuration.vocabularySize - drafter.vocabularySize;
  if (others === 0) return { distribution: softmax(inside), isInside: undefined };
  const isOutside = greater(reduceMaximum(logitsOf('otherTokens', others)), reduceMaximum(inside));
  return { distribution: softmax(inside), isInside: flatten(select(isOutside, 0, 1)) };
}

export function labelInputs({ target, drafter }: Pair, { tokens, shape }: TextBatch): NamedValues {
  const drafted = drafter.graph?.targetTokens;
  if (drafted === undefined) {
    const everywhere = new Float32Array(tokens.length).fill(1);
    return { labels: int32(tokens, shape), labelWeights: float32(everywhere, shape) };
  }
  const { vocabularySize } = target.configuration;
  const isDrafted = new Float32Array(vocabularySize);
  const places = new Int32Array(vocabularySize);
  drafted.forEach((token, place) => {
    isDrafted[token] = 1;
    places[token] = place;
  });
  const labels = tokens.map((token) => places[token]!);
  const labelWeights = Float32Array.from(tokens, (token) => isDrafted[token]!);
  return {
    draftTokens: int32(drafted),
    otherTokens: int32(Int32Array.from(isDrafted.keys()).filter((token) => isDrafted[token] === 0)),
    labels: int32(labels, shape),
    labelWeights: float32(labelWeights, shape),
  };
}

/** Smooth L1, a mean over the hidden values. [batch, row, hidden] -> [batch, row] */
function smoothDistance(left: Tensor, right: Tensor): Tensor {
  const difference = subtract(left, right);
  const size = maximum(difference, negate(difference));
  const near = multiply(multiply(difference, difference), 0.5);
  return flatten(mean(select(greater(size, 1), subtract(size, 0.5), near), [-1]));
}

const flatten = (x: Tensor): Tensor => reshape(x, x.shape.slice(0, -1));

const total = (x: Tensor): Tensor => reshape(sum(x, [0, 1]), [1]);

const plus = (left: Tensor, right: Tensor): Tensor => add(left, right);
