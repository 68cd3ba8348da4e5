/**
 * Attention as one operation, so that a lowering can fuse it; `decomposeAttention` says it in the others. Rows look at
 * segments of keys and values, and one softmax goes over all that they see:
 *
 *   cache     [1, keyValueHead, room, size]                a cache of one sequence whose first rows are seen, as many as
 *                                                          the mask has columns for; a kernel may write own rows behind them
 *   common    [seen, keyValueHead, size]                    one copy for all lanes too, such as a common beginning
 *   shared    [seen, lane * keyValueHead, size]             one copy for the whole batch, such as a cache
 *   own       [batch, seen, lane * keyValueHead, size]      rows of the same sequence
 *   diagonal  [batch, position, lane * keyValueHead, size]  row t sees row t of it and nothing else
 *
 * The mask is added to the scores of all but diagonals, in the order of the segments; diagonals come last and are
 * always seen. Heads fall into groups that share a key-value head (Ainslie et al., 2305.13245), and into lanes of
 * sequences that run side by side. Lanes have masks of their own, and so may the sequences of a batch.
 */
import {
  addDimensions,
  type Dimension,
  divideDimension,
  equalDimensions,
  equalShapes,
  formatShape,
  isMultiple,
  multiplyDimensions,
} from '../dimension.js';
import type { Attention, GradientRules, SegmentKind, Tensor, TensorOf } from '../tensor.js';
import { createTensor, refuse, requireDType } from '../tensor.js';
import {
  isKept,
  lanesOf,
  ownersOfMask,
  partByMask,
  partWeights,
  spreadMask,
  viewAttention,
  weigh,
} from './attention-view.js';
import { contract } from './contraction.js';
import { add, multiply, negate, subtract } from './elementwise.js';
import { sum } from './reductions.js';
import { concatenate, reduceTo, reshape, slice } from './shaping.js';

export interface AttentionSegment {
  readonly kind: SegmentKind;
  readonly keys: Tensor;
  readonly values: Tensor;
}

/** Values of what the rows of each head see, mixed as queries and keys agree. [batch, position, lane * head, size] */
export function attention(
  queries: Tensor, // [batch, position, lane * head, size]
  segments: readonly AttentionSegment[],
  mask: Tensor, // [position, seen], [batch, position, seen], or [lane, 1, position, seen]
  { heads, keyValueHeads, scale, cacheType }: Omit<Attention, 'segments'>,
): Tensor {
  const inputs = [queries, mask, ...segments.flatMap(({ keys, values }) => [keys, values])];
  for (const tensor of [queries, mask]) requireDType('attention', tensor, 'float32');
  const [batch, position, head, size] = queries.shape;
  if (queries.shape.length !== 4) refuse('attention', 'needs queries of four axes', [queries]);
  const lanes = lanesOf(mask);
  if (!Number.isInteger(heads / keyValueHeads) || !equalDimensions(head!, multiplyDimensions(lanes, heads))) {
    refuse('attention', `cannot part heads into ${heads}, grouped by ${keyValueHeads}`, [queries, mask]);
  }
  let seen: Dimension = 0;
  segments.forEach(({ kind, keys, values }, index) => {
    const dtype = isKept(kind) ? (cacheType ?? 'float32') : 'float32';
    for (const tensor of [keys, values]) requireDType('attention', tensor, dtype);
    const length = keys.shape.at(-3) ?? 0;
    const ownHeads = multiplyDimensions(kind === 'common' ? 1 : lanes, keyValueHeads);
    const expected = {
      cache: [1, ownHeads, keys.shape.at(-2)!, size!],
      common: [length, ownHeads, size!],
      shared: [length, ownHeads, size!],
      own: [batch!, length, ownHeads, size!],
      diagonal: [batch!, position!, ownHeads, size!],
    }[kind];
    if (!equalShapes(keys.shape, expected) || !equalShapes(values.shape, expected)) {
      refuse('attention', `needs ${kind} keys and values of ${formatShape(expected)}`, [keys, values]);
    }
    if (kind === 'cache' && (index > 0 || batch !== 1 || lanes !== 1))
      refuse('attention', 'needs the cache of one sequence before its other rows', [keys, mask]);
    if (kind === 'diagonal' || kind === 'cache') return;
    if (segments[index - 1]?.kind === 'diagonal')
      refuse('attention', 'needs diagonals behind the others', []);
    seen = addDimensions(seen, length);
  });
  const owners = { all: [], batch: [batch!], lanes: [lanes, 1] }[ownersOfMask(mask)];
  const columns = segments[0]?.kind === 'cache' ? mask.shape.at(-1)! : seen;
  const expected = [...owners, position!, columns];
  if (columns === 0 || !equalShapes(mask.shape, expected)) {
    refuse('attention', `needs a mask of ${formatShape(expected)}`, [mask]);
  }
  return createTensor(
    'attention',
    inputs,
    { segments: segments.map(({ kind }) => kind), heads, keyValueHeads, scale, cacheType },
    { shape: queries.shape, dtype: 'float32' },
  );
}

/** The same in contractions and a softmax, for runtimes without a kernel of their own. */
export function decomposeAttention(tensor: Tensor): Tensor | undefined {
  if (tensor.operation !== 'attention') return undefined;
  const view = viewAttention(tensor);
  const weights = partWeights(weigh(tensor, view), view);
  const parts = view.segments.map(({ values, axes, scoreAxes }, index) =>
    contract(weights[index]!, values, `${scoreAxes}, ${axes} -> ${view.mixedAxes}`),
  );
  return view.fromMixed(parts.reduce((left, right) => add(left, right)));
}

export function listSegments({ inputs, attributes }: TensorOf<'attention'>): readonly AttentionSegment[] {
  return attributes.segments.map((kind, index) => {
    const [keys, values] = inputs.slice(2 + 2 * index) as [Tensor, Tensor];
    return { kind, keys, values };
  });
}

/** Keys and values that were joined from several, as segments of their own: nothing needs to be copied. */
export function separateSegments(tensor: Tensor): Tensor | undefined {
  if (tensor.operation !== 'attention') return undefined;
  const { inputs, attributes } = tensor;
  const [queries, mask] = inputs as [Tensor, Tensor];
  const lanes = lanesOf(mask);
  const segments = listSegments(tensor).flatMap(({ kind, keys, values }): AttentionSegment[] => {
    const parts = kind === 'own' ? [keys, values].map((side) => listParts(side, lanes)) : [];
    const [keyParts = [keys], valueParts = [values]] = parts;
    const isAlike =
      keyParts.length === valueParts.length &&
      keyParts.every((part, at) => equalShapes(part.shape, valueParts[at]!.shape));
    if (!isAlike) return [{ kind, keys, values }];
    return keyParts.map((part, at) => ({ kind, keys: part, values: valueParts[at]! }));
  });
  if (segments.length === attributes.segments.length) return undefined;
  return attention(queries, segments, mask, attributes);
}

/** The sides that one was joined from; itself if it was not. [batch, seen, lane * keyValueHead, size] */
function listParts(side: Tensor, lanes: Dimension): readonly Tensor[] {
  let root = side;
  while (root.operation === 'reshape') root = root.inputs[0]!;
  const [batch, , heads, size] = side.shape;
  if (root.operation !== 'concatenate' || root.attributes.axis !== 1 || root.shape.length !== 4)
    return [side];
  const parts = root.inputs.map((part) => {
    const seen = divideDimension(part.shape[1]!, equalDimensions(heads!, part.shape[2]!) ? 1 : lanes);
    return seen === undefined ? undefined : reshape(part, [batch!, seen, heads!, size!]);
  });
  return parts.every((part) => part !== undefined) ? parts.flatMap((part) => listParts(part, lanes)) : [side];
}

export const attentionGradients: GradientRules<'attention'> = {
  // The weights are computed again, or found again where the forward pass was spelled out in the same program.
  attention: (node, outputGradient) => {
    const view = viewAttention(node);
    const { queries, queryAxes, mixedAxes, segments } = view;
    const { scale } = node.attributes;
    const mask = spreadMask(node);
    const g = view.toMixed(outputGradient);
    const distribution = weigh(node, view);
    const byWeight = concatenate(
      segments.map(({ values, axes, scoreAxes, isDiagonal }) => {
        const products = contract(g, values, `${mixedAxes}, ${axes} -> ${scoreAxes}`);
        return isDiagonal ? reshape(products, [...products.shape, 1]) : products;
      }),
      -1,
    );
    // Through the softmax, as in its own rule.
    const average = sum(multiply(byWeight, distribution), [-1]);
    const byScore = multiply(distribution, subtract(byWeight, average));
    const weights = partWeights(distribution, view);
    const scores = partWeights(byScore, view);
    const byQueries = segments
      .map(({ keys, axes, scoreAxes }, index) =>
        contract(scores[index]!, keys, `${scoreAxes}, ${axes} -> ${queryAxes}`, scale),
      )
      .reduce((left, right) => add(left, right));
    const masked = partByMask(slice(byScore, -1, 0, mask.shape.at(-1)), node);
    const byMask = reshape(reduceTo(masked, mask.shape), node.inputs[1]!.shape);
    const bySegments = segments.flatMap(({ axes, scoreAxes }, index) => {
      const [keys, values] = node.inputs.slice(2 + 2 * index);
      const byKeys = contract(scores[index]!, queries, `${scoreAxes}, ${queryAxes} -> ${axes}`, scale);
      const byValues = contract(weights[index]!, g, `${scoreAxes}, ${mixedAxes} -> ${axes}`);
      return [reshape(byKeys, keys!.shape), reshape(byValues, values!.shape)];
    });
    return [reshape(byQueries, node.shape), byMask, ...bySegments];
  },
};

// Rotary position embedding: pairs (x[i], x[i + half]) of each head are turned by an angle that grows with the
// position (Su et al., 2104.09864, in the half-split order of the Llama checkpoints).

/** x [batch, position, head, width] or [batch, position, head * width], cosine and sine [position, width / 2]. */
export function rotate(x: Tensor, cosine: Tensor, sine: Tensor): Tensor {
  for (const tensor of [x, cosine, sine]) requireDType('rotate', tensor, 'float32');
  const [positions, pairs] = cosine.shape;
  const width = typeof pairs === 'number' ? 2 * pairs : 0;
  const last = x.shape.at(-1);
  const fits =
    cosine.shape.length === 2 &&
    equalShapes(cosine.shape, sine.shape) &&
    width > 0 &&
    ((x.shape.length === 4 && last === width) || (x.shape.length === 3 && isMultiple(last!, width))) &&
    equalDimensions(x.shape[1]!, positions!);
  if (!fits) refuse('rotate', 'needs one angle for each position and pair', [x, cosine, sine]);
  return createTensor('rotate', [x, cosine, sine], {}, { shape: x.shape, dtype: 'float32' });
}

export const rotationGradients: GradientRules<'rotate'> = {
  // A rotation's transpose turns back. Angles come from positions, which have no gradient.
  rotate: ({ inputs: [, cosine, sine] }, g) => [rotate(g, cosine!, negate(sine!)), undefined, undefined],
};
