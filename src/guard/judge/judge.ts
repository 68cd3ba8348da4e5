/**
 * Three questions about each finished request (cost.ts, rank.ts, tenant.ts) and the measures that follow. The judge knows
 * no network and no clock: the same observations in the same order give the same judgments, live and in a replay.
 */
import { type MeasureOptions, Measures } from '../actions/measures.js';
import { MistletoeError } from '../../core/errors.js';
import type { Observation } from '../observation.js';
import { type Cost, StepTimes, weighCost } from './cost.js';
import { type Rank, Baselines } from './rank.js';
import { percent } from './tail.js';
import { type Outcome, TenantTests } from './tenant.js';
import type { Alert, Decision, Judgment, VerdictName, VerdictNumbers } from './verdict.js';
import { noNumbers } from './verdict.js';

export interface JudgeOptions {
  /** Share of benign requests that may be called low. */
  readonly falseAlerts?: number | undefined;
  /** False alerts about tenants per week. */
  readonly falseAlertsPerWeek?: number | undefined;
  /** Cost of a drafted step in plain tokens; otherwise from the engine's timings, or estimated from the draft length. */
  readonly breakEven?: number | undefined;
  readonly tenantLimit?: number;
  readonly measures?: MeasureOptions;
}

export type SavedJudge = ReturnType<Judge['save']>;

const maxAlerts = 200;
/** The collapsed, low and drift tests and the comparison of new tenants share the false alerts. */
const tests = 4;
/** Assumed until more traffic has been seen. */
const minRequestsPerWeek = 10_000;
const weekMs = 604_800_000;
const hourMs = 3_600_000;

export class Judge {
  private readonly options: JudgeOptions;
  private readonly baselines: Baselines;
  private readonly stepTimes = new StepTimes();
  private readonly tenants: TenantTests;
  private readonly measures: Measures;
  /** Drafted requests, where each week counts half as much as the next. */
  private traffic = { requests: 0, firstMs: -1, lastMs: 0 };
  private alerts: Alert[] = [];
  private alertCount = 0;

  constructor(options: JudgeOptions = {}) {
    const { falseAlerts = 0.01, falseAlertsPerWeek = 1, tenantLimit = 10_000 } = options;
    checkRange('The share of benign requests that may be called low', falseAlerts, 0, 0.5);
    checkRange('The number of false alerts per week', falseAlertsPerWeek, 0, 1e6);
    checkRange('The break-even point in tokens per step', options.breakEven ?? 2, 1, 100);
    this.options = options;
    this.baselines = new Baselines(falseAlerts);
    this.tenants = new TenantTests(tenantLimit, falseAlerts);
    this.measures = new Measures({ tenantLimit, ...options.measures });
  }

  /** What applies to a request that begins now. A tenant's measure holds for all models. */
  decide(tenant: string, atMs: number): Decision {
    return this.measures.decide(tenant, atMs);
  }

  judge(observation: Observation): Judgment {
    const { speculation, upstream, status, ending } = observation;
    if (status < 200 || status >= 300 || ending === 'refused')
      return unreadable(`The request was not answered (status ${status}).`);
    this.stepTimes.learn(observation);
    if (upstream === 'plain') return unreadable('The request was answered without drafts.');
    if (speculation === null) return unreadable('The engine reported no draft counts for this request.');
    if (speculation.steps < 1) return unreadable('The response ended before the first verification step.');
    const { breakEven } = this.options;
    const timed = breakEven === undefined ? this.stepTimes.breakEvenOf(observation.model) : undefined;
    const cost = weighCost(speculation, breakEven, timed);
    if (speculation.proposed === 0) {
      const reason = 'The engine drafted nothing for this request, so drafting cost nothing.';
      return settle('normal', numbersOf(cost, undefined), reason);
    }
    const cell = this.baselines.of(observation, speculation.evidence);
    if (speculation.evidence === 'estimated' && !cell.learnChunks(speculation)) {
      const { acceptedLength, steps } = numbersOf(cost, undefined);
      const reason = 'Only tokens per chunk are known, and this stream has not shown that a chunk is a step.';
      return unreadable(reason, { ...noNumbers, acceptedLength, steps });
    }
    return this.judgeDrafted(observation, cost, cell);
  }

  snapshot() {
    return {
      streams: this.baselines.list(),
      /** Requests until a stream has a baseline. */
      needed: this.baselines.minSamples,
      /** Newest first. */
      alerts: this.alerts.toReversed(),
      tenants: this.tenants.size,
      measures: this.measures.list(),
    };
  }

  /** Shares memory with the judge: write it down or copy it before the next request. */
  save() {
    const [baselines, tenants, measures] = [this.baselines.save(), this.tenants.save(), this.measures.save()];
    const { traffic, alerts, alertCount } = this;
    return { baselines, tenants, measures, stepTimes: this.stepTimes.save(), traffic, alerts, alertCount };
  }

  restore(saved: SavedJudge): void {
    const { baselines, tenants, measures, stepTimes, ...own } = structuredClone(saved);
    this.baselines.restore(baselines);
    this.tenants.restore(tenants);
    this.measures.restore(measures);
    this.stepTimes.restore(stepTimes);
    Object.assign(this, own);
  }

  private judgeDrafted(observation: Observation, cost: Cost, cell: ReturnType<Baselines['of']>): Judgment {
    const { tenant, measure } = observation;
    const { steps, accepted } = observation.speculation!;
    const rank = cell.rank({ steps, accepted });
    const isLow = rank !== undefined && this.baselines.isLow(rank);
    const { isCollapsed, isConclusive, breakEven } = cost;
    const middle = rank?.middle ?? null;
    const outcome = { isCollapsed, isLow, rank: middle, steps, accepted, breakEven, isConclusive };
    const alerts = this.alert(observation, outcome);
    // A tenant under a measure teaches nothing: its probes are not what its requests are like.
    if (!isCollapsed && measure === undefined && !this.tenants.isHeld(tenant))
      cell.learn({ tenant, steps, accepted });
    const result = isCollapsed || isLow ? 'bad' : isConclusive ? 'good' : 'inconclusive';
    const lifted = this.measures.learn(observation, result);
    for (const action of lifted) if (action.tenant !== null) this.tenants.clear(action.tenant);
    const actions = [...lifted, ...alerts.flatMap((alert) => this.measures.apply(alert))];
    const name = isCollapsed ? 'collapsed' : rank === undefined ? 'learning' : isLow ? 'low' : 'normal';
    const reason = isCollapsed
      ? describeCollapse(cost)
      : rank === undefined
        ? `${describe(cost)} is not below break-even, and the baseline has ${cell.size} of the ${this.baselines.minSamples} requests it needs.`
        : describeRank(cost, rank, isLow);
    return { ...settle(name, numbersOf(cost, rank), reason), alerts, actions };
  }

  private alert({ tenant, model, route, endedMs, id }: Observation, outcome: Outcome): readonly Alert[] {
    const { falseAlertsPerWeek = 1 } = this.options;
    const threshold = falseAlertsPerWeek / this.countRequest(endedMs) / tests;
    return this.tenants.learn(tenant, outcome, threshold).map((finding) => {
      this.alertCount += 1;
      const about = { id: `alert-${this.alertCount}`, atMs: endedMs, model, route, requestId: id };
      const alert = { ...about, threshold, ...finding };
      this.alerts.push(alert);
      if (this.alerts.length > maxAlerts) this.alerts.shift();
      return alert;
    });
  }

  /** Returns the requests per week, estimated from recent ones. */
  private countRequest(atMs: number): number {
    const { requests, firstMs: known, lastMs: before } = this.traffic;
    const firstMs = known < 0 ? atMs : known;
    const lastMs = Math.max(before, atMs);
    const passedMs = Math.max(0, atMs - Math.max(before, firstMs));
    this.traffic = { requests: requests * 2 ** (-passedMs / weekMs) + 1, firstMs, lastMs };
    // The part of a week that steady traffic leaves in the decayed count.
    const remembered = (1 - 2 ** (-(lastMs - firstMs) / weekMs)) / Math.LN2;
    if (remembered < hourMs / weekMs) return minRequestsPerWeek;
    return Math.max(minRequestsPerWeek, this.traffic.requests / remembered);
  }
}

const settle = (name: VerdictName, numbers: VerdictNumbers, reason: string): Judgment => ({
  verdict: { name, numbers, reason },
  alerts: [],
  actions: [],
});

const unreadable = (reason: string, numbers = noNumbers): Judgment => settle('unreadable', numbers, reason);

function numbersOf(
  { acceptedLength, steps, upperBound, breakEven, breakEvenFrom }: Cost,
  rank: Rank | undefined,
): VerdictNumbers {
  return {
    acceptedLength: round(acceptedLength),
    steps,
    upperBound: round(upperBound),
    breakEven: round(breakEven),
    breakEvenFrom,
    rank: rank === undefined ? null : round(rank.lowOrLower),
    baseline: rank?.samples ?? null,
  };
}

const round = (value: number): number => Math.round(value * 1e4) / 1e4;

const describe = ({ acceptedLength, steps }: Cost): string =>
  `${acceptedLength.toFixed(2)} tokens per step over ${steps} steps`;

function describeCollapse(cost: Cost): string {
  const [bound, breakEven] = [cost.upperBound.toFixed(2), cost.breakEven.toFixed(2)];
  return `Drafting did not pay: ${describe(cost)}, at most ${bound} with 95 % confidence, and break-even is ${breakEven} (${cost.breakEvenFrom}).`;
}

function describeRank(cost: Cost, { lowOrLower, middle, samples }: Rank, isLow: boolean): string {
  const place = isLow ? `lower than all but ${percent(lowOrLower)}` : `higher than ${percent(middle)}`;
  return `${describe(cost)} is ${place} of ${samples} requests of this model and route.`;
}

function checkRange(what: string, value: number, above: number, max: number): void {
  if (value > above && value <= max) return;
  throw new MistletoeError('usage', `${what} is ${value}; expected more than ${above} and at most ${max}.`, {
    hint: 'Set for example 0.01 for the share of requests, 1 for the alerts per week, and 1.2 for the break-even point.',
  });
}
