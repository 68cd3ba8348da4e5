import { describe, expect, it } from 'vitest';
import { compareAudit, drafterRoles, judgeDrop } from './hardening-result.js';
import type { DrafterRole, HardenedChange } from './hardening-result.js';
import type { SamplePrompt } from '../../../test/support/train/sample-hardening.js';
import { createAuditResult, createPrompts } from '../../../test/support/train/sample-hardening.js';

const compare = (...drafters: readonly (readonly SamplePrompt[])[]): readonly HardenedChange[] =>
  compareAudit('fresh', createAuditResult(drafters), drafterRoles).changes;

const first = (...drafters: readonly (readonly SamplePrompt[])[]): HardenedChange => compare(...drafters)[0]!;

const prompt = (id: string, clean: number, ...attacked: readonly number[]): SamplePrompt => ({
  ...{ id, clean: [100, 100 * (clean - 1)], attacked: attacked.map((length) => [100, 100 * (length - 1)]) },
});

describe('what is computed', () => {
  it('is pooled over steps, prompt by prompt', () => {
    // Clean 2 and 3 tokens a step over equally many steps are 2.5; attacked 1 and 2 are 1.5: a drop of 40 %.
    const before = [prompt('a', 2, 1), prompt('b', 3, 2)];
    // 2.4 and 2.2: a drop of 1 / 12.
    const after = [prompt('a', 2, 1.8), prompt('b', 2.8, 2.6)];
    const change = first(before, after);
    expect(change.dropThen?.estimate).toBeCloseTo(0.4, 12);
    expect(change.dropNow?.estimate).toBeCloseTo(1 / 12, 12);
    expect(change.dropLess?.estimate).toBeCloseTo(0.4 - 1 / 12, 12);
    // Two prompts leave open whether there was a drop to take a ratio to.
    expect(change.dropRatio).toBeNull();
    expect(change.cleanLoss?.estimate).toBeCloseTo(1 - 2.4 / 2.5, 12);
    // Both prompts drop less: of the four patterns of signs, one is as extreme.
    expect(change.pValue).toBe(0.25);
    expect(change.pLarger).toBe(1);
    expect(change.prompts).toBe(2);
  });

  it('weighs a prompt the same however many seeds attacked it', () => {
    const before = [prompt('a', 2, 1, 1, 1), prompt('b', 3, 3)];
    expect(first(before, before).dropThen?.estimate).toBeCloseTo(1 - 2 / 2.5, 12);
  });

  it('is over the prompts that count for both, whatever their order', () => {
    const before = [prompt('a', 2, 1), prompt('b', 3, 2), prompt('c', 2, 1)];
    const after = [
      { ...prompt('c', 2, 1.5), skipped: 'The clean answer is too short.' },
      prompt('b', 3, 3),
      prompt('d', 2, 2),
    ];
    const change = first(before, after);
    expect(change.prompts).toBe(1);
    expect(change.dropThen?.estimate).toBeCloseTo(1 / 3, 12);
    expect(change.dropNow?.estimate).toBe(0);
  });

  it('is the same for the same seed', () => {
    const drafters = [createPrompts(12, 2.5, 0.4), createPrompts(12, 2.4, 0.2)] as const;
    expect(compare(...drafters)).toEqual(compare(...drafters));
  });

  it('has the baseline beside it, and hardening against the baseline', () => {
    const changes = compare(
      createPrompts(9, 2.5, 0.4),
      createPrompts(9, 2.4, 0.1),
      createPrompts(9, 2.4, 0.3),
    );
    expect(changes.map(({ role, against }) => [role, against])).toEqual([
      ...[
        ['hardened', 'before'],
        ['random', 'before'],
        ['hardened', 'random'],
      ],
    ]);
    expect(changes[2]!.dropThen?.estimate).toBeCloseTo(changes[1]!.dropNow!.estimate, 12);
  });

  it('knows each drafter by its role, whichever baselines there are', () => {
    const drafters = [createPrompts(9, 2.5, 0.4), createPrompts(9, 2.4, 0.1), createPrompts(9, 2.4, 0.3)];
    const pairsOf = (roles: readonly DrafterRole[], count = roles.length): string[] =>
      compareAudit(
        'fresh',
        createAuditResult([...drafters, drafters[0]!].slice(0, count)),
        roles,
      ).changes.map(({ role, against }) => `${role} ${against}`);
    expect(pairsOf(['before', 'hardened', 'random'])).toEqual([
      ...['hardened before', 'random before', 'hardened random'],
    ]);
    expect(pairsOf(drafterRoles)).toEqual([
      ...['hardened before', 'random before', 'clean before', 'hardened random', 'hardened clean'],
    ]);
    expect(pairsOf(['before', 'hardened'])).toEqual(['hardened before']);
  });

  it('holds the ratio in its interval, and the interval over prompts', () => {
    const { dropRatio } = first(createPrompts(20, 2.5, 0.4), createPrompts(20, 2.5, 0.2));
    expect(dropRatio?.n).toBe(20);
    expect(dropRatio!.low).toBeLessThan(dropRatio!.estimate);
    expect(dropRatio!.high).toBeGreaterThan(dropRatio!.estimate);
    expect(dropRatio!.estimate).toBeCloseTo(0.5, 1);
  });
});

describe('a ratio', () => {
  it('is undefined where there was no drop', () => {
    const change = first(createPrompts(9, 2.5, 0), createPrompts(9, 2.5, 0.1));
    expect(change.dropRatio).toBeNull();
    expect(change.dropLess).not.toBeNull();
  });

  it('is undefined where the drop may as well have been none', () => {
    const before = [prompt('a', 2, 1.2), prompt('b', 2, 2.4), prompt('c', 2, 1.9)];
    expect(first(before, before).dropRatio).toBeNull();
  });

  it('is below 0 where suffixes help', () => {
    const change = first([prompt('a', 2, 1), prompt('b', 2, 1)], [prompt('a', 2, 2.2), prompt('b', 2, 2.2)]);
    expect(change.dropRatio?.estimate).toBeCloseTo(-0.2, 12);
  });
});

describe('where nothing can be compared', () => {
  it('there are no numbers', () => {
    const skipped = createPrompts(3, 2, 0.4).map((one) => ({ ...one, skipped: 'too short' }));
    const { changes, rows } = compareAudit(
      'fresh',
      createAuditResult([createPrompts(3, 2, 0.4), skipped]),
      drafterRoles,
    );
    expect(changes[0]).toMatchObject({
      prompts: 0,
      dropThen: null,
      dropRatio: null,
      cleanLoss: null,
      pValue: null,
    });
    expect(judgeDrop(changes[0]!)).toBe('unknown');
    expect(rows[1]).toMatchObject({ clean: null, attacked: null, promptsAudited: 0 });
  });
});

describe('verdicts', () => {
  it.each([
    ['smaller', 12, 0.4, 0.1],
    ['larger', 12, 0.1, 0.4],
    ['unclear', 12, 0.3, 0.3],
    // Three prompts can be no evidence, however clear they are.
    ['unclear', 3, 0.4, 0.1],
    ['unclear', 3, 0.1, 0.4],
    ['unclear', 1, 0.4, 0.1],
  ] as const)('%s over %i prompts from a drop of %d to %d', (effect, count, then, now) => {
    expect(judgeDrop(first(createPrompts(count, 2.5, then), createPrompts(count, 2.5, now)))).toBe(effect);
  });
});
