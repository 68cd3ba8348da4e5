/**
 * `auto`: chooses how much to draft from measured costs and recent acceptance. The merit of a choice (plain, chains,
 * a small tree) is the expected number of tokens per unit of time:
 * (1 + expected accepted draft tokens) / cost of the step
 * Costs are those of a step of the whole batch (StepCosts), without waiting. Sequences of a batch are padded to the
 * longest draft, so one decision applies to all until the next target pass.
 * Unused choices are tried for a few steps. The pause between trials grows with the expected loss, so that all trials
 * cost about 1 % of the time.
 * At temperature 0 tokens never depend on the clock. Above it they do (not their distribution), so fixed policies are
 * the default there.
 */
import type { Drafter } from '../../draft/drafter.js';
import type { ResolvedPolicy } from '../../draft/tree/grow-tree.js';
import { DraftAcceptance, StepCosts } from './draft-estimates.js';
import type { DraftChoice, PolicyChooser, StepOutcome } from './policy-chooser.js';

interface Choice {
  readonly policy: ResolvedPolicy | undefined;
  readonly kind: 'plain' | 'chain' | 'tree';
  /** Draft levels, and rows that the target reads. */
  readonly levels: number;
  readonly rows: number;
  lastTried: number;
}

interface Rated {
  readonly choice: Choice;
  readonly cost: number;
  readonly merit: number;
}

interface Decision extends DraftChoice {
  readonly choice: Choice;
  readonly isTrial: boolean;
  /**
   * Whether the drafter may first have to read tokens of plain steps, which is not part of a draft's cost.
   */
  readonly mayCatchUp: boolean;
}

const trialSteps = 3;
/** The share of time that the trials of all choices may cost. */
const trialShare = 0.01;
const minTrialPause = 24;
/** Steps at most between the first two trials: the first runs of a program are slow, and machines are busy. */
const maxSecondPause = 48;
/** How much better a draft must be than a plain step, and any choice than the one in use. */
const plainBonus = 1.02;
const currentBonus = 1.01;
/** Weight that recent acceptance keeps after each plain step, and at the start of a request. */
const plainStepFade = 0.99;
const newTextFade = 0.5;
const treeDecay = 0.98;
/** Expected cost of a step before any measurement, in rows. */
const fixedRows = 8;
const levelShare = 0.1;

type DrafterTraits = Pick<Drafter, 'maximumDepth' | 'vocabularySize' | 'isChainOnly' | 'parameterCount'>;

const defaultLengths = [1, 2, 3, 4];
const weightlessLengths = [...defaultLengths, 6, 8];
const smallTree = { kind: 'dynamic', total: 8, depth: 2, topK: 2 } as const;

export class AdaptivePolicy implements PolicyChooser {
  private readonly plain: Choice;
  private readonly acceptance = new DraftAcceptance();
  /** [batch size, rounded up to a power of two] */
  private readonly costs = new Map<number, StepCosts>();
  /** Decaying counts: accepted from the tree, and expected from a chain of the same depth. */
  private readonly treeTokens = { accepted: 1, expected: 1 };
  /** Cost of the last catch-up of the drafter, in plain steps. */
  private catchUpSteps = 0;
  private step = 0;
  private batchSize = 1;
  /** The pass of the target that was learned from last. */
  private pass: number | undefined;
  private trialLeft = 0;
  /** Applies to all sequences until the next target pass. */
  private decision: Decision | undefined;
  private current: Choice;
  private readonly choices: readonly Choice[];

  constructor(drafter: DrafterTraits) {
    this.choices = listChoices(drafter);
    this.plain = this.current = this.choices[0]!;
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

  choose(): Decision {
    return (this.decision ??= this.decide());
  }

  learn(made: DraftChoice, outcome: StepOutcome): void {
    const { choice, isTrial, mayCatchUp } = made as Decision;
    if (choice.kind === 'chain') this.acceptance.learn(outcome);
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
    // While sequences join or leave, a step's time includes the reading of prompts.
    const isSteady = batchSize === this.batchSize;
    this.batchSize = batchSize;
    const costs = this.costsOfBatch();
    if (choice === this.plain) this.acceptance.fade(plainStepFade);
    if (!isSteady) return;
    if (!mayCatchUp) costs.learn(rows, stepMs, isTrial);
    else if (costs.pace !== undefined)
      this.catchUpSteps = Math.max(0, stepMs / costs.pace - costs.costOf(rows)) / costs.costOf(1);
  }

  private learnTree({ levels }: Choice, { accepted }: StepOutcome): void {
    const { treeTokens } = this;
    treeTokens.accepted = treeTokens.accepted * treeDecay + accepted;
    treeTokens.expected = treeTokens.expected * treeDecay + this.acceptance.expect(levels);
  }

  private decide(): Decision {
    this.step += 1;
    const previous = this.current;
    let isTrial = this.trialLeft > 0;
    if (isTrial) this.trialLeft -= 1;
    else {
      const rated = this.choices.map((choice) => this.rate(choice));
      const best = this.findBest(rated);
      const trial = this.findTrial(rated, best);
      isTrial = trial !== undefined;
      this.trialLeft = isTrial ? trialSteps - 1 : 0;
      this.current = trial ?? best.choice;
    }
    const choice = this.current;
    choice.lastTried = this.step;
    const mayCatchUp = this.step > 1 && previous === this.plain && choice !== this.plain;
    return { policy: choice.policy, choice, isTrial, mayCatchUp };
  }

  private rate(choice: Choice): Rated {
    const { kind, levels, rows } = choice;
    const costs = this.costsOfBatch();
    const plainCost = costs.costOf(1);
    if (kind === 'plain') return { choice, cost: plainCost, merit: 1 / plainCost };
    const treeGain = kind === 'tree' ? this.treeTokens.accepted / this.treeTokens.expected : 1;
    const tokens = 1 + this.acceptance.expect(levels) * treeGain;
    // If one sequence proposes anything, all are padded to its rows.
    const drafted = 1 - (1 - this.acceptance.proposalRate) ** this.batchSize;
    const cost = drafted * costs.costOf(rows) + (1 - drafted) * plainCost;
    return { choice, cost, merit: tokens / cost };
  }

  private findBest(rated: readonly Rated[]): Rated {
    const rank = ({ choice, merit }: Rated): number =>
      merit * (choice === this.plain ? plainBonus : 1) * (choice === this.current ? currentBonus : 1);
    return rated.reduce((best, each) => (rank(each) > rank(best) ? each : best));
  }

  /** The choice whose next trial is most overdue, if any is due. */
  private findTrial(rated: readonly Rated[], best: Rated): Choice | undefined {
    const costs = this.costsOfBatch();
    // Several steps, because the first one may be slow.
    if (costs.pace === undefined) return costs.isMeasured ? undefined : best.choice;
    const share = trialShare / (this.choices.length - 1);
    let found: Choice | undefined;
    let maxOverdue = 1;
    for (const { choice, cost, merit } of rated) {
      if (choice === best.choice) continue;
      // What a step of this choice loses, in steps of the best one.
      const loss = Math.max(0, 1 - merit / best.merit) * (cost / best.cost);
      const catchUp = this.current === this.plain ? this.catchUpSteps : 0;
      const pause = Math.max(minTrialPause, (trialSteps * loss + catchUp) / share);
      const isConfirmed = costs.countSamples(choice.rows) > trialSteps;
      const overdue =
        (this.step - choice.lastTried) / (isConfirmed ? pause : Math.min(pause, maxSecondPause));
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
    const expect = (rows: number): number =>
      fixedRows + size * rows + levelShare * (rows - 1) * (fixedRows + size);
    const costs = new StepCosts(expect);
    this.costs.set(size, costs);
    return costs;
  }
}

function listChoices(drafter: DrafterTraits): readonly Choice[] {
  const { maximumDepth, vocabularySize, isChainOnly = false, parameterCount } = drafter;
  const plain: Choice = { policy: undefined, kind: 'plain', levels: 0, rows: 1, lastTried: -Infinity };
  const chains = (parameterCount === 0 ? weightlessLengths : defaultLengths)
    .filter((levels) => levels <= maximumDepth)
    .map((levels): Choice => {
      const policy = { kind: 'chain', length: levels } as const;
      return { policy, kind: 'chain', levels, rows: levels + 1, lastTried: 0 };
    });
  const { total: rows, depth, topK } = smallTree;
  const levels = depth + 1;
  if (isChainOnly || levels > maximumDepth || topK > vocabularySize) return [plain, ...chains];
  return [plain, ...chains, { policy: smallTree, kind: 'tree', levels, rows, lastTried: 0 }];
}
