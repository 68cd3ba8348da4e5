/**
 * The judge: three questions about each finished request (cost.ts, rank.ts, tenant.ts) and the measures that follow. It
 * knows no network and no clock: the same observations in the same order give the same judgments, in the proxy, in
 * `serve`, in a replay and in a rehearsal. Memory is bounded however many tenants, models and requests there are.
 */
import type { MeasureOptions } from '../actions/measures.js';
import { Measures } from '../actions/measures.js';
import { MistletoeError } from '../../core/errors.js';
import type { Observation, Stream } from '../observation.js';
import type { Cost } from './cost.js';
import { weighCost } from './cost.js';
import { EveryoneTest } from './everyone.js';
import type { Band, Rank } from './rank.js';
import { Baselines } from './rank.js';
import { describeFinding, reasons } from './reasons.js';
import type { SavedJudge } from './saved-judge.js';
import type { Slice } from './stream-history.js';
import { StreamHistory } from './stream-history.js';
import { TenantTests } from './tenant.js';
import { TrafficRate } from './traffic-rate.js';
import type { Alert, Decision, Judgment, Verdict, VerdictName, VerdictNumbers } from './verdict.js';

export interface JudgeOptions {
  /** Share of benign requests that may be called low. */
  readonly falseAlerts?: number;
  /** False alerts about tenants per week. */
  readonly falseAlertsPerWeek?: number;
  /** Assumed until more traffic has been seen. */
  readonly minRequestsPerWeek?: number;
  /** Cost of a drafted step in plain tokens, where it was measured; estimated from the draft length otherwise. */
  readonly breakEven?: number | undefined;
  readonly tenantLimit?: number;
  readonly measures?: MeasureOptions;
}

export interface StreamSummary extends Stream {
  readonly baseline: Band | null;
  readonly learned: number;
  readonly needed: number;
  readonly history: readonly (Slice & { readonly low: number | null; readonly high: number | null })[];
}

export interface JudgeSnapshot {
  readonly streams: readonly StreamSummary[];
  /** Newest first. */
  readonly alerts: readonly Alert[];
  readonly tenants: number;
  readonly measures: ReturnType<Measures['list']>;
}

const maxAlerts = 200;
/** The collapsed, low and drift tests share the false alerts. */
const tests = 3;

export class Judge {
  private readonly options: JudgeOptions;
  private readonly baselines: Baselines;
  private readonly tenants: TenantTests;
  private readonly everyone = new EveryoneTest();
  private readonly measures: Measures;
  private readonly traffic: TrafficRate;
  private readonly history = new StreamHistory();
  private alerts: Alert[] = [];
  private alertCount = 0;

  constructor(options: JudgeOptions = {}) {
    const { falseAlerts = 0.01, falseAlertsPerWeek = 1, minRequestsPerWeek = 10_000 } = options;
    checkRange('The share of benign requests that may be called low', falseAlerts, 0, 0.5);
    checkRange('The number of false alerts per week', falseAlertsPerWeek, 0, 1e6);
    checkRange('The break-even point in tokens per step', options.breakEven ?? 2, 1, 100);
    const { tenantLimit = 10_000, measures } = options;
    this.options = { ...options, falseAlertsPerWeek };
    this.baselines = new Baselines(falseAlerts);
    this.tenants = new TenantTests(tenantLimit, falseAlerts);
    this.measures = new Measures({ tenantLimit, ...measures });
    this.traffic = new TrafficRate(minRequestsPerWeek);
  }

  /** What applies to a request that begins now. A tenant's measure holds for all models. */
  decide(tenant: string, atMs: number): Decision {
    return this.measures.decide(tenant, atMs);
  }

  judge(observation: Observation): Judgment {
    const { speculation, upstream, status, ending } = observation;
    const isAnswer = status >= 200 && status < 300 && ending !== 'refused';
    if (!isAnswer) return unreadable(reasons.failed(status));
    if (upstream === 'plain') return unreadable(reasons.plain());
    this.history.add(observation, observation.endedMs, speculation);
    if (speculation === null) return unreadable(reasons.silent());
    if (speculation.steps < 1) return unreadable(reasons.empty());
    const cost = weighCost(speculation, this.options.breakEven);
    if (speculation.proposed === 0) return settle('normal', cost, undefined, reasons.undrafted());
    const cell = this.baselines.of(observation, speculation.evidence);
    if (speculation.evidence === 'estimated' && !cell.learnChunks(speculation))
      return unreadable(reasons.chunks(), cost);
    return this.judgeDrafted(observation, cost, cell);
  }

  /** After a change of drafter or model. */
  forget(model: string): void {
    this.baselines.forget(model);
  }

  snapshot(): JudgeSnapshot {
    const streams = this.history.list().map(({ model, route, history }) => {
      const cell = this.baselines.largest({ model, route });
      const baseline = cell?.band() ?? null;
      const [low, high] = [baseline?.low ?? null, baseline?.high ?? null];
      return {
        model,
        route,
        baseline,
        learned: cell?.size ?? 0,
        needed: this.baselines.minSamples,
        history: history.map((slice) => ({ ...slice, low, high })),
      };
    });
    return {
      streams,
      alerts: this.alerts.toReversed(),
      tenants: this.tenants.size,
      measures: this.measures.list(),
    };
  }

  save(): SavedJudge {
    const { baselines, tenants, everyone, measures, traffic, alerts, alertCount } = this;
    return {
      version: 3,
      baselines: baselines.save(),
      tenants: tenants.save(),
      everyone: everyone.save(),
      measures: measures.save(),
      traffic: traffic.save(),
      alertCount,
      alerts: [...alerts],
    };
  }

  /** @param saved as parsed by parseSavedJudge */
  restore(saved: SavedJudge): void {
    this.baselines.restore(saved.baselines);
    this.tenants.restore(saved.tenants);
    this.everyone.restore(saved.everyone);
    this.measures.restore(saved.measures);
    this.traffic.restore(saved.traffic);
    this.alertCount = saved.alertCount;
    this.alerts = [...saved.alerts];
  }

  private judgeDrafted(observation: Observation, cost: Cost, cell: ReturnType<Baselines['of']>): Judgment {
    const { tenant, endedMs, measure } = observation;
    const { steps, accepted } = observation.speculation!;
    const rank = cell.rank({ steps, accepted });
    const isLow = rank !== undefined && this.baselines.isLow(rank);
    const { isCollapsed, isConclusive, breakEven } = cost;
    this.traffic.count(endedMs);
    const outcome = {
      ...{ isCollapsed, isConclusive, isLow, steps, accepted, breakEven },
      rank: rank?.middle ?? null,
    };
    const alerts = this.alert(observation, outcome);
    // A tenant under a measure teaches nothing: its probes are not what its requests are like.
    if (!isCollapsed && measure === undefined && !this.tenants.isHeld(tenant))
      cell.learn({ tenant, steps, accepted });
    const result = isCollapsed || isLow ? 'bad' : isConclusive ? 'good' : 'inconclusive';
    const lifted = this.measures.learn(observation, result);
    for (const action of lifted) if (action.tenant !== null) this.tenants.clear(action.tenant);
    const actions = [...lifted, ...alerts.flatMap((alert) => this.measures.apply(alert))];
    const name: VerdictName = isCollapsed
      ? 'collapsed'
      : rank === undefined
        ? 'learning'
        : isLow
          ? 'low'
          : 'normal';
    const reason =
      name === 'collapsed'
        ? reasons.collapsed(cost)
        : rank === undefined
          ? reasons.learning(cost, cell.size, this.baselines.minSamples)
          : name === 'low'
            ? reasons.low(cost, rank)
            : reasons.normal(cost, rank);
    return { ...settle(name, cost, rank, reason), alerts, actions };
  }

  private alert(observation: Observation, outcome: Parameters<TenantTests['learn']>[1]): readonly Alert[] {
    const { tenant, model, route, endedMs, id: requestId } = observation;
    const { falseAlertsPerWeek = 1 } = this.options;
    const threshold = falseAlertsPerWeek / this.traffic.perWeek / tests;
    const shared = { atMs: endedMs, model, route, requestId, threshold };
    const down = outcome.isConclusive ? this.everyone.learn(tenant, outcome.isCollapsed) : undefined;
    const found = this.tenants.learn(tenant, outcome, threshold).map((finding) => {
      const { cause, count, requests, probability } = finding;
      return { ...shared, tenant, cause, count, requests, probability, text: describeFinding(finding) };
    });
    const about: Omit<Alert, 'id'>[] = [...found];
    if (down !== undefined) {
      const { count, tenants: requests } = down;
      const text = `Drafting did not pay for the latest request of ${count} of ${requests} tenants: check the drafter.`;
      about.push({ ...shared, tenant: null, cause: 'drafter-down', count, requests, probability: 0, text });
    }
    return about.map((alert) => {
      this.alertCount += 1;
      const numbered = { id: `alert-${this.alertCount}`, ...alert };
      this.alerts.push(numbered);
      if (this.alerts.length > maxAlerts) this.alerts.shift();
      return numbered;
    });
  }
}

const unknown: VerdictNumbers = {
  acceptedLength: null,
  steps: null,
  upperBound: null,
  breakEven: null,
  rank: null,
  baseline: null,
};

function settle(name: VerdictName, cost: Cost, rank: Rank | undefined, reason: string): Judgment {
  const numbers = {
    acceptedLength: round(cost.acceptedLength),
    steps: cost.steps,
    upperBound: round(cost.upperBound),
    breakEven: round(cost.breakEven),
    rank: rank === undefined ? null : round(rank.lowOrLower),
    baseline: rank?.samples ?? null,
  };
  return judged({ name, numbers, reason });
}

function unreadable(reason: string, cost?: Cost): Judgment {
  const numbers =
    cost === undefined
      ? unknown
      : { ...unknown, acceptedLength: round(cost.acceptedLength), steps: cost.steps };
  return judged({ name: 'unreadable', numbers, reason });
}

const judged = (verdict: Verdict): Judgment => ({ verdict, alerts: [], actions: [] });
const round = (value: number): number => Math.round(value * 1e4) / 1e4;

function checkRange(what: string, value: number, above: number, max: number): void {
  if (value > above && value <= max) return;
  throw new MistletoeError('usage', `${what} is ${value}; expected more than ${above} and at most ${max}.`, {
    hint: 'Set for example 0.01 for the share of requests, 1 for the alerts per week, and 1.2 for the break-even point.',
  });
}
