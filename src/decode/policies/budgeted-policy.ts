/**
 * Drafting with a bounded cost. A request starts on the first rung of a ladder (a drafter and a draft size). On
 * evidence that its drafts fail, it moves to the next rung, and after the last one to plain steps. From there the
 * first rung is probed in short bursts, less often after each failed burst.
 * test: a sequential test of the share of accepting steps, against a floor from usual requests
 * account: earns (1 + slowdown) plain steps per token, pays the cost of each step (step-prices.ts), and never starts
 * a draft that it could not pay for without any accepted token
 * The account starts with `grant` plain steps, half of them reserved for later rungs, and holds at most 4 grants, so
 * a good start does not pay for a long attack. At any time, in plain steps,
 * cost of all steps <= (1 + slowdown) x tokens + grant + cost of the most expensive step
 * because a step's cost is known only afterwards. Reading the prompt is not counted; a drafter that needs more than
 * another `grant` to read it is skipped. Only the request's own passes count, not waiting.
 */
import { MistletoeError } from '../../core/errors.js';
import { ShareEvidence } from './draft-estimates.js';
import type { ResolvedPolicy } from '../../draft/tree/grow-tree.js';
import type { DraftChoice, PolicyChooser, StepOutcome, SwitchReason } from './policy-chooser.js';
import { minMeasures, StepPrices } from './step-prices.js';

/** One for each drafter of a rotating drafter. */
export interface Rung {
  readonly policy: ResolvedPolicy;
  /** The lowest share of steps that accept a draft token in usual requests; 0 leaves the decision to the account. */
  readonly floor: number;
  /** Time to read a prompt relative to the target; default 0. */
  readonly readingShare?: number | undefined;
}

export interface BudgetOptions {
  /** Probability that a usual request leaves a rung without reason. */
  readonly level?: number | undefined;
  readonly slowdown?: number | undefined;
  /** Plain steps that it may cost in addition. */
  readonly grant?: number | undefined;
  readonly use?: ((rung: number) => void) | undefined;
  readonly onSwitch?: ((change: RungChange) => void) | undefined;
}

/** An undefined rung means plain steps. */
export interface RungChange {
  readonly from: number | undefined;
  readonly to: number | undefined;
  /** From 1, the first step on the new rung. */
  readonly step: number;
  readonly reason: SwitchReason;
}

interface Choice extends DraftChoice {
  readonly rung: number | undefined;
  /** Steps that the drafter must read first, which is not part of a draft's cost. */
  readonly missed: number;
  /** Expected cost of reading the prompt now, in plain steps. */
  readonly reading: number;
}

/** Max steps between two plain steps, which measure the baseline. */
const plainEvery = { paying: 64, doubtful: 12 };
const firstPlainEvery = { paying: 6, doubtful: 1 };
/** Average gain of a paying step, in plain steps. */
const clearGain = 0.5;
const burst = 8;
const burstFailures = 3;
const firstProbeWait = 32;
const maxProbeWait = 1024;
const maxGrants = 4;
const unknownCost = 2;

export class BudgetedPolicy implements PolicyChooser {
  private readonly level: number;
  private readonly slowdown: number;
  private readonly grant: number;
  private readonly evidences: readonly ShareEvidence[];
  private readonly prices = new StepPrices();
  private account: number;
  private rung: number | undefined;
  private step = 0;
  /** The step that the next change applies to. */
  private upcoming = 1;
  private promptMs = 0;
  /** [rung] */
  private readonly lastSteps = new Map<number, number>();
  private sincePlain = { steps: 0, gain: 0 };
  /** Steps with drafts on the present rung. */
  private stay = { steps: 0, accepting: 0, tokens: 0, cost: 0 };
  private probe = { stepsLeft: 0, wait: firstProbeWait, next: Infinity };
  /** The rung before a probe, with its tokens per plain step. */
  private home: { rung: number | undefined; rate: number } = { rung: undefined, rate: 1 };

  constructor(
    private readonly ladder: readonly Rung[],
    private readonly options: BudgetOptions = {},
  ) {
    const { level, slowdown, grant } = checkBudget(options);
    this.level = level;
    this.slowdown = slowdown;
    this.grant = this.account = grant;
    this.evidences = ladder.map(({ floor }) => new ShareEvidence(floor));
    this.rung = ladder.length > 0 ? 0 : undefined;
  }

  get chainLengths(): readonly number[] {
    return this.ladder.flatMap(({ policy }) => (policy.kind === 'chain' ? [policy.length] : []));
  }

  get trees() {
    return this.ladder.flatMap(({ policy }) => (policy.kind === 'dynamic' ? [policy] : []));
  }

  begin(promptMs: number): void {
    this.promptMs = promptMs;
  }

  choose(): Choice {
    this.step += 1;
    this.upcoming = this.step;
    if (this.isProbeDue()) this.startProbe();
    while (this.rung !== undefined && !this.canPay(this.rung, this.reserveOf(this.rung)))
      this.leave('account');
    const { rung } = this;
    if (rung === undefined || this.isPlainDue(rung))
      return { policy: undefined, rung: undefined, missed: 0, reading: 0 };
    this.options.use?.(rung);
    return {
      policy: this.ladder[rung]!.policy,
      rung,
      drafter: rung,
      missed: this.missedBy(rung),
      reading: this.promptCostOf(rung),
    };
  }

  learn(made: DraftChoice, outcome: StepOutcome): void {
    const { rung, missed, reading } = made as Choice;
    this.upcoming = this.step + 1;
    const cost = this.prices.learn(rung, outcome.own ?? outcome, outcome.proposed, missed);
    const charged = Math.max(cost - reading, Math.min(cost, 1));
    const gain = (1 + this.slowdown) * (outcome.accepted + 1) - charged;
    this.account = Math.min(this.account + gain, maxGrants * this.grant);
    if (rung === undefined) {
      this.sincePlain = { steps: 0, gain: 0 };
      return;
    }
    this.sincePlain = { steps: this.sincePlain.steps + 1, gain: this.sincePlain.gain + gain };
    this.lastSteps.set(rung, this.step);
    if (rung === this.rung && outcome.proposed > 0) this.judgeRung(rung, outcome.accepted, cost);
  }

  private judgeRung(rung: number, accepted: number, cost: number): void {
    const { stay, probe } = this;
    stay.steps += 1;
    stay.accepting += Math.min(accepted, 1);
    if (this.evidences[rung]!.value(stay.steps, stay.accepting) >= 1 / this.level) {
      this.leave('evidence');
      return;
    }
    stay.tokens += accepted + 1;
    stay.cost += Math.min(cost, this.prices.priceOf(rung) ?? cost); // catching up is paid once
    if (probe.stepsLeft === 0) return;
    const hasFailed = stay.steps === burstFailures && stay.accepting === 0;
    if (probe.stepsLeft > 1 && !hasFailed) probe.stepsLeft -= 1;
    else if (hasFailed || stay.tokens <= this.home.rate * stay.cost) this.leave('probe-failed');
    else {
      // Stay, and probe again soon after the next fall.
      probe.stepsLeft = 0;
      probe.wait = firstProbeWait;
    }
  }

  /** A rung that earns is left for a probe only if the account is full enough. */
  private isProbeDue(): boolean {
    if (this.rung === 0 || this.step < this.probe.next || !this.canPay(0, 0)) return false;
    return this.rung === undefined || this.account >= this.grant;
  }

  private startProbe(): void {
    const { tokens, cost } = this.stay;
    this.home = { rung: this.rung, rate: cost > 0 ? Math.max(1, tokens / cost) : 1 };
    this.probe = { ...this.probe, stepsLeft: burst, next: Infinity };
    this.move(0, 'probe');
  }

  private leave(reason: 'evidence' | 'account' | 'probe-failed'): void {
    const isProbe = this.probe.stepsLeft > 0;
    this.probe.stepsLeft = 0;
    if (isProbe) {
      this.move(this.home.rung, 'probe-failed');
      this.probe.wait = Math.min(2 * this.probe.wait, maxProbeWait);
    } else this.move(this.nextRung(), reason);
    this.probe.next = this.upcoming + this.probe.wait;
  }

  private move(to: number | undefined, reason: SwitchReason): void {
    this.options.onSwitch?.({ from: this.rung, to, step: this.upcoming, reason });
    this.rung = to;
    this.stay = { steps: 0, accepting: 0, tokens: 0, cost: 0 };
  }

  private nextRung(): number | undefined {
    const from = (this.rung ?? this.ladder.length) + 1;
    const next = this.ladder.findIndex((_, rung) => rung >= from && this.promptCostOf(rung) <= this.grant);
    return next < 0 ? undefined : next;
  }

  private isPlainDue(rung: number): boolean {
    const { steps, gain } = this.sincePlain;
    const measures = this.prices.measuredBy(rung);
    const { paying, doubtful } = measures >= minMeasures ? plainEvery : firstPlainEvery;
    if (steps >= paying || (measures === 0 && steps > 0)) return true;
    return steps >= doubtful && gain < clearGain * steps;
  }

  /** In the worst case a draft brings one token, like a plain step. */
  private canPay(rung: number, reserve: number): boolean {
    const price =
      (this.prices.priceOf(rung) ?? unknownCost) + this.missedBy(rung) * this.prices.readingOf(rung);
    return this.account - reserve >= price - (1 + this.slowdown);
  }

  private reserveOf(rung: number): number {
    if (this.probe.stepsLeft > 0 || rung + 1 === this.ladder.length) return 0;
    return (this.grant / 2) * (1 - rung / (this.ladder.length - 1));
  }

  private missedBy(rung: number): number {
    return this.step - 1 - (this.lastSteps.get(rung) ?? 0);
  }

  private promptCostOf(rung: number): number {
    const { plainMs } = this.prices;
    if (this.lastSteps.has(rung) || rung === 0 || plainMs === undefined) return 0;
    return (this.promptMs * (this.ladder[rung]!.readingShare ?? 0)) / plainMs;
  }
}

export function checkBudget({ level = 0.01, slowdown = 0.05, grant = 8 }: BudgetOptions) {
  if (level > 0 && level < 1 && slowdown > 0 && slowdown <= 10 && grant >= 0 && Number.isFinite(grant))
    return { level, slowdown, grant };
  throw new MistletoeError(
    'usage',
    `The budgeted policy has level ${level}, slowdown ${slowdown} and grant ${grant}; expected a level between 0 and 1, a slowdown from 0 to 10 and a finite grant of at least 0 plain steps.`,
    { hint: 'The defaults are 0.01, 0.05 and 8.' },
  );
}
