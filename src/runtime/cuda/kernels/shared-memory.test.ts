/** Kernels may declare 48 KiB of shared memory; the compiler refuses more, which an emulated device would not notice. */
import { expect, it } from 'vitest';
import { symbol } from '../../../graph/dimension.js';
import { planContraction } from '../../../graph/contraction-plan.js';
import { matmul } from '../../../graph/operations/contraction.js';
import { multiply, silu } from '../../../graph/operations/elementwise.js';
import { input, weight } from '../../../graph/operations/leaves.js';
import { rmsNorm } from '../../../graph/operations/reductions.js';
import { simplify } from '../../../graph/simplify.js';
import { scheduleGraph } from '../programs/schedule.js';
import { plansOf } from '../programs/step.js';

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

it.each([320, 896, 1024, 1120, 1536, 2048, 2304, 2560, 4096, 5120])(
  'a norm of %i places and a gate behind it fit into shared memory for any number of rows',
  (inner) => {
    const x = input('x', [symbol('row'), inner]);
    const normed = rmsNorm(x, weight('scale', [inner]), 1e-5);
    const product = (name: string) => matmul(normed, weight(name, [inner, 64]));
    const outputs = { gate: multiply(silu(product('a')), product('b')), queries: product('c') };
    for (const productType of ['bfloat16', 'float32'] as const) {
      const tensorCores = productType !== 'float32';
      const graph = simplify(outputs, [planContraction]);
      const { steps } = scheduleGraph(graph, { productType, smallBatches: true, tensorCores });
      const used = steps.flatMap(plansOf).map(({ plan, purpose }) => ({
        purpose,
        bytes: countSharedBytes(plan.write('kernel')),
      }));
      expect(used.some(({ bytes }) => bytes > 2 * inner)).toBe(true);
      expect(used.filter(({ bytes }) => bytes > 48 * 1024)).toEqual([]);
    }
  },
);
