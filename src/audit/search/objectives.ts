/**
 * Objectives of the search: disagreement of drafter and target along the clean answer. All are differentiable.
 * With the target's distribution p and the drafter's q over the draft vocabulary D, a drawn draft token is accepted
 * with probability beta = sum over D of min(p, q) = 1 - total variation (Leviathan et al., arXiv 2211.17192). A
 * greedy draft token is accepted if it is the target's most likely one, so it is lost when another token overtakes
 * the answer's in the drafter's scores.
 * margin: sigmoid((best wrong score - score of the answer's token) / 4), at every depth
 * surprisal: sum q (-log p)
 * kl: sum p (log p - log q), unbounded and blind to where acceptance is lost
 * reverse-kl: sum q (log q - log p)
 * total-variation: 1 - beta, the rejection probability
 * one-sided: sum q (log q - log p)+, only tokens with too much draft mass
 * expected-length: K - sum over k of beta_1 ... beta_k, missing accepted tokens of a draft of depth K
 */
import { type Tensor, constant } from '../../graph/tensor.js';
import {
  add,
  divide,
  equal,
  exponential,
  maximum,
  minimum,
  multiply,
  negate,
  select,
  sigmoid,
  subtract,
} from '../../graph/operations/elementwise.js';
import { gatherRows, topValues } from '../../graph/operations/indexing.js';
import { logSoftmax, sum } from '../../graph/operations/reductions.js';
import { reshape, slice, transpose } from '../../graph/operations/shaping.js';
import { type HeldAnswer, answerRows, draftedScores, targetScores } from './held-answer.js';
import type { ForcedPass } from './forced-pass.js';

/** Of one depth, rows aligned. [batch, row, draft token] */
interface Distributions {
  readonly target: Tensor;
  readonly draft: Tensor;
}

/** -> [batch, row, 1] */
type PositionLoss = (distributions: Distributions) => Tensor;

const overTokens = (x: Tensor): Tensor => sum(x, [-1]);

function acceptance({ target, draft }: Distributions): Tensor {
  return overTokens(minimum(exponential(target), exponential(draft)));
}

const positionLosses = {
  surprisal: ({ target, draft }) => negate(overTokens(multiply(exponential(draft), target))),
  kl: ({ target, draft }) => overTokens(multiply(exponential(target), subtract(target, draft))),
  'reverse-kl': ({ target, draft }) => overTokens(multiply(exponential(draft), subtract(draft, target))),
  'total-variation': (distributions) => subtract(1, acceptance(distributions)),
  'one-sided': ({ target, draft }) =>
    overTokens(multiply(exponential(draft), maximum(subtract(draft, target), 0))),
} as const satisfies Record<string, PositionLoss>;

export const objectiveNames = [
  'margin',
  ...Object.keys(positionLosses),
  'expected-length',
] as ObjectiveName[];
export type ObjectiveName = 'margin' | keyof typeof positionLosses | 'expected-length';

export interface Objective {
  readonly name: ObjectiveName;
  readonly depth: number;
  /** Per candidate; larger is worse for the service. [batch] */
  degradation(pass: ForcedPass, answer: HeldAnswer): Tensor;
}

/** `draftDepth`: of margin and expected-length; the others look one token ahead. */
export function createObjective(name: ObjectiveName, draftDepth: number): Objective {
  if (name === 'margin' || name === 'expected-length') {
    const degradation = name === 'margin' ? lostMargins : missingLength;
    return { name, depth: draftDepth, degradation: (pass, answer) => degradation(pass, answer, draftDepth) };
  }
  const loss: PositionLoss = positionLosses[name];
  return {
    name,
    depth: 1,
    degradation: (pass, answer) =>
      averageRows(loss(alignDistributions(pass, 0, answer)), answerRows(answer, 1)),
  };
}

/** Greedy drafts fail where the argmax moves; sampling rejects by the overlap. */
export function defaultObjective(temperature: number): ObjectiveName {
  return temperature === 0 ? 'margin' : 'total-variation';
}

/** Depth d, row j belongs to answer token j + 1 + d, whose target distribution is in row j + 1 + d. */
function alignDistributions(pass: ForcedPass, depth: number, answer: HeldAnswer): Distributions {
  const distribution = slice(logSoftmax(pass.targetLogits), 1, 1 + depth);
  return {
    target: restrictTokens(distribution, answer.targetTokens),
    draft: logSoftmax(pass.draftLogits[depth]!),
  };
}

/** With 1, safe leads would have no gradient. */
const softness = 4;

/** Mean over positions and depths. A token outside the draft vocabulary is already lost. */
function lostMargins(pass: ForcedPass, answer: HeldAnswer, draftDepth: number): Tensor {
  let total: Tensor = constant(0);
  for (let depth = 0; depth < draftDepth; depth++) {
    const { scores, draftable } = draftedScores(pass, depth, answer);
    const bestWrong = bestOther(pass.draftLogits[depth]!, scores);
    const lost = select(draftable, sigmoid(multiply(subtract(bestWrong, scores), 1 / softness)), 1);
    total = add(total, averageRows(lost, answerRows(answer, 1 + depth)));
  }
  return multiply(total, 1 / draftDepth);
}

function missingLength(pass: ForcedPass, answer: HeldAnswer, draftDepth: number): Tensor {
  // Rows whose whole draft is inside the window.
  const starts = pass.draftLogits[draftDepth - 1]!.shape[1]!;
  let survival: Tensor = constant(1);
  let missing: Tensor = constant(draftDepth);
  for (let depth = 0; depth < draftDepth; depth++) {
    const { target, draft } = alignDistributions(pass, depth, answer);
    const cut = (x: Tensor): Tensor => slice(x, 1, 0, starts);
    survival = multiply(survival, acceptance({ target: cut(target), draft: cut(draft) }));
    missing = subtract(missing, survival);
  }
  return averageRows(missing, answerRows(answer, draftDepth));
}

/** [batch, row, 1] and weights [row, 1] -> [batch] */
function averageRows(x: Tensor, weights: Tensor): Tensor {
  const total = sum(multiply(x, weights), [1]);
  return divide(reshape(total, [x.shape[0]!]), reshape(sum(weights, [0]), []));
}

/** To the draft vocabulary. [batch, row, vocabulary] -> [batch, row, draft token] */
export function restrictTokens(distribution: Tensor, targetTokens: Int32Array | undefined): Tensor {
  if (targetTokens === undefined) return distribution;
  const columns = constant(Array.from(targetTokens), [targetTokens.length], 'int32');
  return transpose(gatherRows(transpose(distribution, [2, 0, 1]), columns), [1, 2, 0]);
}

export type DivergenceDirection = 'clean-to-suffixed' | 'suffixed-to-clean';

/**
 * Preservation: divergence of the target's distribution from the clean one, in nats. cleanLogits [1, window,
 * vocabulary] -> [batch, window, 1]
 */
export function positionDivergence(
  pass: Pick<ForcedPass, 'targetLogits'>,
  cleanLogits: Tensor,
  direction: DivergenceDirection,
): Tensor {
  const clean = logSoftmax(cleanLogits);
  const suffixed = logSoftmax(pass.targetLogits);
  return direction === 'clean-to-suffixed'
    ? overTokens(multiply(exponential(clean), subtract(clean, suffixed)))
    : overTokens(multiply(exponential(suffixed), subtract(suffixed, clean)));
}

/** [batch, window, 1] -> [batch] */
export function meanDivergence(positions: Tensor, answer: HeldAnswer): Tensor {
  return averageRows(positions, answerRows(answer, 0));
}

/** Required lead in logits, so that other kernels and batches agree. */
const safeLead = 0.2;

/** Mean lead of other tokens over the answer's; 0 if every answer token leads safely. [batch] */
export function answerMarginLoss(pass: Pick<ForcedPass, 'targetLogits'>, answer: HeldAnswer): Tensor {
  const scores = targetScores(pass, answer);
  const lead = subtract(scores, bestOther(pass.targetLogits, scores));
  return averageRows(maximum(subtract(safeLead, lead), 0), answerRows(answer, 0));
}

/** Best score except the given one. [batch, row, token], [batch, row, 1] -> [batch, row, 1] */
function bestOther(x: Tensor, scores: Tensor): Tensor {
  const best = topValues(x, 2);
  const [first, second] = [slice(best, 2, 0, 1), slice(best, 2, 1, 2)];
  return select(equal(first, scores), second, first);
}

export function toScalar(x: Tensor): Tensor {
  return reshape(x, []);
}
