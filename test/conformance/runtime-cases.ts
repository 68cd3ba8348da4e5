/**
 * What every runtime must compute: one graph of one operation per case, with the sizes of its symbols in successive
 * runs of one program. The values are drawn here, so that all runtimes see the same.
 */
import { encodeHalves, type HalfType, isHalf } from '../../src/core/half-floats.js';
import { type Random, createRandom } from '../../src/core/random.js';
import type { Dimension } from '../../src/graph/dimension.js';
import { addDimensions, evaluateDimension, multiplyDimensions, symbol } from '../../src/graph/dimension.js';
import { attention, rotate } from '../../src/graph/operations/attention.js';
import { isKept } from '../../src/graph/operations/attention-view.js';
import { contract, matmul, expertProduct } from '../../src/graph/operations/contraction.js';
import * as drawing from '../../src/graph/operations/indexing.js';
import * as indexing from '../../src/graph/operations/indexing.js';
import * as elementwise from '../../src/graph/operations/elementwise.js';
import { constant, input, weight } from '../../src/graph/tensor.js';
import * as reductions from '../../src/graph/operations/reductions.js';
import * as shaping from '../../src/graph/operations/shaping.js';
import type { DType, OperationName, SegmentKind, Tensor } from '../../src/graph/tensor.js';
import type { NamedTensors, NamedValues, TensorValue } from '../../src/runtime/program.js';
import { listInputs } from '../../src/runtime/program-values.js';
import type { WeightStore } from '../../src/runtime/weights.js';

export type Draw = (random: Random) => number;
export type Sizes = Readonly<Record<string, number>>;

export interface RuntimeCase {
  readonly operation: OperationName;
  readonly name: string;
  readonly output: Tensor;
  readonly sizes: readonly Sizes[]; // of the symbols, one for each run
  readonly draws: Readonly<Record<string, Draw>>; // by input name, where normal numbers will not do
  readonly sources: readonly string[]; // inputs by which the output is differentiated
  readonly weights: readonly WeightStore[];
}

interface CaseOptions {
  readonly draws?: Readonly<Record<string, Draw>>;
  readonly sources?: readonly string[];
  readonly weights?: readonly WeightStore[];
}

const normal: Draw = (random) => {
  // The sum of twelve uniform numbers is normal enough.
  let total = -6;
  for (let i = 0; i < 12; i++) total += random.next();
  return total;
};
const positive: Draw = (random) => 0.2 + 2 * random.next();
const below =
  (limit: number): Draw =>
  (random) =>
    random.nextInteger(limit);
const coarse: Draw = (random) => random.nextInteger(3) - 1;

const batch = symbol('batch');
const position = symbol('position');
const past = symbol('past');
const stem = symbol('stem');
const runs: readonly Sizes[] = [
  { batch: 2, position: 3, past: 4, stem: 3, lanes: 2 },
  { batch: 1, position: 5, past: 1, stem: 2, lanes: 3 },
  { batch: 3, position: 1, past: 2, stem: 1, lanes: 1 },
];

export function drawValues(
  outputs: NamedTensors,
  sizes: Sizes,
  draws: Readonly<Record<string, Draw>>,
  name: string,
): NamedValues {
  const bindings = new Map(Object.entries(sizes));
  const values: Record<string, TensorValue> = {};
  for (const description of listInputs(outputs)) {
    const shape = description.shape.map((dimension) => evaluateDimension(dimension, bindings)!);
    const random = createRandom('runtime', name, description.name, JSON.stringify(sizes));
    const draw = draws[description.name] ?? (description.dtype === 'bool' ? below(2) : normal);
    const numbers = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => draw(random));
    values[description.name] = { shape, data: arrayOf(description.dtype, numbers) };
  }
  return values;
}

function arrayOf(dtype: DType, numbers: readonly number[]): TensorValue['data'] {
  if (isHalf(dtype)) return encodeHalves(numbers, dtype);
  if (dtype === 'float32') return Float32Array.from(numbers);
  return dtype === 'int32' ? Int32Array.from(numbers) : Uint8Array.from(numbers);
}

function describeCase(
  operation: OperationName,
  name: string,
  output: Tensor,
  options: CaseOptions = {},
): RuntimeCase {
  const inputs = listInputs({ output });
  const isSymbolic = inputs.some(({ shape }) => shape.some((dimension) => typeof dimension !== 'number'));
  const sources = inputs.filter(({ dtype }) => dtype === 'float32').map((entry) => entry.name);
  return {
    operation,
    name: `${operation}: ${name}`,
    output,
    sizes: isSymbolic ? runs : [{}],
    draws: options.draws ?? {},
    sources: output.dtype === 'float32' ? (options.sources ?? sources) : [],
    weights: options.weights ?? [],
  };
}

const x = (...shape: Dimension[]): Tensor => input('x', shape);
const y = (...shape: Dimension[]): Tensor => input('y', shape);
const integers = (name: string, ...shape: Dimension[]): Tensor => input(name, shape, 'int32');
const flags = (...shape: Dimension[]): Tensor => input('flags', shape, 'bool');

const rows = x(batch, 3); // one tensor for cases that read it twice

function drawingCases(): readonly RuntimeCase[] {
  const keep = (width: number, ...shape: Dimension[]): Tensor =>
    drawing.keepLikeliest(x(...shape, width), integers('count', ...shape), input('mass', shape));
  const settings = { count: below(9), mass: (random: Random) => 1.1 * random.next() };
  const uniform = { y: (random: Random) => random.next() };
  const drawn = (weights: Tensor): Tensor => drawing.draw(weights, y(...weights.shape.slice(0, -1)));
  return [
    describeCase('keepLikeliest', 'vector', keep(5), { draws: settings, sources: [] }),
    describeCase('keepLikeliest', 'rows', keep(7, batch, position), { draws: settings, sources: [] }),
    describeCase('keepLikeliest', 'ties', keep(9, batch, position), {
      ...{ draws: { ...settings, x: coarse }, sources: [] },
    }),
    describeCase('keepLikeliest', 'long rows', keep(777, position, batch), {
      ...{ draws: { ...settings, count: below(900) }, sources: [] },
    }),
    describeCase('keepLikeliest', 'long rows with ties', keep(777, batch), {
      ...{ draws: { mass: settings.mass, count: below(900), x: coarse }, sources: [] },
    }),
    describeCase('keepLikeliest', 'by mass alone', keep(300, batch), {
      ...{ draws: { count: () => 300, mass: () => 0.4 }, sources: [] },
    }),
    describeCase('keepLikeliest', 'everything', keep(40, batch), {
      ...{ draws: { count: () => 40, mass: () => 1 }, sources: [] },
    }),
    describeCase('keepLikeliest', 'as a distribution', reductions.softmax(keep(6, batch)), {
      ...{ draws: settings, sources: ['x'] },
    }),
    describeCase('draw', 'vector', drawn(x(5)), { draws: { ...uniform, x: positive } }),
    describeCase('draw', 'rows', drawn(x(batch, position, 7)), { draws: { ...uniform, x: positive } }),
    describeCase('draw', 'rows with zeros', drawn(x(batch, position, 9)), {
      draws: { ...uniform, x: (random) => Math.max(0, random.next() - 0.7) },
    }),
    describeCase('draw', 'long rows', drawn(x(position, 2500)), { draws: { ...uniform, x: positive } }),
    describeCase('draw', 'the smallest and the largest number', drawn(x(8, 333)), {
      draws: { y: below(2), x: (random) => Math.max(0, random.next() - 0.5) },
    }),
    describeCase('draw', 'symbolic axis', drawn(x(2, past)), { draws: { ...uniform, x: positive } }),
  ];
}

const leafCases: readonly RuntimeCase[] = [
  describeCase('input', 'is the output', x(batch, 3)),
  describeCase('input', 'int32 is the output', integers('x', 4)),
  describeCase('input', 'bool is the output', flags(2, position)),
  describeCase('input', 'scalar is the output', x()),
  describeCase('constant', 'scalar', constant(2.5)),
  describeCase(
    'constant',
    'infinities are told apart',
    elementwise.add(
      constant([Infinity, 1], [2]),
      shaping.concatenate([constant([1], [1]), constant([-Infinity], [1])], 0),
    ),
  ),
  describeCase('constant', 'int32 and negative', constant([-3, 7], [2, 1], 'int32')),
  describeCase('constant', 'bool', constant([1, 0, 1], [3], 'bool')),
  describeCase('constant', 'used twice', elementwise.multiply(elementwise.add(x(batch), 0.5), 0.5)),
  describeCase('weight', 'is the output', weight('table', [2, 3]), { weights: memory('table', [2, 3]) }),
  describeCase('weight', 'times an input', matmul(x(batch, position, 4), weight('matrix', [4, 2])), {
    weights: memory('matrix', [4, 2]),
  }),
  describeCase('weight', 'has the name of an input', elementwise.add(x(3), weight('x', [3])), {
    weights: memory('x', [3]),
  }),
];

function memory(
  name: string,
  shape: readonly number[],
  dtype: 'float32' | 'bfloat16' | 'float16' = 'float32',
): readonly WeightStore[] {
  const random = createRandom('weights', name);
  const numbers = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => normal(random));
  const data = isHalf(dtype) ? encodeHalves(numbers, dtype) : Float32Array.from(numbers);
  return [{ kind: 'memory', tensors: new Map([[name, { shape, data, dtype }]]) }];
}

const unaryCases: readonly RuntimeCase[] = (
  ['negate', 'exponential', 'logarithm', 'reciprocalSquareRoot', 'sigmoid', 'silu', 'stopGradient'] as const
).flatMap((operation) => {
  const options: CaseOptions = {
    draws: { x: operation === 'logarithm' || operation === 'reciprocalSquareRoot' ? positive : normal },
    // Its gradient is zero by meaning, not by differences.
    ...(operation === 'stopGradient' ? { sources: [] } : {}),
  };
  const apply = elementwise[operation];
  return [
    describeCase(operation, 'matrix', apply(x(3, 4)), options),
    describeCase(operation, 'scalar', apply(x()), options),
    describeCase(operation, 'symbolic', apply(x(batch, position, 3)), options),
    describeCase(operation, 'of length 1', apply(x(1, 1)), options),
  ];
});

const castCases: readonly RuntimeCase[] = [
  describeCase('cast', 'float32 to int32 goes towards zero', elementwise.cast(x(batch, 7), 'int32'), {
    draws: { x: (random) => 4 * normal(random) },
  }),
  describeCase('cast', 'float32 to bool', elementwise.cast(x(9), 'bool'), { draws: { x: coarse } }),
  describeCase('cast', 'int32 to float32', elementwise.cast(integers('x', 5), 'float32'), {
    draws: { x: below(9) },
  }),
  describeCase('cast', 'int32 to bool', elementwise.cast(integers('x', 5), 'bool'), {
    draws: { x: below(2) },
  }),
  describeCase('cast', 'bool to float32', elementwise.cast(flags(batch, 4), 'float32')),
  describeCase('cast', 'bool to int32', elementwise.cast(flags(6), 'int32')),
];

const wide: Draw = (random) => normal(random) * 2 ** (random.nextInteger(60) - 30);

/** Halves are stored, moved, looked up and cast. Where they are read as they come, nothing was rounded on the way. */
const halfCases: readonly RuntimeCase[] = (['bfloat16', 'float16'] as const).flatMap((type) => {
  const half = (...shape: Dimension[]): Tensor => input('half', shape, type);
  const rounded = (...shape: Dimension[]): Tensor => elementwise.cast(x(...shape), type);
  const matrix = { weights: memory('halves', [4, 2], type) };
  return [
    describeCase('input', `${type} is the output`, half(batch, 3)),
    describeCase('constant', type, constant([1, -2.71828, 1e-7, 0], [2, 2], type)),
    describeCase('weight', `${type} is the output`, weight('halves', [4, 2], type), matrix),
    describeCase(
      'weight',
      `${type} times an input`,
      matmul(x(batch, 4), elementwise.cast(weight('halves', [4, 2], type), 'float32')),
      matrix,
    ),
    describeCase(
      'gatherRows',
      `${type} table`,
      elementwise.cast(indexing.gatherRows(weight('halves', [4, 2], type), integers('at', batch)), 'float32'),
      { ...matrix, draws: { at: below(4) } },
    ),
    describeCase('cast', `float32 to ${type}`, rounded(batch, 50), { draws: { x: wide } }),
    describeCase('cast', `${type} to float32`, elementwise.cast(half(batch, 50), 'float32'), {
      draws: { half: wide },
    }),
    describeCase('cast', `to ${type} and back`, elementwise.cast(rounded(batch, 50), 'float32'), {
      draws: { x: wide },
      // Rounding has steps: its gradient is meant, not measured.
      sources: [],
    }),
    describeCase(
      'cast',
      `${type} there and back`,
      elementwise.cast(elementwise.cast(half(9), 'float32'), type),
    ),
    describeCase('cast', `int32 to ${type}`, elementwise.cast(integers('x', 20), type), {
      draws: { x: below(70000) },
    }),
    describeCase('cast', `${type} to int32`, elementwise.cast(half(9), 'int32')),
    describeCase('cast', `bool to ${type}`, elementwise.cast(flags(5), type)),
    describeCase('cast', `${type} to bool`, elementwise.cast(half(5), 'bool'), { draws: { half: coarse } }),
    describeCase('reshape', type, shaping.reshape(rounded(batch, 6), [batch, 2, 3])),
    describeCase('transpose', type, shaping.transpose(rounded(batch, 3), [1, 0])),
    describeCase('broadcast', type, shaping.broadcast(rounded(1, 3), [2, 4, 3])),
    describeCase('slice', type, shaping.slice(rounded(batch, 6), 1, 1, 4)),
    describeCase('pad', type, shaping.pad(rounded(batch, 2), 1, 1, 2)),
    describeCase('concatenate', type, shaping.concatenate([rounded(batch, 2), half(batch, 2)], 1)),
    describeCase('select', type, elementwise.select(flags(batch, 1), rounded(batch, 3), half(batch, 3))),
    describeCase('pick', type, indexing.pick(rounded(batch, 4), integers('at', batch)), {
      draws: { at: below(4) },
    }),
  ];
});

const binaryCases: readonly RuntimeCase[] = (
  ['add', 'subtract', 'multiply', 'divide', 'maximum', 'minimum', 'greater', 'equal'] as const
).flatMap((operation) => {
  const apply = elementwise[operation];
  const draws: Readonly<Record<string, Draw>> =
    operation === 'divide' ? { y: positive } : operation === 'equal' ? { x: coarse, y: coarse } : {};
  const whole = {
    x: (random: Random) => random.nextInteger(9) - 4,
    y: (random: Random) => 1 + random.nextInteger(4),
  };
  return [
    describeCase(operation, 'same shapes', apply(x(2, 3), y(2, 3)), { draws }),
    describeCase(operation, 'row and column', apply(x(4, 1), y(1, 3)), { draws }),
    describeCase(operation, 'missing leading axes', apply(x(2, 3, 4), y(4)), { draws }),
    describeCase(operation, 'symbolic by fixed', apply(x(batch, position, 3), y(3)), { draws }),
    describeCase(operation, 'symbolic by symbolic', apply(x(batch, 1, 2), y(position, 1)), { draws }),
    describeCase(operation, 'scalars', apply(x(), y()), { draws }),
    describeCase(operation, 'number on the right', apply(x(batch, 2), 0.75), { draws }),
    describeCase(operation, 'int32', apply(integers('x', batch, 3), integers('y', 3)), { draws: whole }),
  ];
});

const selectCases: readonly RuntimeCase[] = [
  describeCase('select', 'float32', elementwise.select(flags(3, 4), x(3, 4), y(3, 4))),
  describeCase(
    'select',
    'broadcast everywhere',
    elementwise.select(flags(batch, 1, 3), x(position, 1), y(3)),
  ),
  describeCase('select', 'numbers', elementwise.select(flags(batch, position), 0, -Infinity)),
  describeCase('select', 'int32', elementwise.select(flags(batch), integers('x', batch), integers('y', 1)), {
    draws: { x: below(5), y: below(5) },
  }),
  describeCase(
    'select',
    'bool',
    elementwise.select(flags(4), input('x', [4], 'bool'), input('y', [4], 'bool')),
  ),
];

function contraction(equation: string, lengths: Readonly<Record<string, Dimension>>, scale = 1): RuntimeCase {
  const [left, right] = equation
    .split('->')[0]!
    .split(',')
    .map((names) =>
      names
        .trim()
        .split(/\s+/)
        .filter(Boolean)
        .map((name) => lengths[name]!),
    );
  const scaled = scale === 1 ? '' : ` times ${scale}`;
  const sizes = Object.entries(lengths).map(
    ([name, size]) => `${name}=${typeof size === 'number' ? size : size.key}`,
  );
  const output = contract(x(...left!), y(...right!), equation, scale);
  return describeCase('contract', `${equation}${scaled} (${sizes.join(' ')})`, output);
}

const heads = { b: batch, t: position, u: past, h: 3, d: 4 };
const groups = { b: batch, t: position, u: past, k: 2, g: 3, d: 4 };
const layers = { b: batch, t: position, i: 5, o: 3 };

const expertCases: readonly RuntimeCase[] = [
  ...[false, true].map((transposed) =>
    describeCase(
      'expertProduct',
      transposed ? 'transposed matrices' : 'rows',
      expertProduct(x(position, transposed ? 4 : 3), y(3, 20), integers('at', position), 5, transposed),
      { draws: { at: below(5) } },
    ),
  ),
  describeCase(
    'expertProduct',
    'one expert for all',
    expertProduct(x(position, 3), y(3, 8), integers('at', position), 2),
    { draws: { at: () => 1 } },
  ),
  describeCase(
    'expertProduct',
    'many long rows',
    expertProduct(x(20, 70), weight('table', [70, 2 * 36]), integers('at', 20), 2),
    {
      draws: { at: below(2), x: (random) => random.next() / 16 },
      weights: memory('table', [70, 2 * 36]),
      sources: [],
    },
  ),
  ...(['bfloat16', 'float16'] as const).map((type) =>
    describeCase(
      'expertProduct',
      `${type} weights`,
      expertProduct(x(position, 3), weight('halves', [3, 10]), integers('at', position), 5),
      { draws: { at: below(5) }, weights: memory('halves', [3, 10], type) },
    ),
  ),
];

const contractionCases: readonly RuntimeCase[] = [
  contraction('b t h d, b u h d -> b h t u', heads, 0.5),
  contraction('b t h d, p h d -> b h t p', { ...heads, p: past }, 0.5),
  contraction('b t k g d, b u k d -> b k g t u', groups, 0.5),
  contraction('b k g t u, b u k d -> b t k g d', groups),
  contraction('b t k g d, p k d -> b k g t p', { ...groups, p: past }, 0.25),
  contraction('b k g t p, p k d -> b t k g d', { ...groups, p: past }),
  contraction('b h t u, b u h d -> b t h d', heads),
  contraction('b h t p, p h d -> b t h d', { ...heads, p: past }),
  contraction('b t h d, b u h d -> b h t u', { ...heads, h: 1 }, 0.5),
  contraction('b t h d, b u h d -> b h t u', { ...heads, t: 1 }),
  contraction('b t h d, b u h d -> b h t u', { ...heads, b: 1, u: 7 }, 2),
  contraction('b t h d, b u h d -> b h t u', { b: 1, t: 1, u: 1, h: 1, d: 1 }, 2),
  contraction('b t i, i o -> b t o', layers),
  contraction('b t i, o i -> b t o', layers),
  contraction('b t i, o i -> b t o', layers, -3),
  contraction('b t i, i o -> b t o', { ...layers, i: 1 }),
  contraction('b t i, o i -> b t o', { ...layers, o: 1 }),
  contraction('b t o, b t i -> i o', layers),
  contraction('b t o, b t i -> o i', layers),
  contraction('t i, i o -> t o', layers),
  contraction('t i, i o -> o t', layers),
  contraction('i t, i o -> t o', layers),
  contraction('i t, o i -> t o', layers),
  contraction('i, i o -> o', layers),
  contraction('t i, i -> t', layers),
  contraction('i, i -> ', layers),
  contraction('t, t -> t', layers),
  contraction('t, u -> t u', heads),
  contraction('t, u -> u t', heads),
  contraction('b t i, b t i -> b t', layers),
  contraction('b t, b t i -> b i', layers),
  contraction('b t, b t i -> i b', layers),
  contraction('b t i, b t i -> i', layers),
  contraction('b t h d, h d o -> b t o', { ...heads, o: 5 }),
  contraction('b t h d, o h d -> b t o', { ...heads, o: 5 }, 0.125),
  contraction('b t h d, d h o -> b t o', { ...heads, o: 5 }),
  contraction('b t i, i h d -> b t h d', { ...heads, i: 5 }),
  contraction('b t i, h d i -> b h t d', { ...heads, i: 5 }),
  contraction('t b d, u b d -> b t u', heads),
  contraction('d b t, d b u -> b t u', heads),
  contraction('d t b, b u d -> u b t', heads),
  describeCase('contract', 'matmul of two stacks', matmul(x(batch, 2, position, 3), y(batch, 2, 3, past))),
  describeCase('contract', 'matmul of two matrices', matmul(x(2, 3), y(3, 4))),
  describeCase('contract', 'a tensor with itself', contract(rows, rows, 'b i, b i -> b', 0.5)),
];

/** Caches are for one runtime only (onnx/attention-in-place.test.ts). */
type CommonKind = Exclude<SegmentKind, 'cache'>;

interface AttentionSizes {
  readonly segments: readonly CommonKind[];
  readonly batch?: Dimension;
  readonly lanes?: Dimension;
  /** Whether each sequence of the batch has a mask of its own. */
  readonly ownMasks?: boolean;
  readonly heads?: number;
  readonly keyValueHeads?: number;
  readonly cacheType?: HalfType;
}

function attentionCase(name: string, options: AttentionSizes): RuntimeCase {
  const { segments, batch: b = batch, lanes, heads: count = 2, keyValueHeads = count, cacheType } = options;
  const owners = lanes !== undefined ? [lanes, 1] : options.ownMasks === true ? [b] : [];
  const size = 3;
  const head = multiplyDimensions(lanes ?? 1, keyValueHeads);
  const shapes: Readonly<Record<CommonKind, readonly Dimension[]>> = {
    common: [stem, keyValueHeads, size],
    shared: [past, head, size],
    own: [b, position, head, size],
    diagonal: [b, position, head, size],
  };
  const seen = segments
    .map((kind) => ({ common: stem, shared: past, own: position, diagonal: 0 })[kind])
    .reduce<Dimension>(addDimensions, 0);
  const rows = [position, seen];
  const output = attention(
    input('queries', [b, position, multiplyDimensions(lanes ?? 1, count), size]),
    segments.map((kind, index) => ({
      kind,
      keys: input(`keys${index}`, shapes[kind], isKept(kind) ? cacheType : 'float32'),
      values: input(`values${index}`, shapes[kind], isKept(kind) ? cacheType : 'float32'),
    })),
    input('mask', [...owners, ...rows]),
    { heads: count, keyValueHeads, scale: 0.6, cacheType },
  );
  // Lengths that stand in sums and products only would not be known.
  const pasts = [
    ...(segments.includes('common') ? [stem] : []),
    ...(segments.includes('shared') ? [past] : []),
  ];
  const known = [b, ...pasts, position, ...(lanes === undefined ? [] : [lanes])];
  const carrier = input('carrier', known);
  const total = reductions.sum(
    carrier,
    known.map((_, axis) => axis),
  );
  return describeCase('attention', name, elementwise.add(output, shaping.reshape(total, [])), {
    // Rounding has steps: its gradient is meant, not measured.
    sources: cacheType === undefined ? listInputs({ output }).map((entry) => entry.name) : [],
  });
}

const attentionCases: readonly RuntimeCase[] = [
  attentionCase('its own rows', { segments: ['own'] }),
  attentionCase('a past for the whole batch', { segments: ['shared'] }),
  attentionCase('past and own rows', { segments: ['shared', 'own'] }),
  attentionCase('one sequence', { segments: ['shared', 'own'], batch: 1 }),
  attentionCase('heads in groups', { segments: ['shared', 'own'], heads: 4, keyValueHeads: 2 }),
  attentionCase('one key-value head', { segments: ['shared', 'own'], heads: 3, keyValueHeads: 1 }),
  attentionCase('groups of one sequence', {
    segments: ['shared', 'own'],
    batch: 1,
    heads: 4,
    keyValueHeads: 2,
  }),
  attentionCase('lanes', { segments: ['shared', 'own'], batch: 1, lanes: symbol('lanes') }),
  attentionCase('lanes and groups', {
    ...{ segments: ['shared', 'own'], batch: 1, lanes: symbol('lanes'), heads: 4, keyValueHeads: 2 },
  }),
  attentionCase('lanes in a batch', { segments: ['own'], lanes: symbol('lanes') }),
  attentionCase('what lanes have in common', {
    ...{ segments: ['common', 'shared', 'own'], batch: 1, lanes: symbol('lanes') },
  }),
  attentionCase('what lanes have in common, groups', {
    segments: ['common', 'shared', 'own'],
    ...{ batch: 1, lanes: symbol('lanes'), heads: 4, keyValueHeads: 2 },
  }),
  attentionCase('what lanes of a batch have in common', {
    segments: ['common', 'own', 'diagonal'],
    ...{ lanes: symbol('lanes'), heads: 4, keyValueHeads: 2 },
  }),
  attentionCase('what one lane has in common with nobody', { segments: ['common', 'own'] }),
  attentionCase('a diagonal', { segments: ['shared', 'own', 'diagonal'] }),
  attentionCase('masks of sequences', { segments: ['shared', 'own'], ownMasks: true }),
  attentionCase('a mask of one sequence', { segments: ['own'], batch: 1, ownMasks: true }),
  attentionCase('masks of sequences, diagonals and groups', {
    ...{ segments: ['own', 'diagonal', 'diagonal'], ownMasks: true, heads: 4, keyValueHeads: 2 },
  }),
  attentionCase('diagonals of one sequence', { segments: ['own', 'diagonal', 'diagonal'], batch: 1 }),
  attentionCase('diagonals and groups', {
    segments: ['shared', 'own', 'diagonal', 'diagonal'],
    heads: 4,
    keyValueHeads: 2,
  }),
  attentionCase('a past in bfloat16', { segments: ['shared', 'own'], cacheType: 'bfloat16' }),
  attentionCase('a past in float16, diagonals and lanes', {
    segments: ['common', 'shared', 'own', 'diagonal'],
    ...{ lanes: symbol('lanes'), cacheType: 'float16' },
  }),
];

const shapingCases: readonly RuntimeCase[] = [
  describeCase('reshape', 'splits heads', shaping.reshape(x(batch, position, 6), [batch, position, 2, 3])),
  describeCase(
    'reshape',
    'merges symbols',
    shaping.reshape(x(batch, position, 2), [multiplyDimensions(batch, position), 2]),
  ),
  describeCase('reshape', 'to a scalar', shaping.reshape(x(1, 1), [])),
  describeCase('reshape', 'from a scalar', shaping.reshape(x(), [1, 1])),
  describeCase('reshape', 'int32', shaping.reshape(integers('x', batch, 4), [multiplyDimensions(batch, 4)])),
  describeCase('reshape', 'bool', shaping.reshape(flags(2, 3), [3, 2])),
  describeCase('transpose', 'matrix', shaping.transpose(x(3, 4), [1, 0])),
  describeCase('transpose', 'four axes', shaping.transpose(x(batch, position, 2, 3), [2, 0, 3, 1])),
  describeCase('transpose', 'int32', shaping.transpose(integers('x', 2, 3, 1), [2, 0, 1])),
  describeCase('transpose', 'bool', shaping.transpose(flags(batch, 3), [1, 0])),
  describeCase('broadcast', 'scalar', shaping.broadcast(x(), [2, 3])),
  describeCase(
    'broadcast',
    'scalar to symbols',
    elementwise.add(shaping.broadcast(y(), [batch, position]), x(batch, position)),
  ),
  describeCase('broadcast', 'inner axis', shaping.broadcast(x(batch, 1, 3), [batch, 4, 3])),
  describeCase(
    'broadcast',
    'leading symbols',
    elementwise.multiply(shaping.broadcast(y(3), [batch, position, 3]), x(batch, position, 1)),
  ),
  describeCase('broadcast', 'to the same shape', shaping.broadcast(x(batch, 2), [batch, 2])),
  describeCase('broadcast', 'int32', shaping.broadcast(integers('x', 1, 2), [3, 2])),
  describeCase('broadcast', 'bool', shaping.broadcast(flags(1, 2), [2, 3, 2])),
  describeCase('slice', 'middle', shaping.slice(x(batch, 6), 1, 2, 5)),
  describeCase('slice', 'to the end', shaping.slice(x(5, position), 0, 3)),
  describeCase(
    'slice',
    'symbolic bounds',
    shaping.slice(
      elementwise.add(x(batch, addDimensions(past, position)), y(position, past, 1, 1)),
      -1,
      past,
    ),
  ),
  describeCase('slice', 'first of a symbolic axis', shaping.slice(x(batch, position, 2), 1, 0, 1)),
  describeCase(
    'slice',
    'last of a symbolic axis',
    shaping.slice(x(batch, position, 2), 1, addDimensions(position, -1)),
  ),
  describeCase('slice', 'int32', shaping.slice(integers('x', 4, 2), 0, 1, 3)),
  describeCase('slice', 'bool', shaping.slice(flags(4, 2), 1, 1)),
  describeCase('pad', 'both ends', shaping.pad(x(batch, 3), 1, 1, 2)),
  describeCase(
    'pad',
    'symbolic amounts',
    elementwise.multiply(shaping.pad(x(batch, position), 1, past, 1), y(past, 1, 1)),
  ),
  describeCase('pad', 'one value', shaping.pad(x(1), -1, 0, 3)),
  describeCase('pad', 'int32', shaping.pad(integers('x', 2, 2), 0, 1, 0), { draws: { x: below(7) } }),
  describeCase('concatenate', 'rows', shaping.concatenate([x(2, 3), y(1, 3)], 0)),
  describeCase(
    'concatenate',
    'past and new',
    shaping.concatenate([x(batch, past, 2), y(batch, position, 2)], 1),
  ),
  describeCase('concatenate', 'a part twice', shaping.concatenate([rows, rows, y(batch, 1)], -1)),
  describeCase(
    'concatenate',
    'int32',
    shaping.concatenate([integers('x', batch, 2), integers('y', batch, 1)], 1),
  ),
  describeCase('concatenate', 'bool', shaping.concatenate([flags(2), input('y', [position], 'bool')], 0)),
];

const reductionCases: readonly RuntimeCase[] = [
  describeCase('sum', 'last axis', reductions.sum(x(batch, 5), [-1])),
  describeCase('sum', 'first and last', reductions.sum(x(batch, position, 3), [0, 2])),
  describeCase('sum', 'all axes', reductions.sum(x(2, 3), [0, 1])),
  describeCase('sum', 'no axes', reductions.sum(x(2, 3), [])),
  describeCase('sum', 'one axis given twice', reductions.sum(x(2, 3), [1, -1])),
  describeCase('sum', 'mean', reductions.mean(x(batch, 4, 2), [1, -1])),
  describeCase('sum', 'axis of length 1', reductions.sum(x(batch, 1), [1])),
  ...(['reduceMaximum', 'softmax', 'logSoftmax'] as const).flatMap((operation) => [
    describeCase(operation, 'vector', reductions[operation](x(5))),
    describeCase(operation, 'symbolic rows', reductions[operation](x(batch, position, 4))),
    describeCase(operation, 'symbolic axis', reductions[operation](x(batch, 2, past))),
    describeCase(operation, 'one value', reductions[operation](x(3, 1))),
    describeCase(operation, 'large values', reductions[operation](x(2, 6)), {
      draws: { x: (random) => 1000 + 3 * normal(random) },
    }),
  ]),
  describeCase(
    'softmax',
    'masked by minus infinity',
    reductions.softmax(elementwise.select(flags(2, 4), x(2, 4), -Infinity)),
    {
      draws: { flags: () => 1 },
      sources: [],
    },
  ),
  describeCase('rmsNorm', 'vector', reductions.rmsNorm(x(4), y(4), 1e-5)),
  describeCase('rmsNorm', 'rows', reductions.rmsNorm(x(batch, position, 6), y(6), 0.1)),
  describeCase('rmsNorm', 'large epsilon', reductions.rmsNorm(x(3, 5), y(5), 0.5)),
  describeCase('rmsNorm', 'width 1', reductions.rmsNorm(x(batch, 1), y(1), 0.1)),
];

const rotated = (heads: Dimension, width: number): Tensor =>
  rotate(
    x(batch, position, heads, width),
    input('cosine', [position, width / 2]),
    input('sine', [position, width / 2]),
  );

const rotationCases: readonly RuntimeCase[] = [
  describeCase('rotate', 'heads', rotated(3, 8), { sources: ['x'] }),
  describeCase('rotate', 'one head', rotated(1, 4), { sources: ['x'] }),
  describeCase('rotate', 'one pair', rotated(2, 2), { sources: ['x'] }),
  describeCase('rotate', 'three pairs', rotated(2, 6), { sources: ['x'] }),
  describeCase('rotate', 'symbolic heads', rotated(past, 4), { sources: ['x'] }),
  describeCase(
    'rotate',
    'heads side by side',
    rotate(
      x(batch, position, multiplyDimensions(past, 4)),
      elementwise.add(input('cosine', [position, 2]), shaping.slice(y(past, 1), 0, 0, 1)),
      input('sine', [position, 2]),
    ),
    { sources: ['x'] },
  ),
  describeCase(
    'rotate',
    'fixed sizes',
    rotate(x(2, 3, 2, 4), input('cosine', [3, 2]), input('sine', [3, 2])),
    { sources: ['x'] },
  ),
];

const at = { at: below(4) };
const indexingCases: readonly RuntimeCase[] = [
  describeCase('gatherRows', 'embedding', indexing.gatherRows(x(4, 3), integers('at', batch, position)), {
    draws: at,
  }),
  describeCase('gatherRows', 'one index', indexing.gatherRows(x(4, 3), integers('at')), { draws: at }),
  describeCase('gatherRows', 'table of numbers', indexing.gatherRows(x(4), integers('at', 2, 3)), {
    draws: at,
  }),
  describeCase('gatherRows', 'table of matrices', indexing.gatherRows(x(4, 2, 3), integers('at', position)), {
    draws: at,
  }),
  describeCase('gatherRows', 'int32 table', indexing.gatherRows(integers('x', 4), integers('at', batch)), {
    draws: { ...at, x: below(9) },
  }),
  describeCase('gatherRows', 'bool table', indexing.gatherRows(flags(4, 2), integers('at', 3)), {
    draws: at,
  }),
  ...[
    { name: 'rows', like: [4, 3], indices: [batch, position] },
    { name: 'one index', like: [4, 3], indices: [] },
    { name: 'table of numbers', like: [4], indices: [2, 3] },
    { name: 'table of matrices', like: [4, 2, 3], indices: [position] },
  ].map(({ name, like, indices }) =>
    describeCase(
      'scatterAddRows',
      name,
      indexing.scatterAddRows(
        weight('like', like),
        integers('at', ...indices),
        x(...indices, ...like.slice(1)),
      ),
      { draws: at, weights: memory('like', like) },
    ),
  ),
  describeCase(
    'scatterAddRows',
    'symbolic table',
    indexing.scatterAddRows(y(past, 2), integers('at', 5), x(5, 2)),
    {
      draws: { at: () => 0 },
    },
  ),
  describeCase('pick', 'vector', indexing.pick(x(4), integers('at')), { draws: at }),
  describeCase('pick', 'rows', indexing.pick(x(batch, position, 4), integers('at', batch, position)), {
    draws: at,
  }),
  describeCase('pick', 'int32', indexing.pick(integers('x', 3, 4), integers('at', 3)), {
    draws: { ...at, x: below(9) },
  }),
  describeCase('oneHot', 'scalar', indexing.oneHot(integers('at'), 4), { draws: at }),
  describeCase('oneHot', 'rows', indexing.oneHot(integers('at', batch, position), 5), { draws: at }),
  describeCase('oneHot', 'depth 1', indexing.oneHot(integers('at', batch), 1), { draws: { at: () => 0 } }),
  describeCase('argmax', 'vector', indexing.argmax(x(5))),
  describeCase('argmax', 'rows', indexing.argmax(x(batch, position, 5))),
  describeCase('argmax', 'symbolic axis', indexing.argmax(x(2, past))),
  describeCase('argmax', 'ties', indexing.argmax(x(batch, 9)), { draws: { x: coarse } }),
  describeCase('topValues', 'vector', indexing.topValues(x(5), 3)),
  describeCase('topValues', 'rows', indexing.topValues(x(batch, position, 5), 2)),
  describeCase('topValues', 'all of them', indexing.topValues(x(batch, 4), 4)),
  ...drawingCases(),
  describeCase('topIndices', 'vector', indexing.topIndices(x(5), 3)),
  describeCase('topIndices', 'rows', indexing.topIndices(x(batch, position, 5), 5)),
  describeCase('topIndices', 'ties', indexing.topIndices(x(batch, 12), 5), { draws: { x: coarse } }),
  describeCase(
    'topIndices',
    'beside its values',
    elementwise.add(indexing.topValues(rows, 2), elementwise.cast(indexing.topIndices(rows, 2), 'float32')),
  ),
];

export const runtimeCases: readonly RuntimeCase[] = [
  ...leafCases,
  ...unaryCases,
  ...castCases,
  ...halfCases,
  ...binaryCases,
  ...selectCases,
  ...contractionCases,
  ...expertCases,
  ...attentionCases,
  ...shapingCases,
  ...reductionCases,
  ...rotationCases,
  ...indexingCases,
];
