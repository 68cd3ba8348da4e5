/**
 * `auto`: how much to draft, from what steps really cost and bring on this machine. Each choice (plain, chains of
 * several lengths, a small tree) is worth the tokens it is expected to emit per millisecond:
 *
 *   chains   (1 + sum over d of P(d draft tokens accepted)) / cost    the probabilities are shared by all chains
 *   tree     (1 + mean accepted) / cost
 *   plain    1 / cost
 *
 * Costs are relative to those of the choice in use; acceptance decays, so the choice follows the text. What is not
 * chosen is tried again in bursts of a few steps, the first of which may have to read what the drafter has missed and
 * is not a measure of cost. Speculation that does not pay turns itself off and is tried again: the sooner when the last
 * burst paid, half as often after each one that did not. Accepted tokens never depend on the clock at temperature 0;
 * above it they do, in bytes though not in distribution, so fixed policies are the default there.
 */
import type { Drafter } from '../draft/drafter.js';
import type { ResolvedPolicy } from '../draft/grow-tree.js';
import type { DraftChoice, PolicyChooser, StepOutcome } from './policy-chooser.js';
import { StepCosts } from './step-costs.js';

interface Choice {
  readonly policy: ResolvedPolicy | undefined;
  readonly chainLength: number; // 0 for plain, -1 for a tree
  /** Decaying mean of accepted draft tokens; trees only. */
  accepted: number;
  tried: number;
  lastTried: number;
}

/** A choice as it was made: what it is worth must not depend on what other requests chose meanwhile. */
interface Decision extends DraftChoice {
  readonly choice: Choice;
  readonly isTrial: boolean;
  /** The step may have to read what the drafter has missed. */
  readonly mayCatchUp: boolean;
}

const acceptanceDecay = 0.99;
const burst = 3;
const probeEvery = 64;
const soonestProbe = 8;
const latestProbe = 1024;
/** At a tie the plain step is the one whose worth is certain. */
const certainty = 1.03;
/** Belief before any step: as if `priorSteps` had accepted with this rate at each depth. */
const priorRate = 0.6;
const priorSteps = 2;

export interface AdaptiveOptions {
  readonly chainLengths?: readonly number[];
  /** Nodes, rounds and width of the one tree that is tried; null for none. */
  readonly tree?: readonly [number, number, number] | null;
}

export function createAdaptivePolicy(
  drafter: Pick<Drafter, 'maximumDepth' | 'vocabularySize' | 'isChainOnly'>,
  { chainLengths = [3, 2, 4, 1], tree = [8, 2, 2] }: AdaptiveOptions = {},
): PolicyChooser {
  const choices = listChoices(drafter, chainLengths, tree);
  const plain = choices.find(({ chainLength }) => chainLength === 0)!;
  const acceptance = new DepthAcceptance();
  const costs = new StepCosts<Choice>();
  const trial = { left: 0, tokens: 0, ms: 0 };
  let step = 0;
  let probes = 0;
  let interval = soonestProbe;
  let nextProbe = 0;
  let current = plain;

  const merit = (choice: Choice): number => {
    const cost = costs.costOf(choice);
    if (choice === plain) return certainty / cost;
    const tokens =
      choice.chainLength > 0 ? acceptance.expectedTokens(choice.chainLength) : 1 + choice.accepted;
    return tokens / cost;
  };
  const best = (among: readonly Choice[] = choices): Choice =>
    among.reduce((most, choice) => (merit(choice) > merit(most) ? choice : most));

  /** First what was never tried; then mostly what is closest to winning, at times what was not tried for longest. */
  const chooseTrial = (): Choice => {
    const untried = choices.find(({ tried }) => tried < burst);
    if (untried !== undefined) return untried;
    probes += 1;
    const winner = best();
    const others = choices.filter((choice) => choice !== winner);
    if (others.length === 0) return plain;
    // Where drafting wins, any other choice costs little; where plain steps win, a long draft costs much.
    if (probes % (winner === plain ? 4 : 2) === 0)
      return others.reduce((oldest, choice) => (choice.lastTried < oldest.lastTried ? choice : oldest));
    return others.includes(plain) ? plain : best(others);
  };

  const scheduleProbe = (): void => {
    if (choices.some(({ tried }) => tried < burst)) return;
    if (best() !== plain) interval = probeEvery;
    else if (current !== plain) {
      const paid = trial.tokens * costs.costOf(plain) * costs.pace > trial.ms;
      interval = paid ? soonestProbe : Math.min(2 * interval, latestProbe);
    }
    nextProbe = step + interval;
  };

  return {
    chainLengths: choices.flatMap(({ chainLength }) => (chainLength > 0 ? [chainLength] : [])),
    trees: choices.flatMap(({ policy }) => (policy?.kind === 'dynamic' ? [policy] : [])),
    choose(): Decision {
      step += 1;
      const before = current;
      if (trial.left === 0 && step > nextProbe) {
        Object.assign(trial, { left: burst, tokens: 0, ms: 0 });
        current = chooseTrial();
      } else if (trial.left === 0) current = best();
      current.lastTried = step;
      const { policy } = current;
      const mayCatchUp = current !== plain && before !== current;
      return { policy, choice: current, isTrial: trial.left > 0, mayCatchUp };
    },
    learn(made: DraftChoice, outcome: StepOutcome) {
      const { choice, isTrial, mayCatchUp } = made as Decision;
      const ms = outcome.draftMs + outcome.verifyMs;
      choice.tried += 1;
      if (!mayCatchUp && isTrial) costs.measure(choice, ms);
      else if (!mayCatchUp) costs.keepPace(choice, ms);
      if (choice.chainLength > 0) acceptance.learn(outcome);
      else if (choice.chainLength < 0) {
        const weight = Math.max(1 / choice.tried, 1 - acceptanceDecay);
        choice.accepted += weight * (outcome.accepted - choice.accepted);
      }
      if (!isTrial || trial.left === 0) return;
      trial.left -= 1;
      trial.tokens += outcome.accepted + 1;
      trial.ms += ms;
      if (trial.left === 0) scheduleProbe();
    },
  };
}

function listChoices(
  {
    maximumDepth,
    vocabularySize,
    isChainOnly = false,
  }: Pick<Drafter, 'maximumDepth' | 'vocabularySize' | 'isChainOnly'>,
  chainLengths: readonly number[],
  tree: readonly [number, number, number] | null,
): readonly Choice[] {
  const empty = { accepted: 0, tried: 0, lastTried: 0 };
  const chains = chainLengths
    .filter((length) => length <= maximumDepth)
    .map((length) => ({
      policy: { kind: 'chain', length } as const,
      chainLength: length,
      ...empty,
    }));
  const plain = { policy: undefined, chainLength: 0, ...empty };
  const [longest, ...others] = chains;
  const trees: Choice[] = [];
  if (!isChainOnly && tree !== null && tree[1] + 1 <= maximumDepth && tree[2] <= vocabularySize) {
    const policy = { kind: 'dynamic', total: tree[0], depth: tree[1], topK: tree[2] } as const;
    trees.push({ policy, chainLength: -1, ...empty });
  }
  return longest === undefined ? [plain] : [longest, plain, ...others, ...trees];
}

/** P(the first d draft tokens of a chain are all accepted), from conditional rates with decaying counts. */
class DepthAcceptance {
  private readonly reached: number[] = [];
  private readonly tried: number[] = [];

  learn({ accepted, depth }: StepOutcome): void {
    for (let level = 0; level < Math.min(accepted + 1, depth); level++) {
      this.reached[level] = (this.reached[level] ?? 0) * acceptanceDecay + Number(accepted > level);
      this.tried[level] = (this.tried[level] ?? 0) * acceptanceDecay + 1;
    }
  }

  expectedTokens(length: number): number {
    let survival = 1;
    let tokens = 1;
    for (let level = 0; level < length; level++) {
      const reached = (this.reached[level] ?? 0) + priorRate * priorSteps;
      survival *= reached / ((this.tried[level] ?? 0) + priorSteps);
      tokens += survival;
    }
    return tokens;
  }
}
