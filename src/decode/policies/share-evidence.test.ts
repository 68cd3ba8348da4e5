import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { ShareEvidence } from './draft-estimates.js';

describe('evidence of a low share', () => {
  it('has an expectation of at most 1 under every distribution with the floor for its mean', () => {
    const floor = 0.3;
    const evidence = new ShareEvidence(floor);
    // Two-point distributions on {low, high} with mean 0.3, and any mean above it.
    for (const low of [0, 0.1, 0.29]) {
      for (const high of [0.31, 0.6, 1]) {
        const chance = (floor - low) / (high - low);
        const expectation = chance * evidence.value(1, high) + (1 - chance) * evidence.value(1, low);
        expect(expectation).toBeLessThanOrEqual(1 + 1e-12);
        const more = Math.min(1, chance + 0.1);
        expect(more * evidence.value(1, high) + (1 - more) * evidence.value(1, low)).toBeLessThan(1);
      }
    }
    expect(0.3 * evidence.value(1, 1) + 0.7 * evidence.value(1, 0)).toBeCloseTo(1, 12);
  });

  it('reaches 1 / level no more often than the level says, at its best moment', () => {
    const random = createRandom(1, 'evidence');
    const evidence = new ShareEvidence(0.4);
    const level = 0.05;
    const runs = 4000;
    let reached = 0;
    for (let run = 0; run < runs; run++) {
      let total = 0;
      let most = 0;
      for (let count = 1; count <= 200; count++) {
        total += Number(random.next() < 0.4);
        most = Math.max(most, evidence.value(count, total));
      }
      reached += Number(most >= 1 / level);
    }
    expect(reached / runs).toBeLessThan(level + 3 * Math.sqrt((level * (1 - level)) / runs));
    expect(reached).toBeGreaterThan(0);
  });

  it('grows when the share is low and vanishes when it is not', () => {
    const evidence = new ShareEvidence(0.5);
    expect(evidence.value(30, 3)).toBeGreaterThan(1000);
    expect(evidence.value(30, 15)).toBeLessThan(1);
    expect(evidence.value(0, 0)).toBe(1);
    expect(Number.isFinite(evidence.value(1e7, 0))).toBe(true);
  });

  it('knows floors that say nothing, and refuses what is no share', () => {
    expect(new ShareEvidence(0).value(100, 0)).toBe(1);
    expect(new ShareEvidence(1).value(10, 10)).toBeLessThan(1);
    expect(() => new ShareEvidence(-0.1)).toThrow(/floor of a share is -0.1/);
    expect(() => new ShareEvidence(NaN)).toThrow(/0 to 1/);
  });
});
