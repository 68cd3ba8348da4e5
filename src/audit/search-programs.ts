/** The two compiled passes of a search: one for the gradients of a suffix, one for the scores of many candidates. */
import { symbol } from '../graph/dimension.js';
import { gradient } from '../graph/gradient.js';
import type { Tensor } from '../graph/tensor.js';
import { multiply } from '../graph/operations/elementwise.js';
import { input } from '../graph/operations/leaves.js';
import { sum } from '../graph/operations/reductions.js';
import { reshape } from '../graph/operations/shaping.js';
import type { Drafter } from '../draft/drafter.js';
import type { CausalModel } from '../model/causal-model.js';
import type { NamedTensors, NamedValues, Program } from '../runtime/program.js';
import { buildForcedPass, embedIds, embedOneHotSuffix } from './forced-pass.js';
import type { DivergenceDirection, Objective } from './objectives.js';
import { meanDivergence, positionDivergence, toScalar } from './objectives.js';

export interface SearchModels {
  readonly target: CausalModel;
  readonly drafter: Drafter;
}

export interface PassSettings {
  readonly window: number;
  readonly suffixLength: number;
  readonly divergence: DivergenceDirection;
}

export interface SearchPrograms {
  readonly objective: Objective;
  readonly settings: PassSettings;
  /** oneHot [suffix, vocabulary] -> degradation, divergence and their gradients [suffix, vocabulary] */
  readonly gradients: Program;
  /** tokens [batch, row] -> degradation and divergence [batch] */
  readonly scores: Program;
  /** The preservation gradient of one answer position at a time, chosen by `position` [1, window, 1]. */
  readonly positionGradient: () => Promise<Program>;
}

export async function compileSearch(
  { target, drafter }: SearchModels,
  objective: Objective,
  settings: PassSettings,
): Promise<SearchPrograms> {
  const { runtime, configuration } = target;
  const stores = [target.weights, ...drafter.graph.weights.filter((store) => store !== target.weights)];
  const { window, suffixLength, divergence: direction } = settings;
  const clean = input('clean', [1, window, configuration.vocabularySize]);
  const parts = { target, drafter, window, depth: objective.depth };

  const oneHot = input('oneHot', [suffixLength, configuration.vocabularySize]);
  const pass = buildForcedPass({ ...parts, embedWith: embedOneHotSuffix(oneHot) });
  const positions = positionDivergence(pass, clean, direction);
  const degradation = toScalar(objective.degradation(pass, drafter.graph.targetTokens));
  const divergence = toScalar(meanDivergence(positions));
  const gradientOf = (loss: Tensor): Tensor => gradient(loss, [oneHot])[0]!;
  const gradientOutputs: NamedTensors = {
    degradation,
    divergence,
    degradationGradient: gradientOf(degradation),
    divergenceGradient: gradientOf(divergence),
  };

  const batchPass = buildForcedPass({ ...parts, embedWith: embedIds() });
  const batch = symbol('batch');
  const scoreOutputs: NamedTensors = {
    degradation: reshape(objective.degradation(batchPass, drafter.graph.targetTokens), [batch]),
    divergence: meanDivergence(positionDivergence(batchPass, clean, direction)),
  };
  const [gradients, scores] = await Promise.all([
    runtime.compile(gradientOutputs, stores),
    runtime.compile(scoreOutputs, stores),
  ]);
  const chosen = input('position', [1, window, 1]);
  const atPosition = toScalar(reshape(sum(multiply(positions, chosen), [1]), [1]));
  const positionGradient = (): Promise<Program> =>
    runtime.compile({ divergenceGradient: gradientOf(atPosition) }, stores);
  return { objective, settings, gradients, scores, positionGradient };
}

/** A program refuses nothing but reads only what it declared: drafters without attention leave inputs unused. */
export function runDeclared(program: Program, values: NamedValues): Promise<NamedValues> {
  const declared: Record<string, NamedValues[string]> = {};
  for (const { name } of program.inputs) {
    const value = values[name];
    if (value !== undefined) declared[name] = value;
  }
  return program.run(declared);
}
