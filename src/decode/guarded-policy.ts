/**
 * Drafting that cannot be turned against the one who pays for it. A request begins on the first rung of a ladder (a drafter
 * and how much to draft); a sequential test watches whether drafts are accepted as they should be, and on evidence of a
 * collapse the next rung is taken: another drafter, a shorter chain, and behind the last rung plain steps. From there
 * the first rung is probed again, in short bursts and ever more rarely while they do not pay.
 *
 * Beside the test, which needs some steps to be sure, there is an account that needs nothing to be believed. Every token is worth
 * (1 + slowdown) plain steps to it, every step costs what it took, and no draft is begun that the account could not pay
 * for if not a single draft token were accepted. It begins with `grant` plain steps, an equal part for each rung, and a rung
 * that has used up its part is left. Hence at every moment
 *
 *   time so far  <=  (1 + slowdown) x tokens x plain step  +  grant x plain step  +  what one step took beyond its price
 *
 * whatever the drafts do; plain steps are priced by plain steps, measured now and then at the pace of the moment (step-costs.ts).
 * What drafts earn is kept only up to a limit: a long good beginning does not pay for a long attack.
 * It holds one request's state: make one for each.
 */
import { MistletoeError } from '../core/errors.js';
import { ShareEvidence } from '../core/share-evidence.js';
import type { ResolvedPolicy } from '../draft/grow-tree.js';
import type { DraftChoice, PolicyChooser, StepOutcome } from './speculative.js';
import { StepCosts } from './step-costs.js';

export interface Rung {
  readonly policy: ResolvedPolicy;
  /** Of a rotating drafter, the place of the one that drafts. */
  readonly drafter?: number;
}

export interface GuardedOptions {
  /** The share of steps that accept a draft token at all, in the lowest of usual requests. */
  readonly floor: number;
  /** The chance that a usual request leaves a rung for nothing. */
  readonly level?: number;
  /** By which part a request may be slower than plain decoding. */
  readonly slowdown?: number;
  /** Plain steps that it may cost on top of that. */
  readonly grant?: number;
  /** Told before a step which drafter of a rotating one is meant. */
  readonly use?: (drafter: number) => void;
  /** Told when a rung is left or taken; undefined is plain. */
  readonly onSwitch?: (change: RungChange) => void;
}

export interface RungChange {
  readonly from: number | undefined;
  readonly to: number | undefined;
  readonly step: number;
  readonly reason: 'evidence' | 'account' | 'probe' | 'probe-failed';
}

interface Choice extends DraftChoice {
  readonly rung: number | undefined;
  readonly isTrial: boolean;
  /** Steps that the drafter has not drafted in and has to read now, which is not the price of a draft. */
  readonly missed: number;
}

const plain = -1;
const leastTrials = 3;
const plainEvery = 64;
const burst = 8;
const firstProbe = 32;
const latestProbe = 1024;
/** How many grants the account may hold. */
const mostGrants = 4;
/** What a rung is taken to cost before its first step, in plain steps. */
const unknownCost = 2;

export function createGuardedPolicy(ladder: readonly Rung[], options: GuardedOptions): PolicyChooser {
  const { floor, level = 0.01, slowdown = 0.05, grant = 8, use, onSwitch } = options;
  checkOptions({ level, slowdown, grant });
  const evidence = new ShareEvidence(floor);
  const costs = new StepCosts<number>();
  const tried = new Map<number, number>();
  /** [drafter] Its last step, and what a step that it missed costs it when it drafts again, in plain steps. */
  const lastSteps = new Map<number, number>();
  const catchUps = new Map<number, number>();
  const test = { steps: 0, accepted: 0 };
  const probe = { left: 0, tokens: 0, ms: 0, wait: firstProbe, next: Infinity };
  let rung: number | undefined = ladder.length > 0 ? 0 : undefined;
  let account = grant; // in plain steps
  const unsettled = { tokens: 0, ms: 0 }; // until a plain step has been seen
  let step = 0;
  let lastDrafted = true; // the drafter has read the prompt with the target
  let sincePlain = 0;

  const drafterOf = (place: number): number => ladder[place]?.drafter ?? 0;
  const missedBy = (place: number): number => step - 1 - (lastSteps.get(drafterOf(place)) ?? 0);
  const priceOf = (kind: number): number => {
    const price = costs.costOf(kind) / costs.costOf(plain);
    const known = Number.isFinite(price) ? price : unknownCost;
    return known + missedBy(kind) * (catchUps.get(drafterOf(kind)) ?? 0);
  };
  /** The worst a draft can bring is the one token that a plain step brings, too. */
  const canPay = (kind: number, reserve: number): boolean =>
    account - reserve >= priceOf(kind) - (1 + slowdown);
  /** What is left for the rungs behind this one. */
  const reserveOf = (place: number): number => grant * (1 - (place + 1) / ladder.length);
  const settle = (tokens: number, ms: number, plainMs: number): void => {
    unsettled.tokens += tokens;
    unsettled.ms += ms;
    if (!Number.isFinite(plainMs)) return;
    const gained = (1 + slowdown) * unsettled.tokens - unsettled.ms / plainMs;
    account = Math.min(account + gained, mostGrants * grant);
    Object.assign(unsettled, { tokens: 0, ms: 0 });
  };
  const move = (to: number | undefined, reason: RungChange['reason']): void => {
    onSwitch?.({ from: rung, to, step, reason });
    rung = to;
    Object.assign(test, { steps: 0, accepted: 0 });
  };
  const waitForProbe = (): void => {
    probe.next = step + probe.wait;
    probe.wait = Math.min(2 * probe.wait, latestProbe);
  };
  const leave = (reason: 'evidence' | 'account' | 'probe-failed'): void => {
    const isProbe = probe.left > 0;
    probe.left = 0;
    const next = isProbe || rung === undefined || rung + 1 >= ladder.length ? undefined : rung + 1;
    move(next, isProbe ? 'probe-failed' : reason);
    if (next === undefined) waitForProbe();
  };

  return {
    chainLengths: ladder.flatMap(({ policy }) => (policy.kind === 'chain' ? [policy.length] : [])),
    choose(): Choice {
      step += 1;
      if (rung === undefined && ladder.length > 0 && step >= probe.next) {
        Object.assign(probe, { left: burst, tokens: 0, ms: 0, next: Infinity });
        move(0, 'probe');
      }
      if (rung !== undefined && probe.left === 0 && !canPay(rung, reserveOf(rung))) leave('account');
      const isDue = ((tried.get(plain) ?? 0) < 1 && step > 1) || sincePlain >= plainEvery;
      if (rung === undefined || !canPay(rung, 0) || isDue) {
        const isTrial = rung !== undefined && lastDrafted;
        return { policy: undefined, rung: undefined, isTrial, missed: 0 };
      }
      const { policy, drafter } = ladder[rung]!;
      if (drafter !== undefined) use?.(drafter);
      const isTrial = (tried.get(rung) ?? 0) < leastTrials;
      return { policy, rung, isTrial, missed: missedBy(rung) };
    },
    learn(made: DraftChoice, outcome: StepOutcome) {
      const choice = made as Choice;
      const kind = choice.rung ?? plain;
      const ms = outcome.draftMs + outcome.verifyMs;
      if (choice.missed === 0) {
        if (choice.isTrial) costs.measure(kind, ms);
        else costs.keepPace(kind, ms);
        tried.set(kind, (tried.get(kind) ?? 0) + 1);
      }
      lastDrafted = choice.rung !== undefined;
      sincePlain = lastDrafted ? sincePlain + 1 : 0;
      const plainMs = costs.costOf(plain) * costs.pace;
      settle(outcome.accepted + 1, ms, plainMs);
      if (choice.missed > 0) {
        const beyond = Math.max(0, ms / plainMs - costs.costOf(kind) / costs.costOf(plain));
        if (Number.isFinite(beyond)) catchUps.set(drafterOf(kind), beyond / choice.missed);
      }
      if (choice.rung !== undefined) lastSteps.set(drafterOf(kind), step);
      if (choice.rung === undefined || choice.rung !== rung || outcome.proposed === 0) return;
      test.steps += 1;
      test.accepted += Math.min(outcome.accepted, 1);
      if (evidence.value(test.steps, test.accepted) >= 1 / level) {
        leave('evidence');
        return;
      }
      if (probe.left === 0) return;
      probe.left -= 1;
      probe.tokens += outcome.accepted + 1;
      probe.ms += choice.missed > 0 ? costs.costOf(kind) * costs.pace : ms;
      if (probe.left > 0) return;
      // A burst that pays keeps its rung, and the next fall is probed soon again.
      if (probe.tokens * plainMs > probe.ms) probe.wait = firstProbe;
      else {
        probe.left = 1; // leave as a probe
        leave('probe-failed');
      }
    },
  };
}

function checkOptions({
  level,
  slowdown,
  grant,
}: Required<Pick<GuardedOptions, 'level' | 'slowdown' | 'grant'>>): void {
  if (level > 0 && level < 1 && slowdown > 0 && slowdown <= 10 && grant >= 0 && Number.isFinite(grant))
    return;
  throw new MistletoeError(
    'usage',
    `The guarded policy has level ${level}, slowdown ${slowdown} and grant ${grant}; a chance between 0 and 1, a part above 0 and a number of plain steps were expected.`,
    { hint: 'The usual ones are 0.01, 0.05 and 8.' },
  );
}
