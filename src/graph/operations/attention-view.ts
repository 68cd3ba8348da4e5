/**
 * An attention's inputs as contractions read them, and the weights that both its meaning and its gradient are made of.
 * Axes are named: b batch, t position, k key-value head of all lanes, g head within its group, u seen, d size. Where
 * lanes have keys in common, s is the lane and k the key-value head within it. Axes of length 1 are left out: every
 * reshaping saved is time saved at each token.
 */
import type { Dimension, Shape } from '../dimension.js';
import { addDimensions, equalDimensions, multiplyDimensions, subtractDimensions } from '../dimension.js';
import type { SegmentKind, Tensor, TensorOf } from '../tensor.js';
import { contract } from './contraction.js';
import { add, cast } from './elementwise.js';
import { softmax } from './reductions.js';
import { concatenate, reshape, slice, transpose } from './shaping.js';

export interface AttentionView {
  readonly queries: Tensor;
  readonly queryAxes: string; // b t s k g d
  readonly mixedAxes: string; // b s k g t d, of the result before positions come first
  readonly segments: readonly SegmentView[];
  readonly toMixed: (result: Tensor) => Tensor;
  readonly fromMixed: (mixed: Tensor) => Tensor;
}

export interface SegmentView {
  readonly keys: Tensor;
  readonly values: Tensor;
  readonly axes: string; // of keys and values
  readonly scoreAxes: string; // b s k g t u; a diagonal has no u
  readonly isDiagonal: boolean;
  readonly length: Dimension;
}

/** Who have a mask of their own: the sequences of a batch, lanes, or nobody. */
export function ownersOfMask({ shape }: { readonly shape: Shape }): 'all' | 'batch' | 'lanes' {
  return shape.length === 4 ? 'lanes' : shape.length === 3 ? 'batch' : 'all';
}

/** How many sequences run side by side. */
export const lanesOf = (mask: Tensor): Dimension => (ownersOfMask(mask) === 'lanes' ? mask.shape[0]! : 1);

/** Whether keys and values come from a cache. */
export const isKept = (kind: SegmentKind): boolean => ['cache', 'common', 'shared'].includes(kind);

const listAxes = (names: string): string[] => names.split(' ').filter(Boolean);

export function viewAttention({ inputs, attributes, shape }: TensorOf<'attention'>): AttentionView {
  const { heads, keyValueHeads, cacheType } = attributes;
  const [batch, position, , size] = shape;
  const group = heads / keyValueHeads;
  const [b, g] = [batch === 1 ? '' : 'b', group === 1 ? '' : 'g'];
  const lanes = lanesOf(inputs[1]!);
  const isParted = lanes !== 1 && attributes.segments.includes('common');
  const k = isParted ? 's k' : 'k';
  const [queryAxes, mixedAxes] = [`${b} t ${k} ${g} d`, `${b} ${k} ${g} t d`];
  const keyValueHead = isParted ? keyValueHeads : multiplyDimensions(lanes, keyValueHeads);
  const arrange = (tensor: Tensor, axes: string): Tensor => {
    const seen = tensor.shape.at(-3)!;
    const sizes = { b: batch!, t: position!, s: lanes, k: keyValueHead, g: group, u: seen, d: size! };
    return reshape(
      tensor,
      listAxes(axes).map((axis) => sizes[axis as keyof typeof sizes]),
    );
  };
  const permute = (tensor: Tensor, from: string, to: string): Tensor => {
    const names = listAxes(from);
    return transpose(
      tensor,
      listAxes(to).map((axis) => names.indexOf(axis)),
    );
  };
  const segments = attributes.segments.map((kind, index): SegmentView => {
    const sides = inputs.slice(2 + 2 * index, 4 + 2 * index);
    const round = (side: Tensor): Tensor => cast(isKept(kind) ? side : cast(side, cacheType!), 'float32');
    const [keys, values] = (cacheType === undefined ? sides : sides.map(round)) as [Tensor, Tensor];
    if (kind === 'cache') {
      const length = countCached(inputs, attributes.segments);
      const [axes, scoreAxes] = ['k u d', `${b} k ${g} t u`];
      const cut = (side: Tensor): Tensor => reshape(slice(side, 2, 0, length), [keyValueHead, length, size!]);
      return { keys: cut(keys), values: cut(values), axes, scoreAxes, isDiagonal: false, length };
    }
    const isDiagonal = kind === 'diagonal';
    const axes = { common: 'u k d', shared: `u ${k} d`, own: `${b} u ${k} d`, diagonal: `${b} t ${k} d` }[
      kind
    ];
    return {
      keys: arrange(keys, axes),
      values: arrange(values, axes),
      axes,
      scoreAxes: isDiagonal ? `${b} ${k} ${g} t` : `${b} ${k} ${g} t u`,
      isDiagonal,
      length: isDiagonal ? 1 : keys.shape.at(-3)!,
    };
  });
  return {
    queries: arrange(inputs[0]!, queryAxes),
    queryAxes,
    mixedAxes,
    segments,
    toMixed: (result) => permute(arrange(result, queryAxes), queryAxes, mixedAxes),
    fromMixed: (mixed) => reshape(permute(mixed, mixedAxes, queryAxes), shape),
  };
}

/** The columns of the mask that no other segment has. */
function countCached(inputs: readonly Tensor[], segments: readonly SegmentKind[]): Dimension {
  return segments.reduce<Dimension>(
    (left, kind, index) =>
      kind === 'cache' || kind === 'diagonal'
        ? left
        : subtractDimensions(left, inputs[2 + 2 * index]!.shape.at(-3)!),
    inputs[1]!.shape.at(-1)!,
  );
}

/** How much each row sees of everything: one softmax over all segments. [b s k g t, seen and diagonals] */
export function weigh(node: TensorOf<'attention'>, { queries, queryAxes, segments }: AttentionView): Tensor {
  const score = ({ keys, axes, scoreAxes, isDiagonal }: SegmentView): Tensor => {
    const scores = contract(queries, keys, `${queryAxes}, ${axes} -> ${scoreAxes}`, node.attributes.scale);
    return isDiagonal ? reshape(scores, [...scores.shape, 1]) : scores;
  };
  const seen = concatenate(segments.filter(({ isDiagonal }) => !isDiagonal).map(score), -1);
  const masked = reshape(add(partByMask(seen, node), spreadMask(node)), seen.shape);
  return softmax(concatenate([masked, ...segments.filter(({ isDiagonal }) => isDiagonal).map(score)], -1));
}

/** Scores as the mask is added to them: [b s k g t u] -> [b, lane, head, t, u] or [b, head, t, u] where it has owners. */
export function partByMask(scores: Tensor, { inputs, attributes, shape }: TensorOf<'attention'>): Tensor {
  const mask = inputs[1]!;
  const owners = ownersOfMask(mask);
  if (owners === 'all') return scores;
  const batch = shape[0] === 1 && owners === 'lanes' ? [] : shape.slice(0, 1);
  const lanes = owners === 'lanes' ? [lanesOf(mask)] : [];
  return reshape(scores, [...batch, ...lanes, attributes.heads, ...scores.shape.slice(-2)]);
}

/** The mask as it is added to them: the same for all heads. */
export function spreadMask({ inputs: [, mask] }: TensorOf<'attention'>): Tensor {
  if (ownersOfMask(mask!) !== 'batch') return mask!;
  const [batch, ...rows] = mask!.shape;
  return reshape(mask!, [batch!, 1, ...rows]);
}

/** What weigh joined, by segment. */
export function partWeights(weights: Tensor, { segments }: AttentionView): readonly Tensor[] {
  let seen: Dimension = 0;
  return segments.map(({ length, isDiagonal }) => {
    const start = seen;
    seen = addDimensions(start, length);
    if (equalDimensions(length, weights.shape.at(-1)!)) return weights;
    const part = slice(weights, -1, start, seen);
    return isDiagonal ? reshape(part, part.shape.slice(0, -1)) : part;
  });
}
