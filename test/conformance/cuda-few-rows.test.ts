/**
 * Kernels for few rows against the steps that they replace, on an emulated device: the same values in every type of
 * weights, for numbers of rows on both sides of the limit, and as few launches as the pattern promises.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { CausalModel } from '../../src/model/causal-model.js';
import { parseConfiguration } from '../../src/model/configuration.js';
import { decoderRecipes } from '../../src/model/weights.js';
import type { Dimension } from '../../src/graph/dimension.js';
import { addDimensions, multiplyDimensions, symbol } from '../../src/graph/dimension.js';
import { attention } from '../../src/graph/operations/attention.js';
import { matmul } from '../../src/graph/operations/contraction.js';
import { add, multiply, silu } from '../../src/graph/operations/elementwise.js';
import { input, weight } from '../../src/graph/operations/leaves.js';
import { rmsNorm } from '../../src/graph/operations/reductions.js';
import { rotate } from '../../src/graph/operations/rotation.js';
import { reshape, slice, transpose } from '../../src/graph/operations/shaping.js';
import type { Tensor } from '../../src/graph/tensor.js';
import type { FloatType } from '../../src/runtime/cuda/device.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { mostNormedRows } from '../../src/runtime/cuda/few-rows-plan.js';
import { mostFewRows } from '../../src/runtime/cuda/step.js';
import { createInterpreter } from '../../src/runtime/interpreter/interpreter.js';
import type { NamedTensors, Runtime } from '../../src/runtime/program.js';
import { float32 } from '../../src/runtime/program.js';
import type { MemoryWeights } from '../../src/runtime/weights.js';
import type { LaunchCounts } from '../support/counting-device.js';
import { countLaunches } from '../support/counting-device.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import { llamaConfig, tiny } from '../support/tiny-checkpoints.js';
import { drawValues } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const rows = symbol('row');
/** Divided by no number of lines that threads read together, and more columns than one strip, with a rest. */
const [inner, wide] = [1048, 104];
const x = input('x', [rows, inner]);
const residual = input('residual', [rows, wide]);
const w = (name: string, columns = wide): Tensor => weight(name, [inner, columns]);
const scaled = multiply(x, 1.5);
const normed = rmsNorm(x, weight('scale', [inner]), 1e-5);

interface Case {
  readonly name: string;
  readonly outputs: NamedTensors;
  /** Launches of a run over few rows, products and kernels alike, less what makes rows of the type of products. */
  readonly launches: number;
  /** How many more where rows are normed once for all: norms, and with products of a half type their rounding. */
  readonly norms?: { readonly float32: number; readonly half: number };
}

const sum = add(residual, matmul(scaled, w('a')));
const cases: readonly Case[] = [
  { name: 'a product', outputs: { y: matmul(scaled, w('a')) }, launches: 2 },
  { name: 'a residual', outputs: { y: add(residual, matmul(scaled, w('a'))) }, launches: 2 },
  {
    name: 'a bias and a reshape',
    outputs: { y: reshape(add(matmul(scaled, w('a')), weight('bias', [wide])), [rows, wide / 8, 8]) },
    launches: 2,
  },
  {
    name: 'a gate behind a norm',
    outputs: { y: multiply(silu(matmul(normed, w('a'))), matmul(normed, w('b'))) },
    ...{ launches: 1, norms: { float32: 1, half: 1 } },
  },
  {
    name: 'a gate that a product reads',
    outputs: { y: multiply(matmul(multiply(silu(matmul(normed, w('a'))), matmul(normed, w('b'))), weight('down', [wide, 16])), 1 / 16) }, // prettier-ignore
    ...{ launches: 2, norms: { float32: 1, half: 1 } },
  },
  {
    name: 'queries, keys and values of different sizes behind a norm',
    outputs: {
      q: matmul(normed, w('a')),
      k: matmul(normed, w('b', 16)),
      v: add(matmul(normed, w('c', 16)), 1),
    },
    ...{ launches: 1, norms: { float32: 1, half: 1 } },
  },
  {
    name: 'a norm that others read too',
    outputs: { y: matmul(normed, w('a')), normed },
    ...{ launches: 2, norms: { float32: 0, half: 1 } },
  },
  {
    name: 'a product that others read too',
    outputs: { product: matmul(scaled, w('a')), y: add(residual, matmul(scaled, w('a'))) },
    launches: 3,
  },
  {
    name: 'elements from other places',
    outputs: {
      y: add(transpose(matmul(scaled, w('a')), [1, 0]), 1),
      z: slice(matmul(scaled, w('b')), 1, 3, 50),
    },
    launches: 4,
  },
  {
    name: 'products of different rows that meet',
    outputs: { y: add(matmul(scaled, w('a')), matmul(normed, w('b'))) },
    ...{ launches: 3, norms: { float32: 1, half: 1 } },
  },
  {
    name: 'what follows from another of the same rows',
    outputs: { y: add(matmul(scaled, w('b')), multiply(sum, sum)), sum },
    launches: 3,
  },
];

function listWeights(outputs: NamedTensors): ReadonlyMap<string, readonly number[]> {
  const shapes = new Map<string, readonly number[]>();
  const visit = (tensor: Tensor): void => {
    if (tensor.operation === 'weight') shapes.set(tensor.attributes.name, tensor.shape as readonly number[]);
    tensor.inputs.forEach(visit);
  };
  Object.values(outputs).forEach(visit);
  return shapes;
}

function drawWeights(shapes: ReadonlyMap<string, readonly number[]>): MemoryWeights {
  const random = createRandom(1, 'few rows');
  const draw = (shape: readonly number[]): Float32Array =>
    Float32Array.from(
      { length: shape.reduce((product, size) => product * size, 1) },
      () => random.next() - 0.5,
    );
  return {
    kind: 'memory',
    tensors: new Map([...shapes].map(([name, shape]) => [name, { shape, data: draw(shape) }])),
  };
}

/** Sums in another order round a few normed values to the other neighbour. */
const tolerances: Readonly<Record<FloatType, number>> = { float32: 1e-4, bfloat16: 5e-3, float16: 1e-3 };

const hasCompiler = findCompiler() !== undefined;

describe.skipIf(!hasCompiler).each(['float32', 'bfloat16', 'float16'] as FloatType[])(
  'kernels for few rows of %s',
  (productType) => {
    let [runtime, counts]: [Runtime?, LaunchCounts?] = [];
    beforeAll(() => {
      const counting = countLaunches(createEmulatedDevice());
      counts = counting.counts;
      runtime = createCudaRuntime(counting.device, { productType });
    });
    afterAll(() => runtime!.dispose());

    it.each(productType === 'float16' ? cases.slice(3, 5) : cases)(
      '$name',
      async ({ outputs, launches, norms }) => {
        const weights = [drawWeights(listWeights(outputs))];
        const expected = await runtime!.compile(outputs, weights);
        const program = await runtime!.compile(outputs, weights, { packed: true });
        const random = createRandom(2, 'rows');
        const draw = (count: number, columns: number) =>
          float32(
            Float32Array.from({ length: count * columns }, () => random.next() - 0.5),
            [count, columns],
          );
        for (const count of [1, 2, 3, mostFewRows, mostFewRows + 1]) {
          const given = { x: draw(count, inner), residual: draw(count, wide) };
          const inputs = Object.fromEntries(program.inputs.map(({ name }) => [name, given[name as 'x']]));
          const wanted = await expected.run(inputs);
          const before = { ...counts! };
          expectClose(await program.run(inputs), wanted, {
            relative: tolerances[productType],
            absolute: tolerances[productType],
          });
          const products = counts!.products - before.products;
          const total = counts!.kernels - before.kernels + products;
          if (count > mostFewRows) expect(products).toBeGreaterThan(0);
          else {
            const more = norms?.[productType === 'float32' ? 'float32' : 'half'] ?? 0;
            const expected = launches + (count > mostNormedRows ? more : 0);
            expect({ products, total }).toEqual({ products: 0, total: expected });
          }
        }
        await expected.dispose();
        await program.dispose();
      },
    );
  },
);

describe.skipIf(!hasCompiler)('attention of few rows', () => {
  const [lanes, past] = [symbol('lanes'), symbol('past')];
  const [heads, keyValueHeads, size] = [4, 2, 8];
  const angles = (name: string): Tensor => input(name, [multiplyDimensions(rows, lanes), size / 2]);
  const turned = (name: string, count: number): Tensor => {
    const flat = input(name, [1, multiplyDimensions(rows, lanes), count, size]);
    return rotate(flat, angles('cosine'), angles('sine'));
  };
  const arrange = (tensor: Tensor, count: number): Tensor =>
    reshape(tensor, [1, rows, multiplyDimensions(lanes, count), size]);
  const keys = turned('keys', keyValueHeads);
  const shared = (name: string): Tensor =>
    input(name, [past, multiplyDimensions(lanes, keyValueHeads), size]);
  const own = arrange(
    input('values', [1, multiplyDimensions(rows, lanes), keyValueHeads, size]),
    keyValueHeads,
  );
  const mixed = attention(
    arrange(turned('queries', heads), heads),
    [
      { kind: 'shared', keys: shared('pastKeys'), values: shared('pastValues') },
      { kind: 'own', keys: arrange(keys, keyValueHeads), values: own },
    ],
    input('mask', [lanes, 1, rows, addDimensions(past, rows)]),
    { heads, keyValueHeads, scale: 0.4 },
  );
  const outputs = { mixed, keys };

  let [runtime, counts]: [Runtime?, LaunchCounts?] = [];
  beforeAll(() => {
    const counting = countLaunches(createEmulatedDevice());
    counts = counting.counts;
    runtime = createCudaRuntime(counting.device);
  });
  afterAll(() => runtime!.dispose());

  // One part, two of which the last has only new rows, parts of several chunks, and more rows than the kernel takes.
  it('is the same in any number of parts, and makes keys on the way', async () => {
    const expected = await createInterpreter().compile(outputs);
    const program = await runtime!.compile(outputs, [], { packed: true });
    for (const [row, lane, length, launches] of [
      [1, 1, 3, 1],
      [3, 2, 64, 1],
      [1, 2, 300, 1],
      [2, 1, 1100, 1],
      [5, 1, 70, 2],
      [11, 2, 300, 2],
    ] as const) {
      const draw = { row, lanes: lane, past: length };
      const inputs = drawValues(outputs, draw, {}, `attention ${length}`);
      const before = counts!.kernels;
      const found = await program.run(inputs);
      expect(counts!.kernels - before).toBe(launches);
      expectClose(found, await expected.run(inputs), { relative: 1e-4, absolute: 1e-5 });
    }
    await program.dispose();
  });
});

describe.skipIf(!hasCompiler)('attention of few rows in every kind of segment', () => {
  const [batch, stem, past] = [symbol('batch'), symbol('stem'), symbol('past')];
  const size = 20; // five times four values: a single thread for a group
  const both = (kind: 'common' | 'shared' | 'own', shape: readonly Dimension[]) => ({
    kind,
    keys: input(`${kind}Keys`, shape),
    values: input(`${kind}Values`, shape),
  });

  it.each([
    {
      title: 'of a batch',
      lanes: undefined,
      segments: [both('shared', [past, 3, size]), both('own', [batch, rows, 3, size])],
    },
    {
      title: 'of lanes with a common beginning',
      lanes: symbol('lanes'),
      segments: [
        both('common', [stem, 3, size]),
        both('shared', [past, multiplyDimensions(symbol('lanes'), 3), size]),
        both('own', [batch, rows, multiplyDimensions(symbol('lanes'), 3), size]),
      ],
    },
  ])('$title', async ({ lanes, segments }) => {
    const seen = segments.map(({ keys }) => keys.shape.at(-3)!).reduce(addDimensions);
    const mask = input('mask', lanes === undefined ? [rows, seen] : [lanes, 1, rows, seen]);
    const queries = input('queries', [batch, rows, multiplyDimensions(lanes ?? 1, 6), size]);
    // Lengths that stand in sums and products only would not be known.
    const known = input('known', [rows, lanes ?? 1]);
    const mixed = attention(queries, segments, mask, { heads: 6, keyValueHeads: 3, scale: 0.4 });
    const outputs = { mixed, known: add(known, 1) };
    const runtime = createCudaRuntime(createEmulatedDevice());
    const expected = await createInterpreter().compile(outputs);
    const program = await runtime.compile(outputs, [], { packed: true });
    for (const sizes of [
      { row: 1, lanes: 1, batch: 1, stem: 1, past: 2 },
      { row: 3, lanes: 2, batch: 2, stem: 40, past: 90 },
    ]) {
      const inputs = drawValues(outputs, sizes, {}, 'segments');
      expectClose(await program.run(inputs), await expected.run(inputs), { relative: 1e-4, absolute: 1e-5 });
    }
    await runtime.dispose();
  });
});

describe.skipIf(!hasCompiler)('a decoder', () => {
  /** Launches of a pass over so many rows of a model with so many layers. */
  async function countPass(layerCount: number, rowCount: number): Promise<LaunchCounts> {
    const configuration = parseConfiguration(llamaConfig({ ...tiny, layerCount }), 'a tiny shape');
    const { device, counts } = countLaunches(createEmulatedDevice());
    const runtime = createCudaRuntime(device, { productType: 'bfloat16' });
    const recipes = decoderRecipes(configuration, '');
    const weights = drawWeights(new Map(recipes.map(({ name, shape }) => [name, shape])));
    const model = new CausalModel({ name: 'tiny', configuration, scope: '', weights, runtime });
    await model.prepare();
    const before = { ...counts };
    const tokens = new Int32Array(rowCount).fill(7);
    await model.forward({ tokens, cache: model.createCache(), want: ['argmax'] });
    await runtime.dispose();
    return { kernels: counts.kernels - before.kernels, products: counts.products - before.products };
  }

  it.each([
    // Queries, keys and values; attention; its output; gate; down.
    { rowCount: 1, kernels: 5, products: 0 },
    // The two norms besides.
    { rowCount: 4, kernels: 7, products: 0 },
    // Two norms, rotated keys, attention, the gate; products add residuals themselves.
    { rowCount: 5, kernels: 5, products: 7 },
  ])('launches $kernels kernels and $products products a layer for $rowCount rows', async (expected) => {
    const [two, three] = [await countPass(2, expected.rowCount), await countPass(3, expected.rowCount)];
    expect(three.kernels - two.kernels).toBe(expected.kernels);
    expect(three.products - two.products).toBe(expected.products);
  });
});
