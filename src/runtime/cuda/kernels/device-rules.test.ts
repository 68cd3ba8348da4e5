/**
 * Rules of a GPU that an emulated device does not check: 48 KiB of shared memory, registers for all threads of a block,
 * and nothing but weights read before a kernel waits for the one that runs beside it.
 */
import { expect, it } from 'vitest';
import { symbol } from '../../../graph/dimension.js';
import { planContraction } from '../../../graph/contraction-plan.js';
import { matmul } from '../../../graph/operations/contraction.js';
import { multiply, silu } from '../../../graph/operations/elementwise.js';
import { input, weight } from '../../../graph/tensor.js';
import { logSoftmax, rmsNorm, softmax, sum } from '../../../graph/operations/reductions.js';
import { argmax, topIndices } from '../../../graph/operations/indexing.js';
import { simplify } from '../../../graph/simplify.js';
import { scheduleGraph } from '../programs/schedule.js';
import { maxRowThreads } from './kernel-plan.js';
import { type Place, plansOf } from '../programs/step.js';

const bytesOf: Readonly<Record<string, number>> = { float: 4, int: 4, float4: 16, uint4: 16 };

function countSharedBytes(text: string): number {
  const declared = [...text.matchAll(/__shared__ (\w+) ([^;]+);/g)];
  return declared.reduce((total, [, type, names]) => {
    const counts = names!.split(',').map((name) => {
      const sizes = [...name.matchAll(/\[(\d+)\]/g)].map(([, size]) => Number(size));
      return sizes.reduce((product, size) => product * size, 1);
    });
    return total + counts.reduce((sum, count) => sum + count, 0) * bytesOf[type!]!;
  }, 0);
}

/** A norm, a gate, and a product behind it, with everything that runs of any number of rows. */
function planAll(inner: number, productType: 'bfloat16' | 'float32') {
  const x = input('x', [symbol('row'), inner]);
  const normed = rmsNorm(x, weight('scale', [inner]), 1e-5);
  const product = (name: string) => matmul(normed, weight(name, [inner, 64]));
  const outputs = { gate: multiply(silu(product('a')), product('b')), queries: product('c') };
  const graph = simplify(outputs, [planContraction]);
  const tensorCores = productType !== 'float32';
  return scheduleGraph(graph, { productType, smallBatches: true, tensorCores }).steps.flatMap(plansOf);
}

it.each([320, 896, 1024, 1120, 1536, 2048, 2304, 2560, 4096, 5120])(
  'a norm of %i places and a gate behind it fit into shared memory for any number of rows',
  (inner) => {
    for (const productType of ['bfloat16', 'float32'] as const) {
      const used = planAll(inner, productType).map(({ plan, purpose }) => ({
        purpose,
        bytes: countSharedBytes(plan.write('kernel')),
      }));
      expect(used.some(({ bytes }) => bytes > 2 * inner)).toBe(true);
      expect(used.filter(({ bytes }) => bytes > 48 * 1024)).toEqual([]);
    }
  },
);

it('kernels of large blocks tell the compiler, which otherwise takes too many registers', () => {
  const x = input('x', [symbol('row'), 32_000]);
  const outputs = {
    powers: softmax(x),
    logarithms: logSoftmax(x),
    best: argmax(x),
    top: topIndices(x, 8),
    total: sum(x, [-1]),
  };
  const steps = scheduleGraph(outputs, {
    productType: 'bfloat16',
    smallBatches: false,
    tensorCores: true,
  }).steps;
  const plans = [...steps.flatMap(plansOf), ...planAll(2048, 'float32'), ...planAll(2048, 'bfloat16')];
  const blocks = plans.map(({ plan: { threads, write }, purpose }) => {
    const most = threads.kind === 'rows' ? maxRowThreads : threads.kind === 'blocks' ? threads.block : 256;
    const [, bound = '0'] = /__launch_bounds__\((\d+)/.exec(write('kernel')) ?? [];
    return { purpose, most, bound: Number(bound) };
  });
  expect(blocks.filter(({ most }) => most === 1024).map(({ purpose }) => purpose)).toEqual(
    expect.arrayContaining(['softmax', 'logSoftmax', 'argmax', 'topIndices', 'sum']),
  );
  expect(blocks.filter(({ most, bound }) => most > 256 && bound < most)).toEqual([]);
});

it('kernels read nothing but weights before they wait for the kernel before', () => {
  const before = planAll(2048, 'bfloat16').flatMap(({ plan, purpose }) => {
    const [, body] = /\) \{\n([^]*)/.exec(plan.write('kernel'))!;
    const [early, rest] = body!.split('waitForEarlier(');
    expect(rest).toBeDefined();
    const used = new Set([...early!.matchAll(/\bp(\d+)\b/g)].map(([, index]) => Number(index)));
    return [...used].map((index) => `${purpose} ${(plan.operands as readonly Place[])[index]!.origin}`);
  });
  expect(before.some((each) => each.startsWith('products_of_8_rows'))).toBe(true);
  expect(before.filter((each) => !each.endsWith(' weight'))).toEqual([]);
});
