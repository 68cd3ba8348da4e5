import { describe, expect, it } from 'vitest';
import type { UnitName } from '../../audit/units/audit-unit.js';
import { kindOf, TimeEstimate } from './audit-progress.js';

const unit = (prompt: string, arm: string): UnitName => ({ drafter: 'd', prompt, arm });
const units = [unit('1', 'clean'), unit('1', 'attack'), unit('2', 'clean'), unit('2', 'attack')];

describe('kinds of units', () => {
  it.each([
    ['clean', 'measurement'],
    ['clean-again', 'measurement'],
    ['random#3', 'measurement'],
    ['fluent', 'measurement'],
    ['given', 'measurement'],
    ['transfer', 'measurement'],
    ['attack', 'search'],
    ['attack#2', 'search'],
    ['undirected', 'search'],
    ['undirected#2', 'search'],
    ['preservation-only', 'search'],
    ['unprojected', 'search'],
    ['universal', 'universal'],
  ])('%s is a %s', (arm, kind) => {
    expect(kindOf({ arm })).toBe(kind);
  });
});

describe('the time left', () => {
  it('is not guessed from a measurement alone', () => {
    const estimate = new TimeEstimate(units);
    expect(estimate.left(0)).toBeUndefined();
    estimate.start(units[0]!, 0);
    estimate.end(10);
    estimate.start(units[1]!, 10);
    expect(estimate.left(10)).toBeUndefined();
  });

  it('counts searches as searches and measurements as measurements', () => {
    const estimate = new TimeEstimate(units);
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

  it('is there from the first step of the first search', () => {
    const estimate = new TimeEstimate(units);
    estimate.start(units[0]!, 0);
    estimate.end(10);
    estimate.start(units[1]!, 10);
    estimate.step(1, 10, 30); // 20 a step: 200 for a search
    expect(estimate.left(30)).toBe(180 + 10 + 200);
    estimate.step(5, 10, 70); // 12 a step
    expect(estimate.left(70)).toBe(60 + 10 + 120);
    estimate.end(150); // it took 140
    expect(estimate.left(150)).toBe(10 + 140);
  });

  it('does not trust the steps of one search more than the time of a whole one', () => {
    const estimate = new TimeEstimate(units);
    estimate.start(units[1]!, 0);
    estimate.end(100);
    estimate.start(units[3]!, 100);
    estimate.step(1, 10, 190);
    expect(estimate.left(190)).toBe(10);
  });

  it('takes a measurement for a twentieth of a search until one is timed', () => {
    const estimate = new TimeEstimate(units);
    estimate.start(units[1]!, 0);
    estimate.end(100);
    expect(estimate.left(100)).toBe(5 + 100);
    estimate.start(units[2]!, 100);
    estimate.end(120);
    expect(estimate.left(120)).toBe(100);
  });

  it('takes a universal search for searches on two thirds of the prompts until one is timed', () => {
    const prompts = ['1', '2', '3', '4', '5', '6'];
    const all = [
      ...prompts.map((prompt) => unit(prompt, 'attack')),
      unit('all', 'universal'),
      { ...unit('all', 'universal'), drafter: 'e' },
    ];
    const estimate = new TimeEstimate(all);
    estimate.start(all[5]!, 0);
    estimate.end(100);
    expect(estimate.left(100)).toBe(800);
    estimate.start(all[6]!, 100);
    estimate.step(1, 4, 150); // by its own steps: 200
    expect(estimate.left(150)).toBe(150 + 200);
    estimate.end(350);
    expect(estimate.left(350)).toBe(250);
  });

  it('is what was expected until there is something better', () => {
    const estimate = new TimeEstimate(units, 400);
    estimate.start(units[0]!, 0);
    expect(estimate.left(30)).toBe(370);
    estimate.end(40);
    expect(estimate.left(40)).toBe(300);
    estimate.start(units[1]!, 40);
    estimate.step(1, 2, 90);
    expect(estimate.left(90)).toBe(50 + 40 + 100);
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
    estimate.step(1, 10, 10, 'a');
    expect(estimate.left(10)).toBe((2 * 90 + 2 * 5) / 2);
    estimate.end(100, 'a');
    estimate.end(100, 'b');
    estimate.start(units[0]!, 100, 'b');
    expect(estimate.left(100)).toBe(10);
  });
});
