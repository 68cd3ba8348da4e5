import { describe, expect, it } from 'vitest';
import type { UnitName } from '../../audit/units/audit-unit.js';
import { TimeEstimate } from './audit-progress.js';

const unit = (prompt: string, arm: string): UnitName => ({ drafter: 'd', prompt, arm });
const units = [unit('1', 'clean'), unit('1', 'attack#2'), unit('2', 'random#3'), unit('2', 'undirected')];

describe('the time left', () => {
  it('is not guessed from a measurement alone', () => {
    const estimate = new TimeEstimate(units);
    expect(estimate.left(0)).toBeUndefined();
    estimate.start(units[0]!, 0);
    estimate.end(10);
    estimate.start(units[1]!, 10);
    expect(estimate.left(10)).toBeUndefined();
  });

  it('follows from the steps of the first search, and from what has ended', () => {
    const estimate = new TimeEstimate(units);
    estimate.start(units[0]!, 0);
    estimate.end(10);
    estimate.start(units[1]!, 10);
    estimate.step(5, 10, '');
    expect(estimate.left(110)).toBeCloseTo((1.55 * 110) / 0.55);
    estimate.end(210);
    expect(estimate.left(210)).toBeCloseTo(210);
    estimate.start(units[3]!, 210); // the measurement before it was skipped
    estimate.step(10, 10);
    expect(estimate.left(410)).toBe(0);
  });

  it('takes a universal search for an attack and its control on two thirds of the prompts', () => {
    const searches = ['1', '2', '3', '4', '5', '6'].map((prompt) => unit(prompt, 'attack'));
    const estimate = new TimeEstimate([...searches, unit('all', 'universal')]);
    estimate.start(searches[5]!, 0);
    estimate.end(100);
    expect(estimate.left(100)).toBe(800);
  });

  it('is what was expected until there is something better', () => {
    const estimate = new TimeEstimate(units, 420);
    estimate.start(units[0]!, 0);
    expect(estimate.left(30)).toBeCloseTo(420);
    estimate.end(40);
    expect(estimate.left(40)).toBeCloseTo(410);
  });

  it('does not learn from units that were already there', () => {
    const estimate = new TimeEstimate(units);
    estimate.start(units[1]!, 0);
    estimate.end(0.2);
    expect(estimate.left(0.2)).toBeUndefined();
  });

  it('is shared by the workers that run', () => {
    const estimate = new TimeEstimate(units);
    estimate.start(units[1]!, 0, 'a');
    estimate.start(units[3]!, 0, 'b');
    estimate.step(1, 10, 'a');
    estimate.step(1, 10, 'b');
    expect(estimate.left(10)).toBeCloseTo((0.9 + 0.9 + 0.1) * 50);
    estimate.end(100, 'a');
    estimate.end(100, 'b');
    estimate.start(units[0]!, 100, 'b');
    expect(estimate.left(100)).toBeCloseTo(5);
  });
});
