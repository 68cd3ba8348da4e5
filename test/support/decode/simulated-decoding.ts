/**
 * One request on a simulated clock: what passes cost is drawn, the pace drifts, and the acceptance of drafts is as bad as somebody
 * wants it to be. Times are known exactly, so that what a policy promises can be held against every single step.
 */
import type { Random } from '../../../src/core/random.js';
import type { PolicyChooser } from '../../../src/decode/policies/policy-chooser.js';

export interface SimulatedWorld {
  /** A plain step at this step, in milliseconds, without chance. */
  readonly plainMs: (step: number) => number;
  /** What a draft token more costs in the verifying pass, and what a level of drafting costs, in plain steps. */
  readonly rowCost: (step: number) => number;
  readonly levelCost: (drafter: number, step: number) => number;
  /** What a drafter pays for a step that it did not draft in. */
  readonly catchUpCost: (drafter: number) => number;
  /** A factor on the time of a pass, 1 on average. */
  readonly noise: () => number;
  /** How many of so many draft tokens are accepted. */
  readonly accept: (drafter: number, length: number, step: number) => number;
  /** How much what a draft token costs in the verifying pass has changed until this step, all changes added up; 0 unless given. */
  readonly rowCostChange?: (step: number) => number;
}

export interface SimulatedStep {
  /** Undefined for a plain step. */
  readonly drafter: number | undefined;
  readonly tokens: number;
  /** In plain steps of the moment. Passes of the target count without chance, which they have with and without drafts. */
  readonly cost: number;
}

/** `current`: the drafter that the policy has chosen last. */
export function simulate(
  policy: PolicyChooser,
  current: () => number,
  steps: number,
  world: SimulatedWorld,
): readonly SimulatedStep[] {
  const lastDrafted = new Map<number, number>();
  return Array.from({ length: steps }, (_, step) => {
    const choice = policy.choose();
    const length = choice.policy?.kind === 'chain' ? choice.policy.length : 0;
    const drafter = length > 0 ? current() : undefined;
    const plainMs = world.plainMs(step);
    let draftMs = 0;
    let accepted = 0;
    if (drafter !== undefined) {
      const missed = step - 1 - (lastDrafted.get(drafter) ?? -1);
      lastDrafted.set(drafter, step);
      const reading = missed * world.catchUpCost(drafter);
      draftMs = plainMs * (length * world.levelCost(drafter, step) + reading) * world.noise();
      accepted = world.accept(drafter, length, step);
    }
    const verifying = 1 + length * world.rowCost(step);
    const verifyMs = plainMs * verifying * world.noise();
    policy.learn(choice, { proposed: length, accepted, depth: length, draftMs, verifyMs });
    return { drafter, tokens: accepted + 1, cost: verifying + draftMs / plainMs };
  });
}

export interface Weather {
  /** Most by which a pass is quicker or slower than usual, as a part. */
  readonly spread: number;
  /** The share of passes that take two to twenty times as long, at most. */
  readonly hiccups: number;
  /** Whether others come and go beside it. */
  readonly hasCompany: boolean;
}

/** A world that is drawn as a whole. */
export function drawWorld(random: Random, weather: Weather): SimulatedWorld {
  const between = (least: number, most: number): number => least + (most - least) * random.next();
  const spread = between(0, weather.spread);
  const hiccups = between(0, weather.hiccups);
  const drift = between(-0.004, 0.004);
  const spell = { every: 20 + random.nextInteger(200), factor: between(1, 5) };
  const rowCosts = [between(0, 0.3), between(0, 0.3)];
  const levelCosts = [between(0, 0.8), between(0, 0.3), between(0, 0.02)];
  const catchUps = [between(0, 0.2), between(0, 0.2), 0];
  const company = 30 + random.nextInteger(200);
  /** Beside others a draft costs less than alone, and who is there changes. */
  const changes = (step: number): number => (weather.hasCompany ? Math.floor(step / company) : 0);
  const turn = (step: number): number => changes(step) % 2;
  return {
    plainMs: (step) =>
      4 * Math.exp(drift * step) * (Math.floor(step / spell.every) % 3 === 2 ? spell.factor : 1),
    rowCost: (step) => rowCosts[turn(step)]!,
    levelCost: (drafter, step) => levelCosts[drafter % 3]! * (turn(step) === 1 ? 0.2 : 1),
    catchUpCost: (drafter) => catchUps[drafter % 3]!,
    noise: () => {
      const usual = 1 - spread + 2 * spread * random.next();
      return random.next() < hiccups ? usual * between(2, 20) : usual;
    },
    accept: drawAttack(random),
    rowCostChange: (step) => changes(step) * Math.abs(rowCosts[0]! - rowCosts[1]!),
  };
}

/** From steady rates to drafts that succeed as long as it takes to be trusted. */
function drawAttack(random: Random): SimulatedWorld['accept'] {
  const rate = random.next() ** 2;
  const wave = 1 + random.nextInteger(80);
  const good = random.nextInteger(200);
  const draw = (length: number, chance: number): number => {
    let accepted = 0;
    while (accepted < length && random.next() < chance) accepted += 1;
    return accepted;
  };
  const attacks: readonly SimulatedWorld['accept'][] = [
    () => 0,
    (_, length) => draw(length, rate),
    (_, length, step) => (Math.floor(step / wave) % 2 === 0 ? length : 0),
    (_, length, step) => (step < good ? length : 0),
    (drafter, length) => draw(length, drafter === 0 ? 0 : 0.7),
    // The first token alone, which a test of acceptance takes for success.
    (_, length) => draw(Math.min(1, length), 0.9),
  ];
  return attacks[random.nextInteger(attacks.length)]!;
}
