import { describe, expect, it } from 'vitest';
import { StepCosts } from './step-costs.js';

describe('relative costs of steps', () => {
  it('are what was measured against the kind in use, whatever the pace was', () => {
    const costs = new StepCosts<'plain' | 'chain'>();
    for (let step = 0; step < 20; step++) costs.keepPace('plain', 3);
    for (let step = 0; step < 3; step++) costs.measure('chain', 6);
    expect(costs.costOf('chain') / costs.costOf('plain')).toBeCloseTo(2);
    // Everything becomes three times as slow: the ratio stands, and new measures agree with it.
    for (let step = 0; step < 20; step++) costs.keepPace('plain', 9);
    expect(costs.pace).toBeCloseTo(9);
    expect(costs.costOf('chain') / costs.costOf('plain')).toBeCloseTo(2);
    for (let step = 0; step < 3; step++) costs.measure('chain', 18);
    expect(costs.costOf('chain') / costs.costOf('plain')).toBeCloseTo(2);
  });

  it('stay comparable when another kind takes over', () => {
    const costs = new StepCosts<string>();
    for (let step = 0; step < 8; step++) costs.keepPace('plain', 2);
    for (let step = 0; step < 3; step++) costs.measure('chain', 5);
    for (let step = 0; step < 8; step++) costs.keepPace('chain', 10);
    expect(costs.pace).toBeCloseTo(4);
    for (let step = 0; step < 3; step++) costs.measure('tree', 12);
    expect(costs.costOf('tree') / costs.costOf('plain')).toBeCloseTo(3);
  });

  it('do not count a pause of the machine', () => {
    const costs = new StepCosts<string>();
    [3, 3, 300, 3, 3].forEach((ms) => {
      costs.keepPace('plain', ms);
    });
    [6, 600, 6].forEach((ms) => {
      costs.measure('chain', ms);
    });
    expect(costs.costOf('chain')).toBeCloseTo(2);
  });

  it('are infinite for what was never measured', () => {
    const costs = new StepCosts<string>();
    expect(costs.costOf('chain')).toBe(Infinity);
    costs.measure('chain', 4);
    expect([costs.costOf('chain'), costs.pace]).toEqual([1, 4]);
    expect(costs.costOf('plain')).toBe(Infinity);
  });
});
