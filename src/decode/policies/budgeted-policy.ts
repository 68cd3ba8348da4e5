/**
 * Drafting that cannot be turned against the one who pays for it. A request begins on the first rung of a ladder (a drafter
 * and how much to draft); a sequential test watches whether drafts are accepted as they should be, and on evidence of a
 * collapse the next rung is taken: another drafter, a shorter chain, and behind the last rung plain steps. From any of them the
 * first rung is probed again, in short bursts and ever more rarely while they bring less than what they take the place of.
 *
 * Beside the test, which needs some steps to be sure and a floor to hold them against, there is an account that needs neither.
 * Every token is worth (1 + slowdown) plain steps to it, every step costs what it took in plain steps (step-prices.ts), and no
 * draft is begun that the account could not pay for if not a single draft token were accepted. It begins with `grant` plain
 * steps, half of them for the first rung, and a rung that has used up its part is left. Hence at every moment
 *
 *   cost of all steps  <=  (1 + slowdown) x tokens  +  grant  +  cost of the dearest step        in plain steps
 *
 * whatever the drafts do. The dearest step is there because what a step costs is known when it has been made; reading the prompt
 * is not counted, for the first drafter as for any that takes over; one that would need more than another `grant` for it is passed over. A plain step is one that the same request would make at the same moment: in an engine what counts are the
 * passes that the request has a part in, with whoever else is in them, and not what it waits for. The promise is as good as the
 * clock: exact where passes of a kind take the same time, and otherwise off by a part no larger than that by which they scatter. Where
 * others come and go, what a draft costs changes and is seen with the next plain step, which comes the sooner the less drafts bring.
 * What drafts earn is kept only up to a limit: a long good beginning does not pay for a long attack.
 * It holds one request's state: make one for each.
 */
import { MistletoeError } from '../../core/errors.js';
import { ShareEvidence } from '../../core/share-evidence.js';
import type { ResolvedPolicy } from '../../draft/tree/grow-tree.js';
import type { SwitchReason } from './drafter-switches.js';
import type { DraftChoice, PolicyChooser, StepOutcome } from './policy-chooser.js';
import { leastMeasures, StepPrices } from './step-prices.js';

export interface Rung {
  readonly policy: ResolvedPolicy;
  /** Of a rotating drafter, the place of the one that drafts. */
  readonly drafter?: number;
  /** The share of its steps that accept a draft token at all, in the lowest of usual requests; 0 where nobody knows. */
  readonly floor?: number;
  /** What its drafter takes to read a prompt, as a part of what the target takes; 0 unless given. */
  readonly readingShare?: number;
}

export interface GuardedOptions {
  /** Of rungs that have none of their own; 0 leaves the decision to the account. */
  readonly floor?: number;
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
  /** From 1, the first step on the new rung. */
  readonly step: number;
  readonly reason: SwitchReason;
}

interface Choice extends DraftChoice {
  readonly rung: number | undefined;
  /** Steps that the drafter has not drafted in and has to read now, which is not the price of a draft. */
  readonly missed: number;
  /** What reading the prompt is taken to cost it now, in plain steps. */
  readonly reading: number;
}

/** Plain steps, which measure what drafts are compared with, come at least so often; sooner where drafts bring little. */
const plainEvery = { paying: 64, doubtful: 12 };
const firstPlainEvery = { paying: 6, doubtful: 1 };
/** Plain steps that a step has to earn to be beyond doubt. */
const clearGain = 0.5;
const burst = 8;
/** A burst that begins with so many failures has failed. */
const burstFailures = 3;
const firstProbe = 32;
const latestProbe = 1024;
/** How many grants the account may hold. */
const mostGrants = 4;
/** What a rung is taken to cost before its first step, in plain steps. */
const unknownCost = 2;

export function createGuardedPolicy(ladder: readonly Rung[], options: GuardedOptions = {}): PolicyChooser {
  const { floor = 0, level = 0.01, slowdown = 0.05, grant = 8, use, onSwitch } = options;
  checkOptions({ level, slowdown, grant });
  const evidences = ladder.map((rung) => new ShareEvidence(rung.floor ?? floor));
  const prices = new StepPrices();
  /** [drafter] Its last step. */
  const lastSteps = new Map<number, number>();
  const test = { steps: 0, accepted: 0 };
  const since = { steps: 0, gain: 0 }; // the last plain step
  const probe = { left: 0, wait: firstProbe, next: Infinity };
  /** Since the rung was taken, and what the one before a probe had brought: tokens and cost of steps with drafts. */
  const stay = { tokens: 0, cost: 0 };
  const home: { rung: number | undefined; rate: number } = { rung: undefined, rate: 1 };
  let rung: number | undefined = ladder.length > 0 ? 0 : undefined;
  let account = grant; // in plain steps
  let step = 0;
  let upcoming = 1;
  let readMs = 0;

  const drafterOf = (place: number): number => ladder[place]?.drafter ?? 0;
  const missedBy = (place: number): number => step - 1 - (lastSteps.get(drafterOf(place)) ?? 0);
  /** What the prompt costs a drafter that has not read it yet. */
  const promptCostOf = (place: number): number => {
    const drafter = drafterOf(place);
    if (lastSteps.has(drafter) || drafter === drafterOf(0) || prices.plainMs === undefined) return 0;
    return (readMs * (ladder[place]!.readingShare ?? 0)) / prices.plainMs;
  };
  const priceOf = (place: number): number =>
    (prices.priceOf(place) ?? unknownCost) + missedBy(place) * prices.readingOf(place);
  /** The worst a draft can bring is the one token that a plain step brings, too. */
  const canPay = (place: number, reserve: number): boolean =>
    account - reserve >= priceOf(place) - (1 + slowdown);
  /** What is left for the rungs behind this one. */
  const reserveOf = (place: number): number =>
    place + 1 === ladder.length ? 0 : (grant / 2) * (1 - place / (ladder.length - 1));
  const move = (to: number | undefined, reason: RungChange['reason']): void => {
    onSwitch?.({ from: rung, to, step: upcoming, reason });
    rung = to;
    Object.assign(test, { steps: 0, accepted: 0 });
    Object.assign(stay, { tokens: 0, cost: 0 });
  };
  const leave = (reason: 'evidence' | 'account' | 'probe-failed'): void => {
    const isProbe = probe.left > 0;
    probe.left = 0;
    const from = (rung ?? ladder.length) + 1;
    const next = ladder.findIndex((_, place) => place >= from && promptCostOf(place) <= grant);
    if (isProbe) {
      move(home.rung, 'probe-failed');
      probe.wait = Math.min(2 * probe.wait, latestProbe);
    } else move(next < 0 ? undefined : next, reason);
    probe.next = upcoming + probe.wait;
  };
  /** What another rung earns is not wagered unless there is enough of it. */
  const isProbeDue = (): boolean =>
    rung !== 0 && step >= probe.next && canPay(0, 0) && (rung === undefined || account >= grant);
  const isPlainDue = (place: number): boolean => {
    const measures = prices.measuredBy(place);
    const { paying, doubtful } = measures >= leastMeasures ? plainEvery : firstPlainEvery;
    if (since.steps >= paying || (measures === 0 && since.steps > 0)) return true;
    return since.steps >= doubtful && since.gain < clearGain * since.steps;
  };

  return {
    chainLengths: ladder.flatMap(({ policy }) => (policy.kind === 'chain' ? [policy.length] : [])),
    trees: ladder.flatMap(({ policy }) => (policy.kind === 'dynamic' ? [policy] : [])),
    begin(promptMs) {
      readMs = promptMs;
    },
    choose(): Choice {
      step += 1;
      upcoming = step;
      if (isProbeDue()) {
        Object.assign(probe, { left: burst, next: Infinity });
        Object.assign(home, { rung, rate: stay.cost > 0 ? Math.max(1, stay.tokens / stay.cost) : 1 });
        move(0, 'probe');
      }
      while (rung !== undefined && !canPay(rung, probe.left > 0 ? 0 : reserveOf(rung))) leave('account');
      if (rung === undefined || isPlainDue(rung))
        return { policy: undefined, rung: undefined, missed: 0, reading: 0 };
      const { policy, drafter } = ladder[rung]!;
      if (drafter !== undefined) use?.(drafter);
      const needs = { missed: missedBy(rung), reading: promptCostOf(rung) };
      return { policy, rung, ...needs, ...(drafter === undefined ? {} : { drafter }) };
    },
    learn(made: DraftChoice, outcome: StepOutcome) {
      const choice = made as Choice;
      upcoming = step + 1;
      const cost = prices.learn(choice.rung, outcome.own ?? outcome, outcome.proposed, choice.missed);
      const charged = Math.max(cost - choice.reading, Math.min(cost, 1));
      const gain = (1 + slowdown) * (outcome.accepted + 1) - charged;
      account = Math.min(account + gain, mostGrants * grant);
      Object.assign(
        since,
        choice.rung === undefined
          ? { steps: 0, gain: 0 }
          : { steps: since.steps + 1, gain: since.gain + gain },
      );
      if (choice.rung !== undefined) lastSteps.set(drafterOf(choice.rung), step);
      if (choice.rung === undefined || choice.rung !== rung || outcome.proposed === 0) return;
      test.steps += 1;
      test.accepted += Math.min(outcome.accepted, 1);
      if (evidences[rung]!.value(test.steps, test.accepted) >= 1 / level) {
        leave('evidence');
        return;
      }
      stay.tokens += outcome.accepted + 1;
      stay.cost += Math.min(cost, prices.priceOf(rung) ?? cost); // what was read first is paid once
      if (probe.left === 0) return;
      probe.left -= 1;
      const hasFailed = test.steps === burstFailures && test.accepted === 0;
      if (probe.left > 0 && !hasFailed) return;
      // A burst that pays keeps its rung, and the next fall is probed soon again.
      if (!hasFailed && stay.tokens > home.rate * stay.cost) probe.wait = firstProbe;
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
