import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import type { ResolvedPolicy } from '../draft/grow-tree.js';
import { createAdaptivePolicy } from './adaptive-policy.js';

interface World {
  readonly rate: number;
  readonly draftMs: number; // a level
  readonly rowMs: number; // a verified row beyond the first
  readonly catchUpMs?: number; // for the first draft behind plain steps
  readonly pace?: (step: number) => number; // by how much everything is slower
}

/** Runs the chooser in a world with known costs and acceptance; returns its choices and its speed over plain. */
function play(worlds: readonly (readonly [steps: number, world: World])[], seed = 1) {
  const random = createRandom(seed, 'world');
  const chooser = createAdaptivePolicy({ maximumDepth: Infinity, vocabularySize: 100 });
  const choices: (ResolvedPolicy | undefined)[] = [];
  let tokens = 0;
  let spentMs = 0;
  let isBehind = false;
  for (const [steps, { rate, draftMs, rowMs, catchUpMs = 0, pace = () => 1 }] of worlds) {
    for (let step = 0; step < steps; step++) {
      const choice = chooser.choose();
      const { policy } = choice;
      choices.push(policy);
      const depth = policy === undefined ? 0 : policy.kind === 'chain' ? policy.length : 3;
      const proposed = policy?.kind === 'dynamic' ? policy.total - 1 : depth;
      let accepted = 0;
      while (accepted < depth && random.next() < rate) accepted += 1;
      const missed = depth > 0 && isBehind ? catchUpMs : 0;
      isBehind = depth === 0;
      const outcome = {
        ...{ proposed, accepted, depth },
        draftMs: (depth * draftMs + missed) * pace(step),
        verifyMs: (1 + proposed * rowMs) * pace(step),
      };
      chooser.learn(choice, outcome);
      tokens += accepted + 1;
      spentMs += outcome.draftMs + outcome.verifyMs;
    }
  }
  return { choices, speedup: tokens / spentMs };
}

const lengths = (choices: readonly (ResolvedPolicy | undefined)[]): number[] =>
  choices.map((policy) => (policy === undefined ? 0 : policy.kind === 'chain' ? policy.length : -1));

describe('the adaptive policy', () => {
  it('drafts long where drafts are cheap and accepted', () => {
    const { choices, speedup } = play([[400, { rate: 0.9, draftMs: 0.05, rowMs: 0.01 }]]);
    expect(
      lengths(choices)
        .slice(-50)
        .filter((length) => length === 4).length,
    ).toBeGreaterThan(40);
    expect(speedup).toBeGreaterThan(2.5);
  });

  it('does not take what a drafter has missed for the price of a draft', () => {
    const { choices } = play([[600, { rate: 0.8, draftMs: 0.1, rowMs: 0.05, catchUpMs: 40 }]]);
    expect(
      lengths(choices)
        .slice(-50)
        .filter((length) => length > 2).length,
    ).toBeGreaterThan(40);
  });

  it('does not mistake a growing context for a dearer choice', () => {
    // Requests of 50 steps, each ending at twice the price of its beginning; drafting gains a tenth.
    const pace = (step: number): number => 1 + (step % 50) / 50;
    const gains = [1, 2, 3, 4].map((seed) => {
      const { choices } = play([[3000, { rate: 0.6, draftMs: 0.2, rowMs: 0.13, pace }]], seed);
      return lengths(choices)
        .slice(-1000)
        .filter((length) => length > 0).length;
    });
    expect(Math.min(...gains)).toBeGreaterThan(800);
  });

  it('tries ever more rarely what does not pay', () => {
    const { choices } = play([[4000, { rate: 0.02, draftMs: 0.3, rowMs: 0.3 }]]);
    const drafts = (from: number, to: number) =>
      lengths(choices)
        .slice(from, to)
        .filter((length) => length !== 0).length;
    expect(drafts(40, 1040)).toBeGreaterThan(3);
    expect(drafts(3000, 4000)).toBeLessThanOrEqual(6);
  });

  it('turns speculation off where it does not pay, at less than 5% cost', () => {
    const { choices, speedup } = play([[2000, { rate: 0.15, draftMs: 0.2, rowMs: 0.3 }]]);
    expect(
      lengths(choices)
        .slice(-200)
        .filter((length) => length === 0).length,
    ).toBeGreaterThan(190);
    expect(speedup).toBeGreaterThan(0.95);
  });

  it('comes back when the text becomes easy again', () => {
    const hard = { rate: 0.05, draftMs: 0.2, rowMs: 0.2 };
    const easy = { rate: 0.95, draftMs: 0.1, rowMs: 0.05 };
    const { choices } = play([
      [300, hard],
      [1500, easy],
    ]);
    expect(
      lengths(choices)
        .slice(250, 300)
        .filter((length) => length === 0).length,
    ).toBeGreaterThan(45);
    expect(
      lengths(choices)
        .slice(-50)
        .filter((length) => length > 2).length,
    ).toBeGreaterThan(40);
  });

  it('stays within the depth of the drafter', () => {
    const chooser = createAdaptivePolicy({ maximumDepth: 2, vocabularySize: 100 });
    for (let step = 0; step < 50; step++) {
      const choice = chooser.choose();
      const { policy } = choice;
      if (policy?.kind === 'chain') expect(policy.length).toBeLessThanOrEqual(2);
      expect(policy?.kind).not.toBe('dynamic');
      chooser.learn(choice, { proposed: 2, accepted: 2, depth: 2, draftMs: 0.1, verifyMs: 1 });
    }
  });
});
