/** Compiled passes of a search: gradients of a suffix, and scores of many candidates. */
import { lazily, lazilyBy } from '../../core/promises.js';
import { symbol } from '../../graph/dimension.js';
import { gradient } from '../../graph/gradient.js';
import { type Tensor, input } from '../../graph/tensor.js';
import { matmul } from '../../graph/operations/contraction.js';
import { multiply } from '../../graph/operations/elementwise.js';
import { sum } from '../../graph/operations/reductions.js';
import { reshape, slice, transpose } from '../../graph/operations/shaping.js';
import { requireGraph } from '../../draft/reading/checks.js';
import type { Drafter } from '../../draft/drafter.js';
import type { CausalModel } from '../../model/causal-model.js';
import { embeddingTable } from '../../model/decoder.js';
import type { NamedTensors, NamedValues, Program } from '../../runtime/program.js';
import type { AuditSettings } from '../settings.js';
import { buildForcedPass, embedCopies, embedIds, embedOneHotSuffix, row } from './forced-pass.js';
import { acceptanceAlong, declareAnswer, followsAnswer, window } from './held-answer.js';
import type { Objective } from './objectives.js';
import {
  answerMarginLoss,
  createObjective,
  meanDivergence,
  positionDivergence,
  toScalar,
} from './objectives.js';
import { buildRanking } from './candidates.js';

export interface SearchModels {
  readonly target: CausalModel;
  readonly drafter: Drafter;
}

export interface PassSettings extends Pick<AuditSettings, 'suffixLength' | 'divergence' | 'temperature'> {
  /** As in the decoding policy. */
  readonly draftLevels: number;
}

export interface SearchPrograms {
  readonly objective: Objective;
  readonly settings: PassSettings;
  /** oneHot [suffix, vocabulary] -> degradation, divergence and their gradients [suffix, vocabulary] */
  readonly gradients: () => Promise<Program>;
  /** oneHot -> marginLossGradient [suffix, vocabulary], of the target alone */
  readonly marginLossGradient: () => Promise<Program>;
  /**
   * tokens [batch, row] -> degradation, divergence and answerMarginLoss [batch], follows [batch, window], and per
   * draft level d accepted<d> [batch, window - 1 - d]; without a graph only what the target gives
   */
  readonly scores: () => Promise<Program>;
  /**
   * tokens [row], position [batch, window, 1] (the answer position of each copy) and a zero shift [batch, row,
   * hidden] -> divergenceGradient [batch, suffix, vocabulary]
   */
  readonly positionGradients: () => Promise<Program>;
  /** For gradients on the device (candidates.ts). */
  readonly ranking: (count: number) => Promise<Program>;
  dispose(): Promise<void>;
}

/** For the settings of an audit. */
export function compileAudit(
  models: SearchModels,
  settings: AuditSettings,
  draftLevels: number,
): SearchPrograms {
  const depth = Math.min(settings.draftDepth, models.drafter.maximumDepth);
  return compileSearch(models, createObjective(settings.objective, depth), { ...settings, draftLevels });
}

/** Compiled on first use. */
export function compileSearch(
  { target, drafter }: SearchModels,
  objective: Objective,
  settings: PassSettings,
): SearchPrograms {
  const { runtime, configuration } = target;
  const { graph } = drafter;
  const stores = [target.weights, ...(graph?.weights ?? []).filter((store) => store !== target.weights)];
  const { suffixLength, divergence: direction, temperature, draftLevels } = settings;
  const clean = input('clean', [1, window, configuration.vocabularySize]);
  const answer = declareAnswer(graph?.targetTokens);
  const parts = { target, drafter, window, temperature };

  const oneHot = input('oneHot', [suffixLength, configuration.vocabularySize]);
  const pass = buildForcedPass({ ...parts, depth: objective.depth, embedWith: embedOneHotSuffix(oneHot) });
  const positions = positionDivergence(pass, clean, direction);
  const gradientOf = (loss: Tensor): Tensor => gradient(loss, [oneHot])[0]!;
  const buildGradients = (): NamedTensors => {
    requireGraph(drafter);
    const degradation = toScalar(objective.degradation(pass, answer));
    const divergence = toScalar(meanDivergence(positions, answer));
    return {
      degradation,
      divergence,
      degradationGradient: gradientOf(degradation),
      divergenceGradient: gradientOf(divergence),
    };
  };

  const depth = Math.max(objective.depth, draftLevels);
  const batchPass = buildForcedPass({ ...parts, depth, embedWith: embedIds() });
  const batch = symbol('batch');
  const scoreOutputs: NamedTensors = {
    ...(graph === undefined
      ? {}
      : { degradation: reshape(objective.degradation(batchPass, answer), [batch]) }),
    divergence: meanDivergence(positionDivergence(batchPass, clean, direction), answer),
    answerMarginLoss: answerMarginLoss(batchPass, answer),
    follows: followsAnswer(batchPass, answer),
    ...Object.fromEntries(
      Array.from({ length: graph === undefined ? 0 : draftLevels }, (_, level) => [
        `accepted${level}`,
        acceptanceAlong(batchPass, level, answer, temperature),
      ]),
    ),
  };
  const buildPositionGradients = (): NamedTensors => {
    const shift = input('shift', [batch, row, configuration.hiddenSize]);
    const copies = buildForcedPass({ target, window, temperature, depth: 0, embedWith: embedCopies(shift) });
    const chosen = input('position', [batch, window, 1]);
    const loss = sum(multiply(positionDivergence(copies, clean, direction), chosen), [0, 1]);
    const ofRows = gradient(toScalar(reshape(loss, [1])), [shift])[0]!;
    const table = embeddingTable(configuration, target.scope);
    // The gradient of a one-hot row is the embedding's gradient times the table.
    return { divergenceGradient: matmul(slice(ofRows, 1, 1, 1 + suffixLength), transpose(table, [1, 0])) };
  };
  const compiled = new Set<Program>();
  const compile = async (outputs: NamedTensors): Promise<Program> => {
    const program = await runtime.compile(outputs, stores);
    compiled.add(program);
    return program;
  };
  return {
    objective,
    settings,
    gradients: lazily(async () => compile(buildGradients())),
    marginLossGradient: lazily(() =>
      compile({ marginLossGradient: gradientOf(toScalar(answerMarginLoss(pass, answer))) }),
    ),
    scores: lazily(() => compile(scoreOutputs)),
    positionGradients: lazily(() => compile(buildPositionGradients())),
    ranking: lazilyBy((count) => compile(buildRanking(suffixLength, configuration.vocabularySize, count))),
    async dispose() {
      await Promise.all([...compiled].map((program) => program.dispose()));
    },
  };
}

/** Drafters without attention do not use all inputs. */
export function runDeclared(program: Program, values: NamedValues): Promise<NamedValues> {
  return program.run(declaredOf(program, values));
}

export function declaredOf(program: Program, values: NamedValues): NamedValues {
  const declared: Record<string, NamedValues[string]> = {};
  for (const { name } of program.inputs) {
    const value = values[name];
    if (value !== undefined) declared[name] = value;
  }
  return declared;
}
