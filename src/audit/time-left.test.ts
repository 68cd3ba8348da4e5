import { describe, expect, it } from 'vitest';
import { createTimeEstimate } from './time-left.js';

const unit = (prompt: string, arm: string) => ({ drafter: 'd', prompt, arm });
const units = [unit('1', 'clean'), unit('1', 'attack'), unit('2', 'clean'), unit('2', 'attack')];

describe('the time left', () => {
  it('is not guessed before a search has been timed', () => {
    const estimate = createTimeEstimate(units);
    expect(estimate.left(0)).toBeUndefined();
    estimate.start(units[0]!, 0);
    estimate.end(10);
    estimate.start(units[1]!, 10);
    expect(estimate.left(10)).toBeUndefined();
  });

  it('counts searches as searches and measurements as measurements', () => {
    const estimate = createTimeEstimate(units);
    estimate.start(units[0]!, 0);
    estimate.end(10);
    estimate.start(units[1]!, 10);
    estimate.end(210);
    expect(estimate.left(210)).toBe(210);
    estimate.start(units[2]!, 210);
    expect(estimate.left(214)).toBe(206);
    estimate.end(220);
    estimate.start(units[3]!, 220);
    expect(estimate.left(320)).toBe(100);
    expect(estimate.left(900)).toBe(0);
  });
});
