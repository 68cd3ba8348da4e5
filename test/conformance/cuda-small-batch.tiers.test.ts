/**
 * Kernels for few rows against the steps that they replace, on an emulated device: the same values in every type of
 * weights, for numbers of rows on both sides of the limits, and as few launches as the pattern promises. In halves, a
 * row has the same bits beside any number of others.
 */
import { expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { symbol } from '../../src/graph/dimension.js';
import { matmul } from '../../src/graph/operations/contraction.js';
import { add, multiply, silu } from '../../src/graph/operations/elementwise.js';
import { input, weight, type Tensor } from '../../src/graph/tensor.js';
import { rmsNorm } from '../../src/graph/operations/reductions.js';
import { reshape, slice, transpose } from '../../src/graph/operations/shaping.js';
import type { FloatType } from '../../src/runtime/cuda/driver/device.js';
import { maxNormedRows } from '../../src/runtime/cuda/programs/small-batch-plan.js';
import { type NamedTensors, type NamedValues, type Program, float32 } from '../../src/runtime/program.js';
import type { MemoryWeights } from '../../src/runtime/weights.js';
import { describeCuda } from '../support/emulated-suite.js';
import { casesOfTier } from '../support/tier.js';
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
  /** Matrices whose sums share memory with normed rows; default 1. */
  readonly matrices?: 2;
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
    ...{ launches: 1, norms: { float32: 1, half: 1 }, matrices: 2 as const },
  },
  {
    name: 'a gate that a product reads',
    outputs: { y: multiply(matmul(multiply(silu(matmul(normed, w('a'))), matmul(normed, w('b'))), weight('down', [wide, 16])), 1 / 16) }, // prettier-ignore
    ...{ launches: 2, norms: { float32: 1, half: 1 }, matrices: 2 as const },
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

/** Rows to compute at once: most of the kernels, and up to how many a norm is part of them. */
const limits: Readonly<Record<'float32' | 'half', { readonly most: number; readonly normed: number }>> = {
  float32: { most: 4, normed: maxNormedRows },
  half: { most: 64, normed: 16 },
};

const types: readonly FloatType[] = ['float32', 'bfloat16', 'float16'];
const typedCases = types.flatMap((type) =>
  (type === 'float16' ? cases.slice(3, 5) : cases).map((each) => ({ ...each, type })),
);
const quick: Readonly<Record<FloatType, readonly string[]>> = {
  float32: ['a gate behind a norm'],
  bfloat16: [
    'a bias and a reshape',
    'a gate that a product reads',
    'queries, keys and values of different sizes behind a norm',
    'elements from other places',
  ],
  float16: [],
};
const tierCases = casesOfTier(typedCases, ({ name, type }) => quick[type].includes(name));

for (const productType of types) {
  const ofType = tierCases.filter(({ type }) => type === productType);
  if (ofType.length === 0) continue;
  const programs = new Map<string, { readonly expected: Program; readonly program: Program }>();
  describeCuda(
    `kernels for few rows of ${productType}`,
    { productType },
    (bench) => {
      it.each(ofType)('$name', async ({ name, launches, norms, matrices = 1 }) => {
        const { expected, program } = programs.get(name)!;
        const random = createRandom(2, 'rows');
        const draw = (columns: number): Float32Array =>
          Float32Array.from({ length: 65 * columns }, () => random.next() - 0.5);
        const drawn = { x: draw(inner), residual: draw(wide) };
        const firstRows = (count: number): NamedValues =>
          Object.fromEntries(
            program.inputs.map(({ name }) => {
              const data = drawn[name as 'x'];
              const columns = data.length / 65;
              return [name, float32(data.subarray(0, count * columns), [count, columns])];
            }),
          );
        const kind = productType === 'float32' ? 'float32' : 'half';
        const { most, normed } = limits[kind];
        const alone = await program.run(firstRows(1));
        for (const count of [1, 2, 3, 4, ...(kind === 'half' ? [13, 33, 64] : []), most + 1]) {
          const inputs = firstRows(count);
          const wanted = await expected.run(inputs);
          const before = { ...bench.counts };
          const found = await program.run(inputs);
          expectClose(found, wanted, {
            relative: tolerances[productType],
            absolute: tolerances[productType],
          });
          const products = bench.counts.products - before.products;
          const total = bench.counts.kernels - before.kernels + products;
          if (count > most) expect(products).toBeGreaterThan(0);
          else {
            const more = norms?.[kind] ?? 0;
            const expected = launches + (count > normed / (kind === 'half' ? matrices : 1) ? more : 0);
            expect({ count, products, total }).toEqual({ count, products: 0, total: expected });
          }
          if (kind === 'float32' || count > most) continue;
          for (const [output, { shape, data }] of Object.entries(found))
            if (shape[0] === count) {
              const own = data.slice(0, data.length / count);
              expect({ count, output, own }).toEqual({ count, output, own: alone[output]!.data });
            }
        }
      });
    },
    async (runtime) => {
      for (const { name, outputs } of ofType) {
        const weights = [drawWeights(listWeights(outputs))];
        const expected = await runtime.compile(outputs, weights);
        programs.set(name, { expected, program: await runtime.compile(outputs, weights, { packed: true }) });
      }
    },
  );
}
