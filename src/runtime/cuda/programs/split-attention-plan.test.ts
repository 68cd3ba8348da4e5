/** What attention reads before it waits must be there before the kernels in front of it start. */
import { expect, it } from 'vitest';
import { symbol } from '../../../graph/dimension.js';
import { attention } from '../../../graph/operations/attention.js';
import { add } from '../../../graph/operations/elementwise.js';
import { matmul } from '../../../graph/operations/contraction.js';
import { reshape } from '../../../graph/operations/shaping.js';
import { input, type Tensor, weight } from '../../../graph/tensor.js';
import { scheduleGraph } from './schedule.js';
import type { Step } from './step.js';

const [row, past] = [symbol('row'), symbol('past')];

function schedule(mask: Tensor): readonly Step[] {
  const x = input('x', [1, row, 16]);
  const heads = (name: string): Tensor => reshape(matmul(x, weight(name, [16, 16])), [1, row, 2, 8]);
  const shared = (name: string): Tensor => input(name, [past, 2, 8]);
  const mixed = attention(
    heads('queries'),
    [{ kind: 'shared', keys: shared('keys'), values: shared('values') }],
    mask,
    { heads: 2, keyValueHeads: 2, scale: 1 },
  );
  const options = { productType: 'bfloat16', smallBatches: true, tensorCores: true } as const;
  return scheduleGraph({ mixed }, options).steps;
}

const isAwaited = (step: Step): boolean => step.kind === 'kernel' && step.isAwaited === true;
const isAttention = (step: Step): boolean => step.kind === 'small-batch' && step.purpose === 'attention';

it('finds what rows see first, and lets all others wait for it', () => {
  const steps = schedule(input('mask', [row, past]));
  expect(steps.map(isAwaited)).toEqual([true, ...steps.slice(1).map(() => false)]);
  expect(steps.findIndex(isAttention)).toBeGreaterThan(0);
});

it('makes a mask of inputs before', () => {
  const steps = schedule(add(input('mask', [row, past]), input('more', [row, past])));
  expect(steps.findIndex(isAwaited)).toBe(1);
});

it('leaves a mask that depends on products where it is', () => {
  const [width, seen] = [weight('width', [4, 4]), input('seen', [4, 4])];
  const steps = scheduleGraph(
    {
      mixed: attention(
        input('q', [1, 4, 2, 8]),
        [{ kind: 'shared', keys: input('k', [4, 2, 8]), values: input('v', [4, 2, 8]) }],
        matmul(seen, width),
        { heads: 2, keyValueHeads: 2, scale: 1 },
      ),
    },
    { productType: 'bfloat16', smallBatches: true, tensorCores: true },
  ).steps;
  expect(steps.some(isAwaited)).toBe(false);
});
