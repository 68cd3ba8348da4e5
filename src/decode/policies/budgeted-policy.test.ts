import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import type { BudgetOptions, Rung, RungChange } from './budgeted-policy.js';
import { BudgetedPolicy } from './budgeted-policy.js';

const ladder: readonly Rung[] = [
  { policy: { kind: 'chain', length: 4 }, floor: 0.3 },
  { policy: { kind: 'chain', length: 2 }, floor: 0.3 },
];

interface World {
  /** Chance of a draft token, by drafter and step. */
  readonly rate: (drafter: number, step: number) => number;
  readonly draftMs?: number; // a level
  readonly rowMs?: number;
  readonly catchUpMs?: number; // a step missed
  readonly pace?: (step: number) => number;
}

/** One request of so many steps in a world with known costs; the excess over plain decoding after each step, in plain steps. */
function play(steps: number, world: World, options: Partial<BudgetOptions> = {}, rungs = ladder) {
  const { rate, draftMs = 0.15, rowMs = 0.05, catchUpMs = 0, pace = () => 1 } = world;
  const random = createRandom(1, 'guarded');
  const switches: RungChange[] = [];
  let drafter = 0;
  const policy = new BudgetedPolicy(rungs, {
    use: (place) => (drafter = place),
    onSwitch: (change) => switches.push(change),
    ...options,
  });
  const excess: number[] = [];
  const drafters: (number | undefined)[] = [];
  let missed = 0;
  let tokens = 0;
  let spent = 0; // in plain steps of the moment
  let plainSpent = 0;
  for (let step = 0; step < steps; step++) {
    const choice = policy.choose();
    const length = choice.policy?.kind === 'chain' ? choice.policy.length : 0;
    drafters.push(length > 0 ? drafter : undefined);
    let accepted = 0;
    while (accepted < length && random.next() < rate(drafter, step)) accepted += 1;
    const slower = pace(step);
    const outcome = {
      ...{ proposed: length, accepted, depth: length },
      draftMs: (length * draftMs + (length > 0 ? missed * catchUpMs : 0)) * slower,
      verifyMs: (1 + length * rowMs) * slower,
    };
    missed = length > 0 ? 0 : missed + 1;
    policy.learn(choice, outcome);
    tokens += accepted + 1;
    spent += outcome.draftMs + outcome.verifyMs;
    plainSpent += (accepted + 1) * slower;
    excess.push((spent - 1.05 * plainSpent) / slower);
  }
  return { excess, drafters, switches, speedup: plainSpent / spent, tokens };
}

const share = (drafters: readonly (number | undefined)[], drafter: number | undefined): number =>
  drafters.filter((used) => used === drafter).length / drafters.length;

describe('the guarded policy', () => {
  it('drafts with the first rung as long as it is accepted', () => {
    const { drafters, switches, speedup } = play(500, { rate: () => 0.75 });
    expect(switches).toEqual([]);
    expect(share(drafters, 0)).toBeGreaterThan(0.95);
    expect(speedup).toBeGreaterThan(1.4);
  });

  it('is never more than its share slower than plain decoding, and some steps', () => {
    for (const draftMs of [0.02, 0.3, 2]) {
      for (const rate of [0, 0.05, 0.3, 0.6]) {
        const { excess } = play(3000, { rate: () => rate, draftMs });
        const price = 4 * draftMs + 4 * 0.05; // of the dearest draft beyond its verification's plain step
        expect(Math.max(...excess)).toBeLessThan(8 + price);
      }
    }
  });

  it('keeps that bound when the pace changes, when drafters have to catch up, and in attacks that come and go', () => {
    const waves = (step: number): number => (Math.floor(step / 40) % 2 === 0 ? 0.9 : 0);
    const worlds: World[] = [
      { rate: () => 0.02, pace: (step) => 1 + step / 1000 },
      { rate: (_, step) => waves(step), draftMs: 0.4 },
      { rate: () => 0, catchUpMs: 0.05 },
    ];
    for (const world of worlds) {
      const { excess } = play(3000, world);
      expect(Math.max(...excess)).toBeLessThan(8 + 4);
      expect(excess.at(-1)!).toBeLessThan(8);
    }
  });

  it('goes to another drafter when one collapses, and stays with it', () => {
    const { drafters, switches } = play(600, { rate: (drafter) => (drafter === 0 ? 0.02 : 0.75) });
    expect(switches[0]).toMatchObject({ from: 0, to: 1 });
    expect(switches[0]!.step).toBeLessThan(60);
    // Where drafts cost next to nothing the account is patient, and evidence decides.
    const cheap = play(600, {
      rate: (drafter) => (drafter === 0 ? 0.02 : 0.75),
      draftMs: 0.001,
      rowMs: 0.001,
    });
    expect(cheap.switches[0]).toMatchObject({ from: 0, to: 1, reason: 'evidence' });
    expect(share(drafters.slice(60), 1)).toBeGreaterThan(0.9);
  });

  it('ends at plain steps when all collapse, probes ever more rarely, and comes back when drafts do', () => {
    const all = play(4000, { rate: () => 0.02 });
    expect(share(all.drafters.slice(1000), undefined)).toBeGreaterThan(0.97);
    const probes = all.switches.filter(({ reason }) => reason === 'probe').map(({ step }) => step);
    expect(probes.length).toBeGreaterThan(2);
    expect(probes.length).toBeLessThan(10);
    expect(all.speedup).toBeGreaterThan(0.95);

    const back = play(2000, { rate: (_, step) => (step < 300 ? 0.02 : 0.8) });
    expect(share(back.drafters.slice(-500), 0)).toBeGreaterThan(0.9);
  });

  it('comes back from another drafter to its own when that is the better one again, and not when it is worse', () => {
    const rate = (own: number) => (drafter: number, step: number) =>
      drafter === 1 ? 0.6 : step < 60 ? 0 : own;
    const better = play(900, { rate: rate(0.9) });
    expect(share(better.drafters.slice(-400), 0)).toBeGreaterThan(0.9);
    const worse = play(900, { rate: rate(0.3) });
    expect(share(worse.drafters.slice(-400), 1)).toBeGreaterThan(0.9);
  });

  it('leaves no rung for nothing more often than it may', () => {
    let left = 0;
    for (let seed = 0; seed < 300; seed++) {
      const random = createRandom(seed, 'usual');
      const policy = new BudgetedPolicy(ladder, {
        level: 0.05,
        onSwitch: ({ reason }) => (left += Number(reason === 'evidence')),
      });
      for (let step = 0; step < 150; step++) {
        const choice = policy.choose();
        const accepted = choice.policy !== undefined && random.next() < 0.3 ? 1 : 0;
        const proposed = choice.policy === undefined ? 0 : 4;
        policy.learn(choice, { proposed, accepted, depth: proposed, draftMs: 0, verifyMs: 1 });
      }
    }
    expect(left / 300).toBeLessThan(0.05 + 3 * Math.sqrt((0.05 * 0.95) / 300));
  });

  it('passes over a drafter for which reading the prompt would cost too much, and charges no other for it', () => {
    const takenAfter = (promptMs: number) => {
      const taken: (number | undefined)[] = [];
      const rungs = [0, 1, 2].map((drafter) => ({
        ...ladder[0]!,
        floor: 0,
        readingShare: drafter === 1 ? 0.5 : 0,
      }));
      const policy = new BudgetedPolicy(rungs, { onSwitch: ({ to }) => taken.push(to) });
      let hasRead = false;
      for (let step = 0; step < 100 && taken.length < 2; step++) {
        const choice = policy.choose();
        if (step === 0) policy.begin(promptMs);
        const proposed = choice.policy === undefined ? 0 : 4;
        const reading: number = choice.drafter === 1 && !hasRead ? promptMs / 2 : 0;
        hasRead ||= reading > 0;
        const draftMs = proposed / 4 + reading;
        policy.learn(choice, { proposed, accepted: 0, depth: proposed, draftMs, verifyMs: 1 });
        if (reading > 0) expect(taken).toEqual([1]);
      }
      return taken;
    };
    expect(takenAfter(14)).toEqual([1, 2]);
    expect(takenAfter(18)[0]).toBe(2);
  });

  it('is plain decoding without rungs, and refuses what is no budget', () => {
    const { drafters } = play(20, { rate: () => 1 }, {}, []);
    expect(share(drafters, undefined)).toBe(1);
    expect(() => new BudgetedPolicy(ladder, { slowdown: 0 })).toThrow(/slowdown 0/);
  });
});
