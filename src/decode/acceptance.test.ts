import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { meanOfRequestMeans, poolAcceptance, summariseAcceptance } from './acceptance.js';
import type { StepRecord } from './acceptance.js';

const step = fc
  .record({ depth: fc.nat(8), extra: fc.nat(50), share: fc.nat(8) })
  .map(({ depth, extra, share }): StepRecord => ({
    depth,
    proposed: depth === 0 ? 0 : depth + extra,
    accepted: Math.min(share, depth),
  }));
const steps = fc.array(step, { maxLength: 30 });

describe('summariseAcceptance', () => {
  it('counts a small generation by hand', () => {
    const record = summariseAcceptance(
      [
        { proposed: 4, accepted: 0, depth: 4 },
        { proposed: 4, accepted: 2, depth: 4 },
        { proposed: 4, accepted: 3, depth: 4 },
        { proposed: 2, accepted: 2, depth: 2 },
      ],
      10,
    );
    expect(record).toEqual({
      steps: 4,
      proposed: 14,
      accepted: 7,
      emitted: 10,
      acceptedLengths: [1, 3, 4, 3],
      acceptanceByDepth: [0.75, 0.75, 0.25, 0],
      histogram: [1, 0, 2, 1, 0],
      meanAcceptedLength: 2.75,
      acceptanceRate: 0.5,
    });
  });

  it('counts tree nodes in the acceptance rate and levels in the depth', () => {
    const record = summariseAcceptance([{ proposed: 59, accepted: 4, depth: 5 }], 5);
    expect(record.acceptanceRate).toBeCloseTo(4 / 59, 15);
    expect(record.meanAcceptedLength).toBe(5);
    expect(record.acceptanceByDepth).toEqual([1, 1, 1, 1, 0]);
  });

  it('takes a generation without steps for plain decoding', () => {
    expect(summariseAcceptance([], 1)).toEqual({
      steps: 0,
      proposed: 0,
      accepted: 0,
      emitted: 1,
      acceptedLengths: [],
      acceptanceByDepth: [],
      histogram: [],
      meanAcceptedLength: 1,
      acceptanceRate: 0,
    });
  });

  it('takes steps without a draft', () => {
    const record = summariseAcceptance([{ proposed: 0, accepted: 0, depth: 0 }], 1);
    expect(record).toMatchObject({ steps: 1, histogram: [1], meanAcceptedLength: 1, acceptanceRate: 0 });
    expect(record.acceptanceByDepth).toEqual([]);
  });

  it('keeps its books: histogram, bounds of the mean, monotone depths', () => {
    fc.assert(
      fc.property(steps, (taken) => {
        const record = summariseAcceptance(taken, taken.length);
        const deepest = taken.reduce((depth, { depth: next }) => Math.max(depth, next), 0);
        const accepted = taken.reduce((sum, next) => sum + next.accepted, 0);
        expect(record.accepted).toBe(accepted);
        expect(record.histogram.reduce((sum, count) => sum + count, 0)).toBe(record.steps);
        expect(record.meanAcceptedLength).toBeGreaterThanOrEqual(1);
        expect(record.meanAcceptedLength).toBeLessThanOrEqual(deepest + 1);
        expect(record.acceptanceRate).toBeLessThanOrEqual(1);
        expect(record.acceptanceByDepth).toHaveLength(deepest);
        for (const [depth, share] of record.acceptanceByDepth.entries()) {
          expect(share).toBeLessThanOrEqual(record.acceptanceByDepth[depth - 1] ?? 1);
        }
        const sumOfShares = record.acceptanceByDepth.reduce((sum, share) => sum + share, 0);
        expect(1 + sumOfShares).toBeCloseTo(record.meanAcceptedLength, 10);
      }),
    );
  });
});

describe('poolAcceptance', () => {
  it('equals the summary of all steps together', () => {
    fc.assert(
      fc.property(fc.array(steps, { maxLength: 6 }), (requests) => {
        const pooled = poolAcceptance(requests.map((taken) => summariseAcceptance(taken, taken.length + 1)));
        const together = requests.flat();
        expect(pooled).toEqual(summariseAcceptance(together, together.length + requests.length));
      }),
    );
  });
});

describe('meanOfRequestMeans', () => {
  const long = summariseAcceptance(
    Array.from({ length: 9 }, () => ({ proposed: 4, accepted: 3, depth: 4 })),
    36,
  );
  const short = summariseAcceptance([{ proposed: 4, accepted: 0, depth: 4 }], 1);
  const none = summariseAcceptance([], 1);

  it('weighs requests alike where pooling weighs steps alike', () => {
    expect(meanOfRequestMeans([long, short])).toBe(2.5);
    expect(poolAcceptance([long, short]).meanAcceptedLength).toBe(3.7);
  });

  it('leaves out requests without steps', () => {
    expect(meanOfRequestMeans([long, short, none])).toBe(2.5);
    expect(meanOfRequestMeans([none])).toBe(1);
  });
});
