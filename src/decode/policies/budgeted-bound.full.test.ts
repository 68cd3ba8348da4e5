/** The promise of the guarded policy on a simulated clock, held against every step of thousands of requests. */
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { BudgetedPolicy, type Rung } from './budgeted-policy.js';
import type { Weather } from '../../../test/support/decode/simulated-decoding.js';
import { drawWorld, simulate } from '../../../test/support/decode/simulated-decoding.js';

const slowdown = 0.05;
const grant = 8;
const requests = 500;
const length = 4;
const createLadder = (floor: number): Rung[] =>
  [0, 1, 2].map(() => ({ policy: { kind: 'chain', length }, floor }));

interface Played {
  /** The most by which the bound was broken, in plain steps, and as a part of the tokens until then. */
  readonly steps: number;
  readonly part: number;
}

/** Requests of which nobody, everybody or a few are watched by a test beside the account. */
function play(seed: number, weather: Weather): Played {
  const world = drawWorld(createRandom(seed, 'bound'), weather);
  let current = 0;
  const policy = new BudgetedPolicy(createLadder([0, 0.3, 0.6][seed % 3]!), {
    ...{ slowdown, grant },
    use: (drafter) => (current = drafter),
  });
  const made = simulate(policy, () => current, 400, world);
  const sum = { cost: 0, tokens: 0, dearest: 0 };
  const worst = { steps: 0, part: 0 };
  for (const [step, { cost, tokens, drafter }] of made.entries()) {
    sum.cost += cost;
    sum.tokens += tokens;
    if (drafter !== undefined) sum.dearest = Math.max(sum.dearest, cost);
    // A dozen steps until it is seen what drafts cost in other company.
    const stale = 12 * length * (world.rowCostChange?.(step) ?? 0);
    const excess = sum.cost - ((1 + slowdown) * sum.tokens + grant + sum.dearest + stale);
    worst.steps = Math.max(worst.steps, excess);
    worst.part = Math.max(worst.part, excess / sum.tokens);
  }
  return worst;
}

function playAll(weather: Weather): { readonly broken: number; readonly part: number } {
  const played = Array.from({ length: requests }, (_, seed) => play(seed, weather));
  return {
    broken: played.filter(({ steps }) => steps > 1e-9).length / requests,
    part: Math.max(...played.map(({ part }) => part)),
  };
}

const calm = { spread: 0, hiccups: 0, hasCompany: false };

describe('the bound of the guarded policy', () => {
  it('holds exactly where passes of a kind take the same time, whatever drafts and pace do', () => {
    expect(playAll(calm).broken).toBe(0);
  });

  it.each([0.1, 0.2, 0.4])('holds up to that part where passes scatter by %d', (spread) => {
    const { broken, part } = playAll({ ...calm, spread });
    expect(broken).toBeLessThan(0.05);
    expect(part).toBeLessThan(spread);
  });

  it('is rarely broken where passes take twice to twenty times as long now and then', () => {
    const { broken, part } = playAll({ ...calm, spread: 0.2, hiccups: 0.03 });
    expect(broken).toBeLessThan(0.05);
    expect(part).toBeLessThan(0.5);
  });

  it('holds but for the steps until it is seen what drafts cost, where others come and go', () => {
    expect(playAll({ ...calm, hasCompany: true }).broken).toBeLessThan(0.01);
    expect(playAll({ ...calm, spread: 0.2, hasCompany: true }).part).toBeLessThan(0.2);
  });

  it('holds for one of two that share their passes, and leaves the other alone', () => {
    const rates = [0, 0.8];
    const random = createRandom(1, 'two');
    const moves = rates.map((): number[] => []);
    const policies = moves.map(
      (list) =>
        new BudgetedPolicy(createLadder(0).slice(0, 1), {
          slowdown,
          grant,
          onSwitch: ({ step }) => list.push(step),
        }),
    );
    const sums = rates.map(() => ({ cost: 0, tokens: 0, dearest: 0 }));
    for (let step = 0; step < 400; step++) {
      const choices = policies.map((policy) => policy.choose());
      const lengths = choices.map(({ policy }) => (policy === undefined ? 0 : length));
      // One pass for both, as wide as the wider one.
      const verifyMs = 4 * (1 + 0.1 * Math.max(...lengths));
      policies.forEach((policy, index) => {
        const proposed = lengths[index]!;
        const draftMs = 4 * 0.15 * proposed;
        let accepted = 0;
        while (accepted < proposed && random.next() < rates[index]!) accepted += 1;
        // Whoever does not draft waits for the one that does, which is none of its own time.
        const waited = { draftMs: 4 * 0.15 * Math.max(...lengths), verifyMs };
        const outcome = { proposed, accepted, depth: proposed, ...waited, own: { draftMs, verifyMs } };
        policy.learn(choices[index]!, outcome);
        const beside = 4 * (1 + 0.1 * lengths[1 - index]!);
        const sum = sums[index]!;
        const cost = proposed === 0 ? 1 : (draftMs + verifyMs) / beside;
        sum.cost += cost;
        sum.tokens += accepted + 1;
        sum.dearest = Math.max(sum.dearest, cost);
        expect(sum.cost).toBeLessThan((1 + slowdown) * sum.tokens + grant + sum.dearest);
      });
    }
    expect(moves[0]!.length).toBeGreaterThan(0);
    expect(moves[1]).toEqual([]);
  });

  it('is one that an unguarded chain breaks', () => {
    const world = drawWorld(createRandom(1, 'bound'), calm);
    const policy = { chainLengths: [], choose: () => createLadder(0)[0]!, learn: () => undefined };
    const made = simulate(policy, () => 0, 400, { ...world, accept: () => 0 });
    const cost = made.reduce((sum, step) => sum + step.cost, 0);
    expect(cost).toBeGreaterThan((1 + slowdown) * made.length + grant + made[0]!.cost);
  });
});
