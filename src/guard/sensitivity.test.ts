import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { leastEvidence, Sensitivity } from './sensitivity.js';

describe('the sensitivity', () => {
  it('lets ring what the operator allows, whatever the evidence of usual requests is like', () => {
    for (const tail of [0.5, 1, 2]) {
      const random = createRandom(1, 'sensitivity');
      const sensitivity = new Sensitivity(0.02);
      const count = 20_000;
      let rang = 0;
      for (let index = 0; index < count; index++) {
        const evidence = (1 - random.next()) ** -tail; // up to far heavier than any promise
        const hasRung = evidence >= sensitivity.threshold('p');
        rang += Number(hasRung);
        sensitivity.learn('p', hasRung, hasRung);
      }
      expect(rang / count).toBeLessThan(0.021);
      expect(rang).toBeGreaterThan(0);
    }
  });

  it('never rings on less than some evidence, and knows populations apart', () => {
    const sensitivity = new Sensitivity(0.05);
    for (let index = 0; index < 10_000; index++) sensitivity.learn('p', false, false);
    expect(sensitivity.threshold('p')).toBeCloseTo(leastEvidence, 9);
    expect(sensitivity.threshold('q')).toBeGreaterThan(100);
    const copy = new Sensitivity(0.05);
    copy.restore(sensitivity.save());
    expect(copy.threshold('p')).toBe(sensitivity.threshold('p'));
  });

  it('stands still under siege, and moves again after it', () => {
    const sensitivity = new Sensitivity(0.01);
    for (let index = 0; index < 1000; index++) sensitivity.learn('p', false, false);
    for (let index = 0; index < 1000; index++) sensitivity.learn('p', index % 3 === 0, index % 3 === 0);
    expect(sensitivity.isBesieged('p')).toBe(true);
    const during = sensitivity.threshold('p');
    expect(during).toBeLessThan(2000);
    for (let index = 0; index < 300; index++) sensitivity.learn('p', false, false);
    expect(sensitivity.isBesieged('p')).toBe(false);
    expect(sensitivity.threshold('p')).toBeLessThan(during);
  });
});
