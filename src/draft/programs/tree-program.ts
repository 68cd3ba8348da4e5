/**
 * A dynamic tree drafted in one program. Each round expands the `topK` best children of the previous one, by log
 * probability of the path, chosen on the device.
 */
import { lazilyBy } from '../../core/promises.js';
import { constant, input, type Tensor } from '../../graph/tensor.js';
import { add, divide } from '../../graph/operations/elementwise.js';
import { gatherRows, pick, topIndices, topValues } from '../../graph/operations/indexing.js';
import { logSoftmax } from '../../graph/operations/reductions.js';
import { broadcast, concatenate, reshape, slice, transpose } from '../../graph/operations/shaping.js';
import { multiplyDimensions } from '../../graph/dimension.js';
import { blocked, rowNumbers } from '../../model/attention-inputs.js';
import type { AttentionContext } from '../../model/decoder.js';
import { lanes } from '../../model/lanes/lane-graph.js';
import { compileLanes, type LaneProgram } from '../../model/lanes/lane-program.js';
import type { MixedValues, NamedTensors, Runtime } from '../../runtime/program.js';
import { floatsOf, integersOf } from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { ChainPlaces, ChainSizes } from './chain-program.js';
import { chainInputs, declareVerifiedMask, draftedColumns, toTarget } from './chain-program.js';
import type { TreeLevel, TreeSize } from '../tree/grow-tree.js';
import type { Vocabularies } from '../../model/lanes/sampler.js';
import { requireScore } from './scores.js';

export interface TreeRound {
  readonly tokens: Tensor; // [topK, lanes] as the target knows them
  readonly context: AttentionContext;
  /** Moves rows of the previous round to their children: [topK, lanes, width]. */
  fromParents(rows: Tensor): Tensor;
}

/**
 * @param rootLogits [1, lanes, draft vocabulary]
 * @param expand returns the logits of a round. [topK, lanes, draft vocabulary]
 */
export function buildTree(
  drafter: ChainSizes & { readonly vocabularies: Vocabularies },
  { depth, topK }: TreeSize,
  context: AttentionContext,
  rootLogits: Tensor,
  expand: (round: TreeRound) => Tensor,
): NamedTensors {
  /** [row, lanes, topK] */
  const scoreChildren = (logits: Tensor, parents?: Tensor) => {
    const probabilities = logSoftmax(logits);
    const best = topIndices(probabilities, topK);
    const values = topValues(probabilities, topK);
    return {
      tokens: toTarget(best, drafter.vocabularies.targetTokens),
      scores: parents === undefined ? values : add(reshape(parents, [topK, lanes, 1]), values),
    };
  };
  const rounds = declareRounds(context, { depth, topK }, drafter);
  const levels = [scoreChildren(rootLogits)];
  const choices: Tensor[] = []; // [topK, lanes] among the children of the level before, flat
  // The root's children are the first round.
  let tokens = transpose(reshape(levels[0]!.tokens, [lanes, topK]), [1, 0]);
  let scores = transpose(reshape(levels[0]!.scores, [lanes, topK]), [1, 0]);
  let parents: Tensor | undefined;
  for (let round = 0; round < depth; round++) {
    const logits = expand({ ...rounds.next(parents), tokens });
    const children = scoreChildren(logits, scores);
    levels.push(children);
    if (round === depth - 1) break;
    const flat = (x: Tensor): Tensor => reshape(transpose(x, [1, 0, 2]), [lanes, topK * topK]);
    const flatScores = flat(children.scores);
    const chosen = transpose(topIndices(flatScores, topK), [1, 0]);
    choices.push(chosen);
    scores = transpose(topValues(flatScores, topK), [1, 0]);
    tokens = pickFrom(flat(children.tokens), chosen, topK);
    parents = divide(chosen, constant(topK, [], 'int32'));
  }
  return {
    treeTokens: concatenate(
      levels.map((level) => level.tokens),
      0,
    ),
    treeScores: concatenate(
      levels.map((level) => level.scores),
      0,
    ),
    ...(choices.length === 0 ? {} : { treeChoices: concatenate(choices, 0) }),
  };
}

/** values [lanes, n] at indices [topK, lanes] */
function pickFrom(values: Tensor, indices: Tensor, topK: number): Tensor {
  return pick(broadcast(values, [topK, ...values.shape]), indices);
}

/** Rows see what the last verified row saw, their ancestors, and themselves. */
function declareRounds(
  context: AttentionContext,
  { depth, topK }: TreeSize,
  { sizes: { headSize }, window }: ChainSizes,
) {
  const verified = declareVerifiedMask(context, depth, window);
  const places = input('treePlaces', [topK, lanes], 'int32');
  const rows = multiplyDimensions(topK, lanes);
  const angles = (name: string) => {
    const all = input(name, [depth, lanes, headSize / 2]);
    return (round: number): Tensor => {
      const own = broadcast(slice(all, 0, round, round + 1), [topK, lanes, headSize / 2]);
      return reshape(own, [rows, headSize / 2]);
    };
  };
  const [cosine, sine] = [angles('chainCosine'), angles('chainSine')];
  const itself = broadcast(reshape(diagonal(topK), [topK, 1, topK]), [topK, lanes, topK]);
  let seen: Tensor | undefined; // [topK, lanes, topK * rounds]
  let round = 0;
  return {
    /** `parents` [topK, lanes]: rows of the previous round; undefined for the first. */
    next(parents: Tensor | undefined): Omit<TreeRound, 'tokens'> {
      const index = parents && pickFrom(transpose(places, [1, 0]), parents, topK);
      const fromParents = (x: Tensor): Tensor =>
        index === undefined ? x : gatherRows(reshape(x, [rows, x.shape.at(-1)!]), index);
      seen = seen === undefined ? itself : concatenate([fromParents(seen), itself], -1);
      const near = window === undefined ? seen : add(seen, draftedColumns(round, window, topK));
      const drafted = reshape(transpose(near, [1, 0, 2]), [lanes, 1, topK, near.shape.at(-1)!]);
      const before = broadcast(verified(round), [lanes, 1, topK, context.mask.shape.at(-1)!]);
      const mask = concatenate([before, drafted], -1);
      const own = { cosine: cosine(round), sine: sine(round), mask, lanes };
      round += 1;
      return { context: own, fromParents };
    },
  };
}

function diagonal(size: number): Tensor {
  const values = Array.from({ length: size * size }, (_, at) => (at % (size + 1) === 0 ? 0 : blocked));
  return constant(values, [size, size]);
}

/** Verified rows are at the positions before `start`. */
export function treeInputs(
  verified: MixedValues,
  places: ChainPlaces,
  start: number,
  { depth, topK }: TreeSize,
): MixedValues {
  const treePlaces = rowNumbers(Array.from({ length: topK }, (_, place) => place));
  return { ...chainInputs(verified, places, start, depth + 1), treePlaces };
}

export function createTreeCompiler(
  runtime: Runtime,
  weights: readonly WeightStore[],
  build: (size: TreeSize) => NamedTensors,
): (size: TreeSize) => Promise<LaneProgram> {
  const compile = lazilyBy((key: string) => {
    const [depth, topK] = key.split(' ').map(Number) as [number, number];
    return compileLanes(runtime, build({ depth, topK }), weights);
  });
  return ({ depth, topK }) => compile(`${depth} ${topK}`);
}

export const treeNames = ({ depth }: TreeSize): readonly string[] => [
  'treeTokens',
  'treeScores',
  ...(depth > 1 ? ['treeChoices'] : []),
];

export function readTree(outputs: MixedValues, { depth, topK }: TreeSize): readonly TreeLevel[] {
  const tokens = integersOf(outputs, 'treeTokens');
  const scores = floatsOf(outputs, 'treeScores');
  for (let row = 0; row < scores.length; row += topK) requireScore(scores[row]!);
  const choices = depth > 1 ? integersOf(outputs, 'treeChoices') : new Int32Array(0);
  let start = 0;
  return Array.from({ length: depth + 1 }, (_, level) => {
    const end = start + (level === 0 ? topK : topK * topK);
    const own = { tokens: tokens.subarray(start, end), scores: scores.subarray(start, end) };
    start = end;
    const isLast = level === depth;
    const first = Int32Array.from({ length: topK }, (__, child) => child);
    const later = choices.subarray((level - 1) * topK, level * topK);
    return { ...own, chosen: isLast ? [] : level === 0 ? first : later };
  });
}
