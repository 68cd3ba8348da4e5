/**
 * A greedy chain drafted inside one program. Each level looks up the most likely token of the level before, so a step
 * costs one call instead of one for each level; on a CPU the calls are a good part of what a small drafter costs.
 */
import type { Tensor } from '../graph/tensor.js';
import { argmax, gatherRows } from '../graph/operations/indexing.js';
import { constant, input } from '../graph/operations/leaves.js';
import { sum } from '../graph/operations/reductions.js';
import { concatenate, reshape, slice } from '../graph/operations/shaping.js';
import { subtractDimensions } from '../graph/dimension.js';
import type { AttentionContext } from '../model/decoder-layer.js';
import type { RotaryTable } from '../model/rotary.js';
import type { NamedTensors, NamedValues, Program, Runtime } from '../runtime/program.js';
import { float32, floatsOf, integersOf } from '../runtime/program.js';
import type { WeightStore } from '../runtime/weights.js';
import { requireScore } from './scores.js';

/** What one level says: its token as the target knows it, [1], and the sum of its scores, [1], which shows a broken drafter. */
interface ChosenToken {
  readonly token: Tensor;
  readonly score: Tensor;
}

/** logits [1, draft vocabulary] */
export function chooseToken(logits: Tensor, targetTokens: Int32Array | undefined): ChosenToken {
  const best = argmax(logits);
  // Not the maximum: the runtime's skips what is no number.
  const score = reshape(sum(logits, [-1]), [1]);
  if (targetTokens === undefined) return { token: best, score };
  const table = constant(Array.from(targetTokens), [targetTokens.length], 'int32');
  return { token: gatherRows(table, best), score };
}

/** The context of level 1, 2, ...: one row, at its own position, that sees what the last verified row saw. */
export function declareChainContexts(
  context: AttentionContext,
  levels: number,
  headSize: number,
): AttentionContext[] {
  if (levels === 0) return [];
  const rows = context.mask.shape[0]!;
  const mask = slice(context.mask, 0, subtractDimensions(rows, 1));
  const cosine = input('chainCosine', [levels, headSize / 2]);
  const sine = input('chainSine', [levels, headSize / 2]);
  return Array.from({ length: levels }, (_, level) => ({
    cosine: slice(cosine, 0, level, level + 1),
    sine: slice(sine, 0, level, level + 1),
    // One more column for every level before: drafted rows see them all.
    mask: concatenate([mask, constant(new Array<number>(level + 1).fill(0), [1, level + 1])], 1),
  }));
}

/** The inputs that declareChainContexts declared: positions from `start` on. */
export function chainAngles(rotary: RotaryTable, start: number, length: number): NamedValues {
  const levels = length - 1;
  if (levels === 0) return {};
  const { cosine, sine } = rotary.anglesAt(Int32Array.from({ length: levels }, (_, level) => start + level));
  const width = cosine.length / levels;
  return { chainCosine: float32(cosine, [levels, width]), chainSine: float32(sine, [levels, width]) };
}

/** `rows` are what the verified states leave in the drafter's cache, where it has one. */
export function chainOutputs(chosen: readonly ChosenToken[], rows?: Tensor): NamedTensors {
  return {
    chain: concatenate(
      chosen.map(({ token }) => token),
      0,
    ),
    chainScores: concatenate(
      chosen.map(({ score }) => score),
      0,
    ),
    ...(rows === undefined ? {} : { rows }),
  };
}

/** The program of each length, compiled when it is first asked for. */
export function createChainCompiler(
  runtime: Runtime,
  weights: readonly WeightStore[],
  build: (length: number) => NamedTensors,
): (length: number) => Promise<Program> {
  const programs = new Map<number, Promise<Program>>();
  return (length) => {
    const program = programs.get(length) ?? runtime.compile(build(length), weights, { packed: true });
    programs.set(length, program);
    return program;
  };
}

export function readChain(outputs: NamedValues): readonly number[] {
  floatsOf(outputs, 'chainScores').forEach(requireScore);
  return Array.from(integersOf(outputs, 'chain'));
}
