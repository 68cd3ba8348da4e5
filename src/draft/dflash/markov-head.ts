/**
 * DSpark's Markov head (arXiv 2607.05147): scores that are added to a level's own and depend on the tokens before it.
 *
 *   vanilla  a matrix times the previous token's row
 *   gated    a gate weakens that row; it reads the row and the level's feature
 *   rnn      a recurrent state also carries the earlier tokens of the block
 */
import { showValue } from '../../core/json-text.js';
import { matmul } from '../../graph/operations/contraction.js';
import { add, multiply, sigmoid, subtract } from '../../graph/operations/elementwise.js';
import { weight, type Tensor } from '../../graph/tensor.js';
import { concatenate, slice } from '../../graph/operations/shaping.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { project } from '../../model/decoder.js';
import { linearRecipes, matrixRecipe, projectionRecipe } from '../../model/weights.js';
import { incomplete, type Reading } from '../reading/checks.js';

const kinds = ['vanilla', 'gated', 'rnn'] as const;
type MarkovKind = (typeof kinds)[number];

export interface MarkovParts {
  readonly rank: number;
  readonly kind: MarkovKind;
}

export interface MarkovHead {
  readonly table: Tensor; // [vocabulary, rank]
  /** Of the state that a level hands to the next one; 0 if there is none. */
  readonly stateWidth: number;
  /** features [..., hidden], previous [..., rank], state [..., rank] or undefined before the first level */
  step(
    features: Tensor,
    previous: Tensor,
    state: Tensor | undefined,
  ): { readonly scores: Tensor; readonly state: Tensor | undefined };
}

export function readMarkov({ tensors, settings, reject }: Reading): MarkovParts | undefined {
  const rank = tensors.get('markov_head.markov_w1.weight')?.shape[1];
  const { markov_rank: declared } = settings;
  if (rank === undefined) {
    if (typeof declared === 'number' && declared > 0)
      reject(`declares a Markov head of rank ${declared} and lacks it`, incomplete);
    return undefined;
  }
  const named = settings.markov_head_type ?? 'vanilla';
  const kind = kinds.find((each) => each === named);
  if (kind === undefined)
    reject(
      `has a Markov head of the type ${showValue(named)}, which is not supported`,
      `Supported types: ${kinds.join(', ')}.`,
    );
  return { rank, kind: kind ?? 'vanilla' };
}

interface MarkovSizes {
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly draftSize: number;
}

export function markovRecipes(
  scope: string,
  { rank, kind }: MarkovParts,
  { hiddenSize, vocabularySize, draftSize }: MarkovSizes,
): WeightRecipe[] {
  const extra = {
    vanilla: [],
    gated: linearRecipes(`${scope}markov_gate`, 'markov_head.gate_proj', hiddenSize + rank, rank),
    rnn: linearRecipes(`${scope}markov_joint`, 'markov_head.joint_proj', 2 * rank + hiddenSize, 3 * rank),
  };
  return [
    matrixRecipe(`${scope}markov_w1`, 'markov_head.markov_w1.weight', [vocabularySize, rank]),
    projectionRecipe(`${scope}markov_w2`, 'markov_head.markov_w2.weight', rank, draftSize),
    ...extra[kind],
  ];
}

export function createMarkov(
  scope: string,
  { rank, kind }: MarkovParts,
  { hiddenSize, vocabularySize, draftSize }: MarkovSizes,
): MarkovHead {
  const scoresOf = (row: Tensor): Tensor => matmul(row, weight(`${scope}markov_w2`, [rank, draftSize]));
  const steps: Readonly<Record<MarkovKind, MarkovHead['step']>> = {
    vanilla: (_, previous) => ({ scores: scoresOf(previous), state: undefined }),
    gated(features, previous) {
      const read = concatenate([features, previous], -1);
      const gate = sigmoid(project(read, `${scope}markov_gate`, hiddenSize + rank, rank, true));
      return { scores: scoresOf(multiply(gate, previous)), state: undefined };
    },
    rnn(features, previous, state = multiply(previous, 0)) {
      const read = concatenate([state, previous, features], -1);
      const joint = project(read, `${scope}markov_joint`, 2 * rank + hiddenSize, 3 * rank, true);
      const part = (place: number): Tensor => slice(joint, -1, place * rank, (place + 1) * rank);
      const gate = sigmoid(part(0));
      const kept = add(multiply(gate, state), multiply(subtract(1, gate), tanh(part(1))));
      return { scores: scoresOf(tanh(part(2))), state: kept };
    },
  };
  return {
    table: weight(`${scope}markov_w1`, [vocabularySize, rank]),
    stateWidth: kind === 'rnn' ? rank : 0,
    step: steps[kind],
  };
}

const tanh = (x: Tensor): Tensor => subtract(multiply(sigmoid(multiply(x, 2)), 2), 1);
