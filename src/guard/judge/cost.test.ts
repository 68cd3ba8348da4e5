import { describe, expect, it } from 'vitest';
import type { Speculation } from '../observation.js';
import { boundLength, findBreakEven, weighCost } from './cost.js';

const of = (steps: number, accepted: number, rest: Partial<Speculation> = {}): Speculation => ({
  ...{ evidence: 'reported', steps, accepted, proposed: 4 * steps, histogram: null },
  ...{ perStepAccepted: null, perStepProposed: null, draftLength: 4, isTree: false },
  ...rest,
});

describe('the cost of drafting', () => {
  it('bounds the accepted length as the exact Poisson limits do', () => {
    // 95 % upper limits of the mean: 3.00, 4.74, 7.75 and 16.96 for 0, 1, 3 and 10 events.
    for (const [events, limit] of [
      [0, 2.996],
      [1, 4.744],
      [3, 7.754],
      [10, 16.962],
    ] as const)
      expect(100 * (boundLength(events, 100, 1.645) - 1)).toBeCloseTo(limit, 1);
  });

  it.each([1, 2, 4, 8])('recognizes a total collapse over 32 steps with drafts of %i', (length) => {
    const collapsed = of(32, 0, { proposed: 32 * length, draftLength: length });
    expect(weighCost(collapsed).isCollapsed).toBe(true);
    expect(weighCost(of(6, 0)).isCollapsed).toBe(false);
  });

  it('leaves drafters alone that accept little and cost little', () => {
    // One of 75 passes drafted six tokens, five of them accepted.
    expect(weighCost(of(75, 5, { proposed: 6, draftLength: 6 })).isCollapsed).toBe(false);
    expect(findBreakEven(of(75, 0, { proposed: 0 }))).toBe(1);
    expect(weighCost(of(200, 48)).isCollapsed).toBe(false);
  });

  it('uses a configured break-even point, in proportion to the steps that draft', () => {
    expect(findBreakEven(of(10, 0), 1.8)).toBeCloseTo(1.8);
    const half = of(10, 0, { proposed: 20, perStepProposed: [4, 4, 4, 4, 4, 0, 0, 0, 0, 0] });
    expect(findBreakEven(half, 1.8)).toBeCloseTo(1.4);
  });

  it('counts a tree by its depth, not by its tokens', () => {
    expect(findBreakEven(of(10, 0, { proposed: 600, isTree: true }))).toBeCloseTo(1.22);
  });
});
