/**
 * Kernels for few rows against the steps that they replace, on an emulated device: the same values in every type of
 * weights, for numbers of rows on both sides of the limit, and as few launches as the pattern promises.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { CausalModel } from '../../src/model/causal-model.js';
import { parseConfiguration } from '../../src/model/configuration.js';
import { decoderRecipes } from '../../src/model/weights.js';
import { symbol } from '../../src/graph/dimension.js';
import { matmul } from '../../src/graph/operations/contraction.js';
import { add, multiply, silu } from '../../src/graph/operations/elementwise.js';
import { input, weight } from '../../src/graph/operations/leaves.js';
import { rmsNorm } from '../../src/graph/operations/reductions.js';
import { reshape, slice, transpose } from '../../src/graph/operations/shaping.js';
import type { Tensor } from '../../src/graph/tensor.js';
import type { FloatType } from '../../src/runtime/cuda/device.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { mostFewRows } from '../../src/runtime/cuda/few-rows-plan.js';
import type { NamedTensors, Runtime } from '../../src/runtime/program.js';
import { float32 } from '../../src/runtime/program.js';
import type { MemoryWeights } from '../../src/runtime/weights.js';
import type { LaunchCounts } from '../support/counting-device.js';
import { countLaunches } from '../support/counting-device.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import { llamaConfig, tiny } from '../support/tiny-checkpoints.js';
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
    launches: 1,
  },
  {
    name: 'queries, keys and values of different sizes behind a norm',
    outputs: {
      q: matmul(normed, w('a')),
      k: matmul(normed, w('b', 16)),
      v: add(matmul(normed, w('c', 16)), 1),
    },
    launches: 1,
  },
  {
    name: 'a norm that others read too',
    outputs: { y: matmul(normed, w('a')), normed },
    launches: 2,
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
    launches: 3,
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

    it.each(productType === 'float16' ? cases.slice(3, 5) : cases)('$name', async ({ outputs, launches }) => {
      const weights = [drawWeights(listWeights(outputs))];
      const expected = await runtime!.compile(outputs, weights);
      const program = await runtime!.compile(outputs, weights, { packed: true });
      const random = createRandom(2, 'rows');
      const draw = (count: number, columns: number) =>
        float32(
          Float32Array.from({ length: count * columns }, () => random.next() - 0.5),
          [count, columns],
        );
      for (const count of [1, 3, mostFewRows, mostFewRows + 1]) {
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
        else expect({ products, total }).toEqual({ products: 0, total: launches });
      }
      await expected.dispose();
      await program.dispose();
    });
  },
);

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
    // Queries, keys and values; rotated keys; attention; its output; gate; down.
    { rowCount: 1, kernels: 6, products: 0 },
    { rowCount: 4, kernels: 6, products: 0 },
    // Two norms, rotated keys, attention, two residuals, the gate.
    { rowCount: 5, kernels: 7, products: 7 },
  ])('launches $kernels kernels and $products products a layer for $rowCount rows', async (expected) => {
    const [two, three] = [await countPass(2, expected.rowCount), await countPass(3, expected.rowCount)];
    expect(three.kernels - two.kernels).toBe(expected.kernels);
    expect(three.products - two.products).toBe(expected.products);
  });
});
