import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { describeRequestAlarm, formatOneIn } from './alarm-text.js';
import type { Symptoms } from './causes.js';
import { findCause } from './causes.js';
import { comparePrints, isFamily, PromptLikeness } from './prompt-likeness.js';

const low: Symptoms = {
  ...{ side: 'low', isWide: false, share: 0.08, floor: 0.4, acceptedAtFirst: 0.1, accepted: 0.1 },
  ...{ promptTokens: 100, longPrompt: 500, likeness: undefined },
};

describe('causes', () => {
  it('tell loops, a dead drafter, hard text and a collapse apart', () => {
    expect(findCause(low).cause).toBe('collapse');
    expect(findCause({ ...low, side: 'high' }).cause).toBe('repetition');
    expect(findCause({ ...low, isWide: true }).cause).toBe('drafter-down');
    expect(findCause({ ...low, share: 0.3 }).cause).toBe('hard-text');
    expect(findCause({ ...low, acceptedAtFirst: 1.2, accepted: 0.2 }).cause).toBe('hard-text');
    expect(findCause({ ...low, promptTokens: 9000 })).toMatchObject({ cause: 'hard-text' });
    expect(findCause({ ...low, promptTokens: null, acceptedAtFirst: null }).cause).toBe('collapse');
  });

  it('take a family of prompts for an attack, even where it is not far below', () => {
    const likeness = { alike: 8, flagged: 10, flaggedShare: 0.8, usualShare: 0.01 };
    expect(findCause({ ...low, share: 0.3, likeness })).toMatchObject({ cause: 'collapse' });
    expect(findCause({ ...low, share: 0.3, likeness: { ...likeness, usualShare: 0.7 } }).cause).toBe(
      'hard-text',
    );
  });
});

describe('likeness of prompts', () => {
  const random = createRandom(1, 'prints');
  const draw = (): number[] => Array.from({ length: 16 }, () => random.nextInteger(2 ** 32));

  it('finds a suffix that comes again, behind prompts that differ', () => {
    const suffix = draw();
    const withSuffix = (): number[] =>
      suffix.map((hash) => (random.next() < 0.75 ? hash : random.nextInteger(2 ** 32)));
    const prompts = new PromptLikeness();
    for (let index = 0; index < 50; index++) prompts.learnUsual(draw());
    expect(isFamily(prompts.flag(withSuffix()))).toBe(false);
    for (let index = 0; index < 10; index++) prompts.flag(withSuffix());
    expect(isFamily(prompts.flag(withSuffix()))).toBe(true);
    expect(isFamily(prompts.flag(draw()))).toBe(false);
  });

  it('is no evidence where a template makes all prompts alike', () => {
    const template = draw();
    const prompts = new PromptLikeness();
    for (let index = 0; index < 50; index++) prompts.learnUsual(template);
    for (let index = 0; index < 10; index++) prompts.flag(template);
    expect(isFamily(prompts.flag(template))).toBe(false);
  });

  it('compares what both have', () => {
    expect(comparePrints([1, 2, 3, 4], [1, 2, 9, 9])).toBe(0.5);
    expect(comparePrints([], [1])).toBe(0);
  });
});

describe('the words of an alarm', () => {
  it('say how sure it is, or that nobody knows yet', () => {
    const length = { seen: 1.08, steps: 41, expected: { low: 1.42, middle: 2.51, high: 4.1 } };
    expect(describeRequestAlarm(length, 0.01, 'so it is', true)).toBe(
      'A request accepted 1.08 tokens a step over 41 steps, where 1.42 to 4.10 are usual and 2.51 is the middle; ' +
        'at most one benign request in 100 does this; so it is.',
    );
    expect(describeRequestAlarm(length, 0.01, 'so it is', false)).toContain('still young');
    expect([12.4, 54_321, 3.2e6, 5e12].map(formatOneIn)).toEqual([
      '12',
      '54,000',
      '3 million',
      'more than a billion',
    ]);
  });
});
