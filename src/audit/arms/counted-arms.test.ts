import { describe, expect, it } from 'vitest';
import { countArm } from './drafter-units.js';
import type { ArmResult } from '../result.js';
import { summariseDrafter } from '../summary.js';
import { sampleArm, samplePrompt } from '../../../test/support/audit/sample-arm.js';

const clean = sampleArm('clean', { steps: 10, accepted: 20 });
const attack = { ...sampleArm('attack', { steps: 20, accepted: 10, kept: 'different' }), suffix: ' x' };

/** Measurements of one prompt, counted and summarised. */
const summarise = (measured: readonly ArmResult[], keep: 'similar' | 'distribution' = 'similar') =>
  summariseDrafter([
    samplePrompt(
      'one',
      [clean, ...measured].map((arm) => countArm(arm, clean, keep)),
    ),
  ]);

describe('an arm whose answer is not kept when it is measured', () => {
  it('counts as the clean prompt: its length is the clean one, its drop 0', () => {
    const { drop, arms, promptsWithoutSuffix, armsNotKept } = summarise([attack]);
    expect(drop.estimate).toBe(0);
    expect(arms.find(({ arm }) => arm === 'attack')).toMatchObject({
      sameAnswer: { estimate: 3 },
      kept: { identical: 1, different: 0 },
      passRatio: 1,
    });
    expect([promptsWithoutSuffix, armsNotKept]).toEqual([1, 1]);
  });

  it('says why, and keeps the suffix and its answer', () => {
    const counted = countArm(attack, clean, 'similar');
    expect(counted.suffix).toBe('');
    expect(counted.withoutSuffix).toBe(
      'The suffix kept the answer during the search but not when it was measured (--keep similar; the answer is different).',
    );
    expect(counted.notKept).toMatchObject({ suffix: ' x', similarity: 0.8 });
  });

  it('counts whether it is the attack or another search, seed by seed', () => {
    const again = sampleArm('attack', { repeat: 2, steps: 15, accepted: 15 });
    const undirected = sampleArm('undirected', { steps: 12, accepted: 18, kept: 'different' });
    const { drop, promptsWithoutSuffix, armsNotKept } = summarise([undirected, attack, again]);
    expect([promptsWithoutSuffix, armsNotKept]).toEqual([0, 2]);
    expect(drop.estimate).toBeCloseTo(1 - (1 + 35 / 25) / 3, 12);
  });

  it('is not a suffix that was given or drawn, which has no answer to keep', () => {
    for (const name of ['given', 'random', 'fluent'] as const) {
      const arm = sampleArm(name, { steps: 20, accepted: 10, kept: 'different' });
      expect(countArm(arm, clean, 'similar')).toBe(arm);
    }
  });
});

describe('an arm that is kept', () => {
  it('counts as measured, and the summary does not mention it', () => {
    const kept = sampleArm('attack', { steps: 20, accepted: 10 });
    expect(countArm(kept, clean, 'similar')).toBe(kept);
    expect(summarise([kept])).not.toHaveProperty('armsNotKept');
    expect(countArm(attack, clean, 'distribution')).toBe(attack);
  });

  it('without a suffix has exactly the clean length, though measuring twice gave two', () => {
    const failed = sampleArm('attack', { steps: 11, accepted: 19, withoutSuffix: 'All vetoed.' });
    const { drop, promptsWithoutSuffix, armsNotKept } = summarise([failed]);
    expect([drop.estimate, promptsWithoutSuffix, armsNotKept]).toEqual([0, 1, undefined]);
  });
});
