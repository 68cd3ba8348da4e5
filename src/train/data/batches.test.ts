import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import type { BatchPlan, TextBatch } from './batches.js';
import { planBatches } from './batches.js';
import type { Example } from './examples.js';

function example(id: string, length: number): Example {
  const random = createRandom(1, id);
  const tokens = Int32Array.from({ length }, () => 1 + random.nextInteger(50));
  return { id, tokens, isLearnt: Uint8Array.from(tokens, () => random.nextInteger(2)) };
}

const random = createRandom(7);
const examples = Array.from({ length: 300 }, (_, index) => example(`e${index}`, 2 + random.nextInteger(120)));
const byId = new Map(examples.map((one) => [one.id, one]));

const epochOf = (plan: BatchPlan, epoch: number): TextBatch[] =>
  Array.from({ length: plan.batchesPerEpoch }, (_, place) =>
    plan.batchAt(epoch * plan.batchesPerEpoch + place),
  );
const idsOf = ({ texts }: TextBatch): string[] => texts.map(({ id }) => id);
const companyOf = (batches: readonly TextBatch[]): string[] =>
  batches.map((batch) => idsOf(batch).sort().join(' ')).sort();

describe.each(['padded', 'packed'] as const)('a plan of batches with %s rows', (rows) => {
  const plan = planBatches(examples, { batchTokens: 512, rows, seed: 3 });

  it('gives every example once in every epoch, whole and padded by what is not learnt', () => {
    for (const epoch of [0, 1, 7]) {
      const batches = epochOf(plan, epoch);
      expect(batches.flatMap(idsOf).sort()).toEqual([...byId.keys()].sort());
      for (const { tokens, weights, shape, texts } of batches) {
        const [count, length] = shape;
        expect([tokens.length, weights.length]).toEqual([count * length, count * length]);
        const [expectedTokens, expectedWeights] = [new Int32Array(tokens), new Float32Array(weights)].map(
          (values) => values.fill(0),
        );
        const ends = new Array<number>(count).fill(0); // [row]
        for (const { id, row, start, length: own } of texts) {
          const { tokens: ids, isLearnt } = byId.get(id)!;
          expect([start, own]).toEqual([ends[row], ids.length]);
          ends[row] = start + own;
          expectedTokens!.set(ids, row * length + start);
          expectedWeights!.set(isLearnt, row * length + start);
        }
        expect([tokens, weights]).toEqual([expectedTokens, expectedWeights]);
        expect(ends.every((end) => end > 0 && end <= length)).toBe(true);
        if (rows === 'padded') expect(texts).toHaveLength(count);
      }
    }
  });

  it('gives a step the same batch whatever was asked for before', () => {
    const count = 3 * plan.batchesPerEpoch;
    const inOrder = Array.from({ length: count }, (_, step) => plan.batchAt(step));
    const shuffled = [...examples];
    createRandom(9).shuffle(shuffled);
    const other = planBatches(shuffled, { batchTokens: 512, rows, seed: 3 });
    const steps = Array.from({ length: count }, (_, step) => step);
    createRandom(8).shuffle(steps);
    for (const step of steps) expect(other.batchAt(step)).toEqual(inOrder[step]);
  });

  it('mixes anew in every epoch and with every seed: order and company', () => {
    const orders = [epochOf(plan, 0), epochOf(plan, 1)];
    const otherSeed = epochOf(planBatches(examples, { batchTokens: 512, rows, seed: 4 }), 0);
    const first = companyOf(orders[0]!);
    for (const batches of [orders[1]!, otherSeed]) {
      expect(idsOf(batches[0]!)).not.toEqual(idsOf(orders[0]![0]!));
      const same = companyOf(batches).filter((company) => first.includes(company));
      expect(same.length).toBeLessThan(first.length / 4);
    }
    // Not from long to short.
    const lengths = orders[0]!.map(({ texts }) => Math.max(...texts.map(({ length }) => length)));
    expect(lengths).not.toEqual([...lengths].sort((left, right) => right - left));
  });

  it('has the same few shapes in every epoch, and little padding', () => {
    const shapesOf = (epoch: number) => epochOf(plan, epoch).map(({ shape }) => shape.join(' x '));
    expect(shapesOf(5).sort()).toEqual(shapesOf(0).sort());
    expect(new Set(shapesOf(0)).size).toBeLessThanOrEqual({ padded: 9, packed: 2 }[rows]);
    const all = epochOf(plan, 0);
    const positions = all.reduce((total, { tokens }) => total + tokens.length, 0);
    const filled = examples.reduce((total, { tokens }) => total + tokens.length, 0);
    expect(plan.paddingShare).toBeCloseTo(1 - filled / positions, 12);
    expect(plan.paddingShare).toBeLessThan({ padded: 0.2, packed: 0.05 }[rows]);
  });

  it('keeps to its size for any lengths, but for an example that is longer by itself', () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(lengths, fc.integer({ min: 1, max: 400 }), (sizes, batchTokens) => {
        const own = sizes.map((length, index) => example(`x${index}`, length));
        const small = planBatches(own, { batchTokens, rows, seed: 0 });
        const batches = epochOf(small, 1);
        const large = batches.filter(({ tokens }) => tokens.length > batchTokens);
        expect(large.every(({ shape }) => shape[0] === 1)).toBe(true);
        expect(batches.every(({ shape }) => shape[1] % 16 === 0)).toBe(true);
        expect(batches.flatMap(idsOf)).toHaveLength(own.length);
      }),
      { seed: 1, numRuns: 100 },
    );
  });
});
