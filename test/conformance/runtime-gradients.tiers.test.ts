import { afterAll, describe, expect, it } from 'vitest';
import { type Random, createRandom } from '../../src/core/random.js';
import { symbol } from '../../src/graph/dimension.js';
import { gradient } from '../../src/graph/gradient.js';
import { contract, matmul } from '../../src/graph/operations/contraction.js';
import {
  add,
  cast,
  divide,
  maximum,
  multiply,
  negate,
  select,
  silu,
  stopGradient,
} from '../../src/graph/operations/elementwise.js';
import { gatherRows, pick, topValues } from '../../src/graph/operations/indexing.js';
import { constant, input, weight, type Tensor, sortTopologically } from '../../src/graph/tensor.js';
import {
  logSoftmax,
  mean,
  reduceMaximum,
  rmsNorm,
  softmax,
  sum,
} from '../../src/graph/operations/reductions.js';
import { rotate } from '../../src/graph/operations/attention.js';
import { reshape, slice, transpose } from '../../src/graph/operations/shaping.js';
import type { DenseValue, NamedDenseValues } from '../oracle/interpreter.js';
import { createInterpreter, interpret } from '../oracle/interpreter.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { NamedTensors, NamedValues } from '../../src/runtime/program.js';
import type { WeightStore } from '../../src/runtime/weights.js';
import { byTier, casesOfTier } from '../support/tier.js';
import { type Draw, type RuntimeCase, type Sizes, drawValues, runtimeCases } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const oracle = createInterpreter();
const onnx = createOnnxRuntime({ threads: 1 });
afterAll(() => onnx.dispose());

const byDifferences = { relative: 1e-6, absolute: 1e-7 };
const byRuntime = { relative: 1e-5, absolute: 2e-5 };

/** One number that depends on every value of the output in another way. */
function weigh(output: Tensor, name: string): Tensor {
  const weighted = multiply(output, input(name, output.shape));
  return sum(
    weighted,
    weighted.shape.map((_, axis) => axis),
  );
}

function findInput(graph: Tensor, name: string): Tensor {
  const found = sortTopologically([graph]).filter(
    (tensor) => tensor.operation === 'input' && tensor.attributes.name === name,
  );
  // Tensors are told apart by identity: two inputs of one name would share the gradient.
  expect(found.length).toBe(1);
  return found[0]!;
}

function gradientsOf(loss: Tensor, names: readonly string[]): NamedTensors {
  const gradients = gradient(
    loss,
    names.map((name) => findInput(loss, name)),
  );
  return Object.fromEntries(names.map((name, index) => [name, gradients[index]!]));
}

function widen(values: NamedValues): NamedDenseValues {
  return Object.fromEntries(
    Object.entries(values).map(([name, { shape, data }]) => [name, { shape, data: Float64Array.from(data) }]),
  );
}

function widenWeights(stores: readonly WeightStore[]): NamedDenseValues {
  const weights: Record<string, DenseValue> = {};
  for (const store of stores) {
    if (store.kind !== 'memory') continue;
    for (const [name, { shape, data }] of store.tensors)
      weights[name] = { shape, data: Float64Array.from(data) };
  }
  return weights;
}

interface Experiment {
  readonly loss: Tensor;
  readonly sources: readonly string[];
  readonly sizes: Sizes;
  readonly draws: Readonly<Record<string, Draw>>;
  readonly weights: readonly WeightStore[];
  readonly name: string;
}

const maxDirections = 8;

/** Unit vectors: every axis of a small input, random directions of a large one. */
function chooseDirections(length: number, random: Random): readonly Float64Array[] {
  if (length <= maxDirections)
    return Array.from({ length }, (_, axis) => new Float64Array(length).fill(1, axis, axis + 1));
  return Array.from({ length: maxDirections }, () => {
    const direction = Float64Array.from({ length }, () => random.next() - 0.5);
    const norm = Math.hypot(...direction);
    return direction.map((value) => value / norm);
  });
}

/** The slope of the loss along directions of each source, against (f(x + hv) - f(x - hv)) / 2h in double precision. */
function expectGradientsByDifferences({ loss, sources, sizes, draws, weights, name }: Experiment): void {
  const gradients = gradientsOf(loss, sources);
  const values = widen(drawValues({ loss, ...gradients }, sizes, draws, name));
  const known = widenWeights(weights);
  // The loss is asked for too: a gradient may need lengths that only the loss's inputs carry.
  const computed = interpret({ ...gradients, loss }, values, known);
  const random = createRandom(name, 'directions');
  const [found, expected]: Record<string, DenseValue>[] = [{}, {}];
  for (const source of sources) {
    const { shape, data } = values[source]!;
    const directions = chooseDirections(data.length, random);
    const lossAt = (direction: Float64Array, step: number): number => {
      const moved = Float64Array.from(data, (value, at) => value + step * direction[at]!);
      return interpret({ loss }, { ...values, [source]: { shape, data: moved } }, known).loss!.data[0]!;
    };
    const step = 1e-5;
    const slopes = directions.map((each) => (lossAt(each, step) - lossAt(each, -step)) / (2 * step));
    const products = directions.map((each) =>
      each.reduce((total, value, at) => total + value * computed[source]!.data[at]!, 0),
    );
    expected![source] = { shape: [slopes.length], data: Float64Array.from(slopes) };
    found![source] = { shape: [products.length], data: Float64Array.from(products) };
    expect(computed[source]!.shape).toEqual(shape);
  }
  expectClose(found!, expected!, byDifferences);
}

async function expectGradientsByRuntime(experiment: Experiment, sizes: readonly Sizes[]): Promise<void> {
  const { loss, sources, draws, weights, name } = experiment;
  const outputs = { loss, ...gradientsOf(loss, sources) };
  const program = await onnx.compile(outputs, weights);
  const expected = await oracle.compile(outputs, weights);
  for (const size of sizes) {
    const inputs = drawValues(outputs, size, draws, name);
    expectClose(await program.run(inputs), await expected.run(inputs), byRuntime);
  }
  await program.dispose();
}

const differentiable = runtimeCases.filter(({ sources }) => sources.length > 0);

const experimentOf = (entry: RuntimeCase): Experiment => ({
  ...entry,
  loss: weigh(entry.output, 'weighting'),
  sizes: entry.sizes[0]!,
});

/** Differences along every input of attention take minutes; its gradients in ONNX Runtime are quick. */
const isQuick = ({ name }: { readonly name: string }): boolean => !name.startsWith('attention');

describe('gradients of one operation', () => {
  it.each(casesOfTier(differentiable, isQuick))('$name: by differences', (entry) => {
    const experiment = experimentOf(entry);
    for (const sizes of entry.sizes) expectGradientsByDifferences({ ...experiment, sizes });
  });

  it.each(byTier({ quick: differentiable, full: [] }))('$name: in ONNX Runtime', (entry) =>
    expectGradientsByRuntime(experimentOf(entry), entry.sizes),
  );

  it.each(casesOfTier(differentiable, isQuick))('$name: second order', async (entry) => {
    const first = experimentOf(entry);
    const weighted = Object.entries(gradientsOf(first.loss, entry.sources)).map(([name, own]) =>
      reshape(weigh(own, `direction ${name}`), []),
    );
    const loss = weighted.reduce((left, right) => add(left, right));
    // A linear operation's gradient no longer depends on its input.
    const reached = new Set(
      sortTopologically([loss]).flatMap((tensor) =>
        tensor.operation === 'input' ? [tensor.attributes.name] : [],
      ),
    );
    const second = { ...first, loss, sources: entry.sources.filter((name) => reached.has(name)) };
    if (second.sources.length === 0) return;
    expectGradientsByDifferences(second);
    await expectGradientsByRuntime(second, entry.sizes.slice(0, 1));
  });
});

const batch = symbol('batch');
const position = symbol('position');
const below =
  (limit: number): Draw =>
  (random) =>
    random.nextInteger(limit);

// Matrices of ordinary size: sums that cancel would only measure float32's rounding.
const small: Readonly<Record<string, Draw>> = Object.fromEntries(
  ['queries', 'keys', 'values', 'output', 'gate', 'up', 'down', 'table'].map((name) => [
    name,
    (random: Random) => 0.6 * (random.next() - 0.5),
  ]),
);

/** A decoder layer in small: norm, grouped attention with rotation and mask, gated MLP, both with residuals. */
function attentionBlock(): Tensor {
  const hidden = input('hidden', [batch, position, 8]);
  const normed = rmsNorm(hidden, input('scale', [8]), 1e-5);
  const angles = [input('cosine', [position, 2]), input('sine', [position, 2])] as const;
  const project = (name: string, heads: number): Tensor =>
    reshape(matmul(normed, input(name, [8, heads * 4])), [batch, position, heads, 4]);
  const queries = reshape(rotate(project('queries', 4), ...angles), [batch, position, 2, 2, 4]);
  const keys = rotate(project('keys', 2), ...angles);
  const scores = contract(queries, keys, 'b t k g d, b u k d -> b k g t u', 0.5);
  const masked = select(input('visible', [position, position], 'bool'), scores, -1e9);
  const mixed = contract(softmax(masked), project('values', 2), 'b k g t u, b u k d -> b t k g d');
  const attended = add(hidden, matmul(reshape(mixed, [batch, position, 16]), input('output', [16, 8])));
  const gate = silu(matmul(attended, input('gate', [8, 6])));
  return add(attended, matmul(multiply(gate, matmul(attended, input('up', [8, 6]))), input('down', [6, 8])));
}

/** Surprisal of the given tokens under tied embeddings. */
function crossEntropy(hidden: Tensor, table: Tensor): Tensor {
  const logits = contract(hidden, table, 'b t i, v i -> b t v');
  const surprisal = negate(pick(logSoftmax(logits), tokens));
  return reshape(sum(surprisal, [0, 1]), []);
}

/** Sum over the rows of KL(target, draft). */
function divergence(target: Tensor, draft: Tensor): Tensor {
  const difference = add(logSoftmax(target), negate(logSoftmax(draft)));
  return reshape(sum(multiply(softmax(target), difference), [0, 1]), [1]);
}

const tokens = input('tokens', [batch, position], 'int32');
const table = input('table', [7, 8]);

const composites: readonly Experiment[] = [
  {
    name: 'attention block',
    loss: weigh(attentionBlock(), 'weighting'),
    sources: ['hidden', 'scale', 'queries', 'keys', 'values', 'output', 'gate', 'up', 'down'],
    draws: small,
  },
  {
    name: 'attention block and cross entropy',
    loss: crossEntropy(attentionBlock(), table),
    sources: ['hidden', 'table', 'queries', 'down'],
    draws: { ...small, tokens: below(7) },
  },
  {
    name: 'embedding and cross entropy',
    loss: crossEntropy(gatherRows(table, tokens), table),
    sources: ['table'],
    draws: { tokens: below(7) },
  },
  {
    name: 'Kullback-Leibler divergence',
    loss: divergence(input('target', [position, 5]), input('draft', [position, 5])),
    sources: ['target', 'draft'],
    draws: {},
  },
  {
    name: 'total variation',
    loss: sum(
      maximum(add(softmax(input('target', [3, 5])), negate(softmax(input('draft', [3, 5])))), 0),
      [0, 1],
    ),
    sources: ['target', 'draft'],
    draws: {},
  },
].map((entry) => ({ ...entry, sizes: { batch: 2, position: 3 }, weights: [] }));

describe.runIf(byTier({ quick: true, full: false }))('gradients of composites', () => {
  it.each(composites)('$name: by differences', expectGradientsByDifferences);
  it.each(composites)('$name: in ONNX Runtime', (experiment) =>
    expectGradientsByRuntime(experiment, [
      experiment.sizes,
      { batch: 1, position: 4 },
      { batch: 3, position: 1 },
    ]),
  );
});

describe.runIf(byTier({ quick: true, full: false }))('gradients at their edges', () => {
  const run = (outputs: NamedTensors, inputs: Readonly<Record<string, readonly number[]>>) =>
    interpret(
      outputs,
      Object.fromEntries(
        Object.entries(inputs).map(([name, data]) => [
          name,
          { shape: [data.length], data: Float64Array.from(data) },
        ]),
      ),
    );

  it('ends at stopGradient', () => {
    const x = input('x', [2]);
    const [g] = gradient(sum(multiply(x, stopGradient(x)), [0]), [x]);
    expect([...run({ g: g! }, { x: [3, 5] }).g!.data]).toEqual([3, 5]);
  });

  it.each(['bfloat16', 'float16'] as const)('goes through a rounding to %s as if there were none', (type) => {
    const x = input('x', [2]);
    const stored = cast(x, type);
    const loss = sum(multiply(cast(stored, 'float32'), input('w', [2])), [0]);
    const [byInput, byStored] = gradient(loss, [x, stored]);
    expect([byInput!.dtype, byStored!.dtype]).toEqual(['float32', 'float32']);
    const found = run({ byInput: byInput!, byStored: byStored! }, { x: [1, 2], w: [3, 0.1] });
    expect([...found.byInput!.data]).toEqual([3, 0.1]);
    expect([...found.byStored!.data]).toEqual([3, 0.1]);
  });

  it('reaches weights that are stored in half, by moves and by lookups', () => {
    const table = weight('table', [3, 2], 'bfloat16');
    const rows = gatherRows(transpose(table, [1, 0]), constant([1, 1], [2], 'int32'));
    const loss = sum(multiply(cast(slice(rows, 1, 0, 2), 'float32'), constant([1, 2, 3, 4], [2, 2])), [0, 1]);
    const [g] = gradient(loss, [table]);
    expect(g!.dtype).toBe('float32');
    const values = { shape: [3, 2], data: new Float64Array(6) };
    expect([...interpret({ g: g! }, {}, { table: values }).g!.data]).toEqual([0, 4, 0, 6, 0, 0]);
  });

  it('ends at a cast to whole numbers', () => {
    const x = input('x', [2]);
    const [g] = gradient(sum(cast(cast(x, 'int32'), 'float32'), [0]), [x]);
    expect([...run({ g: g! }, { x: [1.5, 2] }).g!.data]).toEqual([0, 0]);
  });

  it('is zero for a source that the loss does not read', () => {
    const x = input('x', [2]);
    const other = input('other', [1, 3]);
    const [g] = gradient(sum(x, [0]), [other]);
    expect(run({ g: g! }, {}).g).toEqual({ shape: [1, 3], data: new Float64Array(3) });
  });

  it('is one for the loss itself and reaches inner tensors', () => {
    const x = input('x', [2]);
    const squares = multiply(x, x);
    const loss = sum(squares, [0]);
    const [byLoss, bySquares, byInput] = gradient(loss, [loss, squares, x]);
    const found = run({ byLoss: byLoss!, bySquares: bySquares!, byInput: byInput! }, { x: [3, 5] });
    expect(found.byLoss!.data[0]).toBe(1);
    expect([...found.bySquares!.data]).toEqual([1, 1]);
    expect([...found.byInput!.data]).toEqual([6, 10]);
  });

  it('is shared by values that tie for the largest', () => {
    const x = input('x', [4]);
    const [g] = gradient(reduceMaximum(x), [x]);
    expect([...run({ g: g! }, { x: [7, 1, 7, 2] }).g!.data]).toEqual([0.5, 0, 0.5, 0]);
  });

  it('goes to one side of a tie between two, whole', () => {
    const [x, y] = [input('x', [1]), input('y', [1])];
    const [left, right] = gradient(maximum(x, y), [x, y]);
    const found = run({ left: left!, right: right! }, { x: [2], y: [2] });
    expect(found.left!.data[0]! + found.right!.data[0]!).toBe(1);
  });

  it('goes back to where the largest values came from', () => {
    const x = input('x', [4]);
    const top = topValues(x, 2);
    const [g] = gradient(sum(multiply(top, input('w', [2])), [0]), [x]);
    expect([...run({ g: g! }, { x: [1, 9, 2, 5], w: [10, 20] }).g!.data]).toEqual([0, 10, 0, 20]);
  });

  it('adds up over all uses of a tensor', () => {
    const x = input('x', [3]);
    const [g] = gradient(sum(divide(add(x, x), 4), [0]), [x]);
    expect([...run({ g: g! }, { x: [1, 2, 3] }).g!.data]).toEqual([0.5, 0.5, 0.5]);
    const [m] = gradient(mean(x, [0]), [x]);
    expect(run({ m: m! }, { x: [1, 2, 3] }).m!.data[0]).toBeCloseTo(1 / 3, 12);
  });
});
