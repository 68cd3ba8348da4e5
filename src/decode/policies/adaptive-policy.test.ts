import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { AdaptivePolicy } from './adaptive-policy.js';
import type { PolicyChooser } from './policy-chooser.js';
import { always } from './policy-chooser.js';
import type { BatchRun, BatchWorld } from '../../../test/support/decode/simulated-batch.js';
import { runBatch } from '../../../test/support/decode/simulated-batch.js';

const drafter = { maximumDepth: Infinity, vocabularySize: 100, parameterCount: 1000 };
const plain: PolicyChooser = {
  chainLengths: [],
  choose: () => ({ policy: undefined }),
  learn: () => undefined,
};
const fixed = [plain, ...[1, 2, 3, 4].map((length) => always({ kind: 'chain', length }))];

interface Costs {
  readonly rate: number;
  readonly draftMs: number; // a level
  readonly rowMs: number; // a verified row beyond the first
}

const alone = ({ rate, draftMs, rowMs }: Costs, changes: Partial<BatchWorld> = {}): BatchWorld => ({
  lanes: 1,
  rate: () => rate,
  verifyMs: (_, rows) => 1 + (rows - 1) * rowMs,
  draftMs: (_, levels) => Math.abs(levels) * draftMs,
  ...changes,
});

/** A CPU: a pass over several rows is cheap for one sequence and expensive for eight. */
const measured = (lanes: number, rate: number): BatchWorld => ({
  lanes,
  rate: () => rate,
  verifyMs: (count, rows) => 4.5 + 0.4 * count + 0.85 * count * rows,
  draftMs: (count, levels) => (0.9 + 0.8 * Math.abs(levels)) * (1 + 0.35 * (count - 1)),
});

const run = (
  world: BatchWorld,
  steps: number,
  seed = 1,
  chooser: PolicyChooser = new AdaptivePolicy(drafter),
): BatchRun => runBatch(chooser, world, steps, createRandom(seed, 'world'));

/** Speed over that of the best fixed policy, where any draft makes a step dear, but a longer one hardly dearer. */
function onGpu(rate: number, changes: Partial<BatchWorld>, seed: number): number {
  const noise = createRandom(seed, 'noise');
  const world: BatchWorld = {
    lanes: 1,
    rate: () => rate,
    verifyMs: (_, rows) => (rows === 1 ? 1 : 1.7 + 0.02 * rows),
    draftMs: (_, levels) => 0.12 * Math.abs(levels),
    pace: () => 0.95 + 0.1 * noise.next(),
    requestSteps: 40,
    ...changes,
  };
  const best = Math.max(...fixed.map((policy) => run(world, 5000, seed, policy).speed));
  return run(world, 5000, seed).speed / best;
}

const countDrafts = (choices: readonly number[]): number => choices.filter((levels) => levels !== 0).length;

describe('the adaptive policy', () => {
  it('drafts long where drafts are cheap and accepted', () => {
    const { choices, speed } = run(alone({ rate: 0.9, draftMs: 0.05, rowMs: 0.01 }), 400);
    expect(choices.slice(-50).filter((levels) => levels === 4).length).toBeGreaterThan(40);
    expect(speed).toBeGreaterThan(2.5);
  });

  it('does not take what a drafter has missed for the cost of a draft', () => {
    const world = alone({ rate: 0.8, draftMs: 0.1, rowMs: 0.05 }, { catchUpMs: 40 });
    expect(
      run(world, 600)
        .choices.slice(-100)
        .filter((levels) => levels > 2).length,
    ).toBeGreaterThan(70);
  });

  it('drafts where that pays for reading, once, what the drafter has missed', () => {
    for (const seed of [3, 4]) expect(onGpu(0.65, { catchUpMs: 1.5 }, seed)).toBeGreaterThan(0.96);
  });

  it('does not take what a first run prepares for the cost of a choice', () => {
    const shares = [1, 2, 3, 4].map((seed) => onGpu(0.69, { catchUpMs: 4, coldMs: 10 }, seed));
    expect(Math.min(...shares)).toBeGreaterThan(0.95);
    expect(shares.reduce((sum, share) => sum + share) / shares.length).toBeGreaterThan(0.97);
  });

  it('learns from steps that are cold each time', () => {
    const chooser = new AdaptivePolicy(drafter);
    let drafts = 0;
    for (let step = 0; step < 400; step++) {
      const choice = chooser.choose();
      const depth = choice.policy?.kind === 'chain' ? choice.policy.length : choice.policy ? 3 : 0;
      const outcome = { proposed: depth, accepted: 0, depth, draftMs: depth, verifyMs: 9, isCold: true };
      chooser.learn(choice, outcome);
      if (step >= 300 && depth > 0) drafts += 1;
    }
    expect(drafts).toBeLessThan(20);
  });

  it('does not take a longer context, or the end of one, for the cost of a choice', () => {
    // Requests of 50 steps, each ending at twice the cost of its beginning.
    const pace = (step: number): number => 1 + (step % 50) / 50;
    for (const rate of [0.6, 0.9]) {
      const world = alone({ rate, draftMs: 0.2, rowMs: 0.13 }, { pace, requestSteps: 50 });
      const best = Math.max(...fixed.map((policy) => run(world, 2000, 1, policy).speed));
      const shares = [1, 2].map((seed) => run(world, 2000, seed).speed / best);
      expect(Math.min(...shares), `rate ${rate}`).toBeGreaterThan(0.95);
    }
  });

  it('turns speculation off where it does not pay, at less than 5 % cost', () => {
    const { choices, speed } = run(alone({ rate: 0.15, draftMs: 0.2, rowMs: 0.3 }), 2000);
    expect(countDrafts(choices.slice(-200))).toBeLessThan(10);
    expect(speed).toBeGreaterThan(0.95);
  });

  it('comes back when the text becomes easy again', () => {
    const world = alone(
      { rate: 0, draftMs: 0.1, rowMs: 0.1 },
      { rate: (_, step) => (step < 300 ? 0.05 : 0.95) },
    );
    const { choices } = run(world, 1500);
    expect(countDrafts(choices.slice(200, 300))).toBeLessThan(20);
    expect(choices.slice(-50).filter((levels) => levels > 2).length).toBeGreaterThan(40);
  });

  it('is not misled by a slow first pass', () => {
    for (const slow of [0, 1, 3, 4]) {
      const pace = (step: number): number => (step === slow ? 10 : 1);
      const world = alone({ rate: 0.8, draftMs: 0.1, rowMs: 0.05 }, { pace });
      expect(countDrafts(run(world, 400).choices.slice(-100))).toBeGreaterThan(90);
    }
  });

  it('stays within the depth of the drafter', () => {
    const chooser = new AdaptivePolicy({ ...drafter, maximumDepth: 2 });
    expect(chooser.chainLengths).toEqual([1, 2]);
    expect(chooser.trees).toEqual([]);
    const { choices } = run(alone({ rate: 1, draftMs: 0, rowMs: 0 }), 50, 1, chooser);
    expect(Math.max(...choices)).toBe(2);
  });

  it('has longer chains where the drafter has no weights', () => {
    const weightless = { ...drafter, parameterCount: 0, isChainOnly: true };
    const world = alone({ rate: 0.98, draftMs: 0, rowMs: 0.01 });
    const { choices } = run(world, 300, 1, new AdaptivePolicy(weightless));
    expect(choices.slice(-50).filter((levels) => levels === 8).length).toBeGreaterThan(35);
  });
});

describe('the adaptive policy with several sequences', () => {
  it('makes one decision for all sequences of a pass', () => {
    const chooser = new AdaptivePolicy(drafter);
    const outcome = { proposed: 0, accepted: 0, depth: 0, draftMs: 1, verifyMs: 9 };
    let chosen = Array.from({ length: 8 }, () => chooser.choose());
    for (let round = 0; round < 60; round++) {
      expect(new Set(chosen.map(({ policy }) => policy)).size).toBe(1);
      chosen = chosen.map((choice) => {
        const batch = { pass: round, batchSize: 8, rows: 1, stepMs: 10 };
        chooser.learn(choice, { ...outcome, batch });
        return chooser.choose();
      });
    }
  });

  it('does not draft where drafts pay alone but not for eight', () => {
    expect(countDrafts(run(measured(1, 0.65), 400).choices)).toBeGreaterThan(320);
    expect(countDrafts(run(measured(8, 0.65), 400).choices)).toBeLessThan(40);
  });

  it('comes within 5 % of the best fixed policy, alone and with eight sequences', () => {
    for (const lanes of [1, 8]) {
      for (const rate of [0.2, 0.6, 0.9]) {
        const world = measured(lanes, rate);
        const best = Math.max(...fixed.map((policy) => run(world, 1500, 1, policy).speed));
        const speeds = [1, 2].map((seed) => run(world, 1500, seed).speed);
        const mean = speeds.reduce((sum, speed) => sum + speed) / speeds.length;
        expect(mean / best, `${lanes} sequences, rate ${rate}`).toBeGreaterThan(0.95);
      }
    }
  });

  it('does so on a machine whose passes scatter, and with drafters that often have nothing to propose', () => {
    for (const lanes of [1, 8]) {
      for (const proposals of [1, 0.5]) {
        const noise = createRandom(3, 'noise');
        const pace = (): number => (0.85 + 0.3 * noise.next()) * (noise.next() < 0.02 ? 4 : 1);
        const world = { ...measured(lanes, 0.7), proposals, pace };
        const best = Math.max(...fixed.map((policy) => run(world, 1000, 1, policy).speed));
        const speeds = [1, 2].map((seed) => run(world, 1000, seed).speed);
        const mean = speeds.reduce((sum, speed) => sum + speed) / speeds.length;
        expect(mean / best, `${lanes} sequences, ${proposals}`).toBeGreaterThan(0.93);
      }
    }
  });

  it('spends a bounded share of its steps on trials', () => {
    for (const lanes of [1, 8]) {
      const world = measured(lanes, 0.02);
      const { choices, speed } = run(world, 2500);
      expect(countDrafts(choices.slice(1000))).toBeLessThan(0.03 * 1500);
      expect(speed / run(world, 2500, 1, plain).speed).toBeGreaterThan(0.97);
    }
  });

  it('loses less than 2 % to trials where drafts are accepted but too expensive', () => {
    const world: BatchWorld = {
      lanes: 8,
      rate: () => 0.6,
      verifyMs: (count, rows) => 4 + 2 * count * rows,
      draftMs: (count, levels) => Math.abs(levels) * count,
    };
    const speed = run(world, 6000).speed / run(world, 6000, 1, plain).speed;
    expect(speed).toBeGreaterThan(0.98);
  });

  it('is not misled by plain steps that were slow in the first trials', () => {
    for (const seed of [1, 2, 3]) {
      let plainSteps = 0;
      const world = measured(8, 0.65);
      const verifyMs = (count: number, rows: number): number =>
        world.verifyMs(count, rows) * (rows === 1 && (plainSteps += 1) <= 6 ? 2 : 1);
      expect(countDrafts(run({ ...world, verifyMs }, 600, seed).choices)).toBeLessThan(300);
    }
  });

  it('follows sequences that come and go', () => {
    const chooser = new AdaptivePolicy(drafter);
    const random = createRandom(1, 'world');
    for (let turn = 0; turn < 3; turn++) {
      runBatch(chooser, measured(8, 0.65), 60, random);
      runBatch(chooser, measured(1, 0.65), 60, random);
    }
    expect(countDrafts(runBatch(chooser, measured(8, 0.65), 100, random).choices)).toBeLessThan(15);
    expect(countDrafts(runBatch(chooser, measured(1, 0.65), 100, random).choices)).toBeGreaterThan(85);
  });

  it('does not learn costs from steps in which sequences join', () => {
    const chooser = new AdaptivePolicy(drafter);
    for (let batchSize = 1; batchSize <= 8; batchSize++) {
      const choice = chooser.choose();
      const depth = choice.policy?.kind === 'chain' ? choice.policy.length : 0;
      const outcome = { proposed: depth, accepted: depth, depth, draftMs: 1, verifyMs: 9 };
      // Plain steps seem slow because prompts are read in them.
      const batch = { pass: -batchSize, batchSize, rows: depth + 1, stepMs: depth === 0 ? 500 : 10 };
      chooser.learn(choice, { ...outcome, batch });
    }
    const { choices } = runBatch(chooser, measured(8, 0.65), 100, createRandom(1, 'world'));
    expect(countDrafts(choices)).toBeLessThan(40);
  });
});
