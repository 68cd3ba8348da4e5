/**
 * `auto`: chooses how much to draft from measured costs and recent acceptance. The merit of a choice (plain, chains,
 * a small tree) is the expected number of tokens per unit of time:
 * (1 + expected accepted draft tokens) / cost of the step
 * Costs are those of a step of the whole batch (StepCosts), without waiting. Sequences of a batch are padded to the
 * longest draft, so one decision applies to all until the next target pass.
 * With a lookup beside the drafter, each step weighs what the text suggests there against the drafter's usual
 * acceptance. A batch weighs means of what its texts suggest, and each of its sequences then takes the better of both.
 * Unused choices are tried for a few steps. The pause between trials grows with the expected loss, so that all trials
 * cost about 1 % of the time; they wait while the text suggests more than usual.
 * At temperature 0 tokens never depend on the clock. Above it they do (not their distribution), so fixed policies are
 * the default there.
 */
import { type DraftSession, noSuggestion } from '../../draft/drafter.js';
import { type AutoChoice, type DrafterTraits, listChoices, longestLookup } from './auto-choices.js';
import { DraftAcceptance, lowerMedian } from './draft-estimates.js';
import type { DraftChoice, PolicyChooser, StepOutcome } from './policy-chooser.js';
import { pushWithin, StepCosts, type StepKind } from './step-costs.js';
import { TextSuggestions } from './text-suggestions.js';

interface Rated {
  readonly choice: AutoChoice;
  readonly cost: number;
  readonly merit: number;
}

interface Decision extends DraftChoice {
  readonly choice: AutoChoice;
  readonly isTrial: boolean;
  /** Whether the drafter first has to read tokens of other steps: the costs of drafts are without that. */
  readonly mayCatchUp: boolean;
}

const trialSteps = 3;
/** The share of time that the trials of all choices may cost. */
const trialShare = 0.01;
const minTrialPause = 24;
/** Steps at most between the first trials: the first runs of a program are slow, and machines are busy. */
const maxFirstPause = 48;
/** First trials of a draft, and of plain steps: these are cheap, and decide whether drafting pays at all. */
const [firstTrials, firstPlainTrials] = [1, 3];
/** How much better a draft must be than a plain step, and any choice than the one in use. */
const plainBonus = 1.02;
const currentBonus = 1.01;
/** Weight that recent acceptance keeps after each plain step, and at the start of a request. */
const plainStepFade = 0.99;
const newTextFade = 0.5;
const treeDecay = 0.98;
const meritDecay = 0.95;
/** A drafter reads fewer missed tokens beside those of its draft. */
const minMissed = 4;
const catchUpWindow = 7;
/** Drafts that share what the drafter reads before the first of them, until it is known how many do. */
const expectedStretch = 24;
const stretchDecay = 0.98;
/** Cold steps in a row that are not measured. */
const maxColdSteps = 8;
/** Expected cost of a step before any measurement, in rows. */
const fixedRows = 8;
const levelShare = 0.1;

/** A lookup has nothing to read. */
const isOfDrafter = ({ step }: AutoChoice): boolean => step !== 'read';

export class AdaptivePolicy implements PolicyChooser {
  private readonly choices: readonly AutoChoice[];
  private readonly plain: AutoChoice;
  /** [choice] the step of its last trial or use */
  private readonly lastTried = new Map<AutoChoice, number>();
  private readonly hasLookup: boolean;
  private readonly suggestions = new TextSuggestions();
  private readonly acceptance = new DraftAcceptance();
  /** [batch size, rounded up to a power of two] */
  private readonly costs = new Map<number, StepCosts>();
  /** Decaying counts: accepted from the tree, and expected from a chain of the same depth. */
  private readonly treeTokens = { accepted: 1, expected: 1 };
  /** Tokens of steps without the drafter. */
  private missed = 0;
  private coldSteps = 0;
  /** What the last drafts cost more because of them; zeros, because the first runs of a program are slow. */
  private readonly catchUps = [0, 0, 0];
  /** Decaying counts of drafts that were no trials, and of those before which the drafter had missed something. */
  private readonly stretches = { drafts: expectedStretch, behind: 1 };
  private step = 0;
  private batchSize = 1;
  /** The pass of the target that was learned from last. */
  private pass: number | undefined;
  private trial: AutoChoice | undefined;
  private trialLeft = 0;
  /** Decaying mean of the best choices' merits. */
  private meanMerit = 0;
  /** Applies to all sequences until the next target pass. */
  private decision: Decision | undefined;
  private current: AutoChoice;

  constructor(drafter: DrafterTraits) {
    this.choices = listChoices(drafter);
    this.plain = this.current = this.choices[0]!;
    this.lastTried.set(this.plain, -Infinity);
    this.hasLookup = (drafter.lookups ?? []).length > 0;
  }

  get chainLengths(): readonly number[] {
    return this.choices.flatMap(({ kind, levels }) => (kind === 'chain' ? [levels] : []));
  }

  get trees() {
    return this.choices.flatMap(({ policy }) => (policy?.kind === 'dynamic' ? [policy] : []));
  }

  begin(): void {
    const newShare = 1 / this.batchSize;
    this.acceptance.fade(1 - (1 - newTextFade) * newShare);
    this.costsOfBatch().forgetPace(newShare);
  }

  choose(session?: Pick<DraftSession, 'suggest'>): Decision {
    if (!this.hasLookup) return (this.decision ??= this.decide());
    const { survival } = session?.suggest(longestLookup) ?? noSuggestion;
    this.suggestions.learn(survival, longestLookup, (length) => this.acceptance.expect(length));
    const decision = (this.decision ??= this.decide());
    const { levels, kind } = decision.choice;
    const isLookup =
      kind === 'lookup' ||
      (kind === 'chain' &&
        !decision.isTrial &&
        this.suggestions.isBetter(levels, this.acceptance.expect(levels)));
    return { ...decision, source: isLookup ? 'lookup' : undefined };
  }

  learn(made: DraftChoice, outcome: StepOutcome): void {
    const { choice, source, isTrial, mayCatchUp } = made as Decision;
    if (choice.kind === 'chain' && source !== 'lookup') this.acceptance.learn(outcome);
    else if (choice.kind === 'tree') this.learnTree(choice, outcome);
    const { pass, batchSize, rows, stepMs } = outcome.batch ?? {
      pass: undefined,
      batchSize: 1,
      rows: outcome.proposed + 1,
      stepMs: outcome.draftMs + outcome.verifyMs,
    };
    // All sequences of a pass report it.
    if (pass !== undefined && pass === this.pass) return;
    this.pass = pass;
    this.decision = undefined;
    const isDrafted = source !== 'lookup' && isOfDrafter(choice);
    this.missed = isDrafted ? 0 : this.missed + outcome.accepted + 1;
    if (isDrafted && !isTrial) this.noteDraft(mayCatchUp);
    // While sequences join or leave, a step's time includes the reading of prompts.
    const isSteady = batchSize === this.batchSize;
    this.batchSize = batchSize;
    const costs = this.costsOfBatch();
    if (choice === this.plain) this.acceptance.fade(plainStepFade);
    if (!isSteady) return;
    this.coldSteps = outcome.isCold === true ? this.coldSteps + 1 : 0;
    if (this.coldSteps > 0 && this.coldSteps <= maxColdSteps) {
      if (isTrial) this.trialLeft += 1;
      return;
    }
    // A lookup, or a drafter that proposes nothing, costs next to nothing.
    const isRead = rows === 1 || (source === 'lookup' && batchSize === 1);
    const kind = isRead ? 'read' : choice.step;
    if (!isDrafted || !mayCatchUp) costs.learn(kind, rows, stepMs, isTrial);
    else if (costs.pace !== undefined)
      pushWithin(catchUpWindow, this.catchUps, stepMs / costs.pace - costs.costOf(kind, rows));
  }

  private learnTree({ levels }: AutoChoice, { accepted }: StepOutcome): void {
    const { treeTokens } = this;
    treeTokens.accepted = treeTokens.accepted * treeDecay + accepted;
    treeTokens.expected = treeTokens.expected * treeDecay + this.acceptance.expect(levels);
  }

  private decide(): Decision {
    this.step += 1;
    const rated = this.choices.flatMap((choice) => this.rate(choice) ?? []);
    const best = this.findBest(rated);
    if (this.trialLeft === 0) {
      this.trial = this.findTrial(rated, best);
      this.trialLeft = this.trial === undefined ? 0 : trialSteps;
    }
    this.meanMerit = this.meanMerit * meritDecay + best.merit * (1 - meritDecay);
    // A trial can wait; what the text suggests at this step cannot.
    const isGoodLookup = best.choice.kind === 'lookup' && best.merit > this.meanMerit;
    const isTrial = this.trialLeft > 0 && !isGoodLookup;
    if (isTrial) this.trialLeft -= 1;
    const choice = isTrial ? this.trial! : best.choice;
    this.current = choice;
    this.lastTried.set(choice, this.step);
    return { policy: choice.policy, choice, isTrial, mayCatchUp: this.missed >= minMissed };
  }

  /** Undefined if the text does not suggest so much. */
  private rate(choice: AutoChoice): Rated | undefined {
    const { kind, levels, rows, step } = choice;
    const costs = this.costsOfBatch();
    const plainCost = costs.costOf('read', 1);
    if (kind === 'plain') return { choice, cost: plainCost, merit: 1 / plainCost };
    const isAlone = this.batchSize === 1;
    const { suggestions, acceptance } = this;
    const { behind, drafts } = this.stretches;
    if (kind === 'lookup') {
      const tokens = isAlone ? suggestions.expect(levels) : suggestions.meanOf(levels);
      const cost = costs.costOf(step, rows);
      return tokens === undefined ? undefined : { choice, cost, merit: (1 + tokens) / cost };
    }
    const gain = isAlone || kind === 'tree' ? 0 : suggestions.meanGainOf(levels);
    const treeGain = kind === 'tree' ? this.treeTokens.accepted / this.treeTokens.expected : 1;
    const tokens = 1 + acceptance.expect(levels) * treeGain + gain;
    // If one sequence proposes anything, all are padded to its rows.
    const drafted = 1 - (1 - acceptance.proposalRate) ** this.batchSize;
    // Drafts that follow the next one need not read again.
    const catchUp = isOfDrafter(choice) ? this.catchUpCost * (behind / drafts) : 0;
    const cost = drafted * costs.costOf(step, rows) + (1 - drafted) * plainCost + catchUp;
    return { choice, cost, merit: tokens / cost };
  }

  private noteDraft(isBehind: boolean): void {
    const { stretches } = this;
    stretches.drafts = stretches.drafts * stretchDecay + 1;
    stretches.behind = stretches.behind * stretchDecay + Number(isBehind);
  }

  /** What the next draft costs more because of tokens that the drafter has missed. */
  private get catchUpCost(): number {
    return this.missed < minMissed ? 0 : Math.max(0, lowerMedian(this.catchUps)!);
  }

  private findBest(rated: readonly Rated[]): Rated {
    const rank = ({ choice, merit }: Rated): number =>
      merit * (choice === this.plain ? plainBonus : 1) * (choice === this.current ? currentBonus : 1);
    return rated.reduce((best, each) => (rank(each) > rank(best) ? each : best));
  }

  /** The choice whose next trial is most overdue, if any is due. */
  private findTrial(rated: readonly Rated[], best: Rated): AutoChoice | undefined {
    const costs = this.costsOfBatch();
    // Several steps, because the first one may be slow.
    if (costs.pace === undefined) return costs.isMeasured ? undefined : best.choice;
    // Lookups need no trial: the line of plain steps and lookups tells their costs, the text the rest.
    const tried = rated.filter(({ choice }) => choice.kind !== 'lookup');
    const share = trialShare / (tried.length - 1);
    let found: AutoChoice | undefined;
    let maxOverdue = 1;
    for (const { choice, cost, merit } of tried) {
      if (choice === best.choice) continue;
      // What a step of this choice loses, in steps of the best one.
      const reading = isOfDrafter(choice) ? this.catchUpCost / trialSteps : 0;
      const loss = Math.max(0, 1 - merit / best.merit) * (cost / best.cost) + reading / best.cost;
      const pause = Math.max(minTrialPause, (trialSteps * loss) / share);
      const needed = trialSteps * (choice === this.plain ? firstPlainTrials : firstTrials);
      const isConfirmed = costs.countSamples(choice.step, choice.rows) > needed;
      const overdue =
        (this.step - (this.lastTried.get(choice) ?? 0)) /
        (isConfirmed ? pause : Math.min(pause, maxFirstPause));
      if (overdue < maxOverdue) continue;
      found = choice;
      maxOverdue = overdue;
    }
    return found;
  }

  private costsOfBatch(): StepCosts {
    const size = 2 ** Math.ceil(Math.log2(this.batchSize));
    const known = this.costs.get(size);
    if (known !== undefined) return known;
    const expect = (kind: StepKind, rows: number): number =>
      fixedRows + size * rows + (kind === 'read' ? 0 : levelShare * (rows - 1) * (fixedRows + size));
    const costs = new StepCosts(expect);
    this.costs.set(size, costs);
    return costs;
  }
}
