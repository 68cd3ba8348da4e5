/**
 * Watches requests and says which are out of the usual. Nothing here knows of a network or a clock: the same records in the same
 * order give the same alarms. A request is judged within itself (sequential-test.ts), with the others of its tenant
 * (tenant-test.ts) and with those of everybody (everyone-test.ts), against what was learnt from the operator's own
 * traffic (learning.ts). Memory is bounded however many tenants, streams and requests there are.
 */
import { MistletoeError } from '../core/errors.js';
import type { Alarm } from './alarm.js';
import type { Expectation, Population } from './baseline.js';
import type { HalfLives } from './baseline-cell.js';
import { GroupTests } from './group-tests.js';
import { Learning } from './learning.js';
import type { SavedMonitor } from './monitor-state.js';
import { parseMonitorState } from './monitor-state.js';
import type { StreamState, Verdict } from './page-state.js';
import type { UnlikelyTail } from './prompt-tail.js';
import type { RequestCounts } from './request-counts.js';
import { countRequest, stepsOf } from './request-counts.js';
import type { Evidence as Measured, RequestRecord, Stream } from './request-record.js';
import type { AlarmLevels, Evidence } from './sequential-test.js';
import { divideFalseAlarms, leastSteps } from './sequential-test.js';
import { StreamHistory } from './stream-history.js';
import { limitEvidence } from './tenant-test.js';
import type { RequestFacts } from './watch.js';
import { StepWatch } from './watch.js';

export interface MonitorOptions {
  /** The share of benign requests that may ring. */
  readonly falseAlarms?: number;
  /** False alarms about tenants, or about everybody, that a week may bring. */
  readonly falseAlarmsPerWeek?: number;
  /** Taken for what a week brings until more has been seen. */
  readonly leastRequestsPerWeek?: number;
  /** Tenants that are remembered. */
  readonly tenantLimit?: number;
  readonly halfLives?: Partial<HalfLives>;
}

export interface Finished {
  readonly alarms: readonly Alarm[];
  readonly verdict: Verdict;
}

export interface Watch {
  /** A step, or what is taken for one; null where it is not known what was proposed. */
  step(accepted: number, proposed: number | null, atMs: number): Alarm | undefined;
  /** Alarms that have not been told by `step`. */
  finish(record: RequestRecord): Finished;
}

export interface MonitorSnapshot {
  readonly streams: readonly StreamState[];
  /** Newest first. */
  readonly alarms: readonly Alarm[];
  readonly tenants: number;
  /** [model] share of tenants, or of requests where there are few tenants, that are low now. */
  readonly shareLow: Readonly<Record<string, number>>;
}

const mostAlarms = 200;

export class Monitor {
  private readonly levels: AlarmLevels;
  private readonly learning: Learning;
  private readonly groups: GroupTests;
  private readonly history = new StreamHistory();
  private alarms: Alarm[] = [];
  private alarmCount = 0;

  constructor(options: MonitorOptions = {}) {
    const { falseAlarms = 0.01, falseAlarmsPerWeek = 1, tenantLimit = 10_000 } = options;
    checkRate('The share of benign requests that may ring', falseAlarms, 0.5);
    checkRate('The number of false alarms a week', falseAlarmsPerWeek, 1e6);
    this.levels = divideFalseAlarms(falseAlarms);
    const { leastRequestsPerWeek = 10_000, halfLives } = options;
    this.groups = new GroupTests({ falseAlarmsPerWeek, leastRequestsPerWeek, tenantLimit });
    this.learning = new Learning({
      ...{ levels: this.levels, tenantLimit, halfLives },
      isHeld: (tenant) => this.groups.tenants.isHeld(tenant),
    });
  }

  begin({ model, route }: Stream, tenant: string, id: string, facts: RequestFacts = {}): Watch {
    const stream = { model, route };
    const watched = this.watch(
      { ...stream, sort: sortOf(facts.evidence ?? 'reported', 'steps') },
      tenant,
      id,
      facts,
    );
    return {
      step: (accepted, proposed, atMs) => watched.step(accepted, proposed, atMs),
      finish: (record) => this.finish(record, facts, watched),
    };
  }

  /** A finished request that nobody watched: the same as stepping through it, where its steps are known. */
  observe(record: RequestRecord): Finished {
    return this.finish(record, {}, undefined);
  }

  /** After a change of drafter or model: begins to learn anew. */
  forget(model: string): void {
    this.learning.forget(model);
    this.groups.everyone.forget(model);
  }

  snapshot(): MonitorSnapshot {
    const known = this.learning.populations();
    const streams = this.history.list().map(({ model, route, history }): StreamState => {
      const own = known.filter((population) => population.model === model && population.route === route);
      const [most] = own.sort((left, right) => right.learnt - left.learnt);
      const band = most && this.learning.expect(most)?.band();
      return { model, route, history, baseline: band ?? null, learnt: most?.learnt ?? 0 };
    });
    const models = [...new Set(streams.map(({ model }) => model))];
    return {
      streams,
      alarms: [...this.alarms].reverse(),
      tenants: this.groups.tenants.size,
      shareLow: Object.fromEntries(models.map((model) => [model, this.groups.everyone.shareLow(model)])),
    };
  }

  save(): SavedMonitor {
    const { alarmCount, alarms } = this;
    return {
      version: 2,
      ...this.learning.save(),
      ...this.groups.save(),
      ...{ alarmCount, alarms },
    };
  }

  /** Takes what `save` gave, as read from a file. */
  restore(saved: unknown): void {
    const state = parseMonitorState(saved);
    this.learning.restore(state);
    this.groups.restore(state);
    this.alarmCount = state.alarmCount;
    this.alarms = [...state.alarms];
  }

  private watch(population: Population, tenant: string, id: string, facts: RequestFacts): StepWatch {
    const { model, route } = population;
    const expectation = this.learning.expect(population);
    return new StepWatch({
      ...{ stream: { model, route }, tenant, id, facts, levels: this.levels, expectation },
      threshold: this.learning.threshold(population, expectation),
      caution: this.learning.cautionOf(tenant),
      isWide: () => this.groups.everyone.isWide(model),
      likenessOf: (print) => this.learning.likenessOf(print),
      findUnlikely: (tail) => this.learning.findUnlikely(model, tail),
      ring: (alarm) => this.ring(alarm),
    });
  }

  private finish(record: RequestRecord, facts: RequestFacts, begun: StepWatch | undefined): Finished {
    const { id, tenant, endedMs, speculation, promptTokens, promptPrint, promptTail } = record;
    const { model, route } = record;
    const isDrafted = record.upstream === 'speculative' && speculation !== null;
    const evidence = isDrafted ? speculation.evidence : (facts.evidence ?? 'reported');
    const counts = isDrafted ? countRequest(speculation) : begun?.counts;
    if (counts === undefined || counts.steps < leastSteps || record.upstream === 'plain') {
      const hasRung = begun?.hasRung ?? { low: false, high: false };
      if (record.upstream === 'speculative') this.history.add(record, endedMs, counts, undefined);
      return { alarms: [], verdict: hasRung.low ? 'low' : hasRung.high ? 'high' : 'unknown' };
    }
    const population = { model, route, sort: sortOf(evidence, counts.kind) };
    const isSame =
      begun !== undefined &&
      begun.counts?.steps === counts.steps &&
      (facts.evidence ?? 'reported') === evidence;
    const known = { promptTokens, promptPrint, promptTail, ...facts };
    const watched = isSame ? begun : this.watch(population, tenant, id, known);
    // What rang on an estimate while the answer ran does not ring again when the engine's own counts agree.
    if (!isSame && begun !== undefined) Object.assign(watched.isTold, begun.hasRung);
    const steps = isDrafted && !isSame ? stepsOf(speculation) : undefined;
    const alarms: Alarm[] = [];
    for (const step of steps ?? []) {
      const alarm = watched.step(step.accepted, step.proposed, endedMs);
      if (alarm !== undefined) alarms.push(alarm);
    }
    let last: Evidence | undefined = watched.now;
    let peak = watched.peak;
    if (steps === undefined && !isSame) {
      const weighed = watched.weigh(counts, endedMs);
      last = peak = weighed.evidence;
      if (weighed.alarm !== undefined) alarms.push(weighed.alarm);
    }
    const expectation = this.learning.expect(population);
    this.history.add(record, endedMs, counts, expectation?.band());
    const { hasRung } = watched;
    const verdict: Verdict =
      expectation === undefined || last === undefined || peak === undefined
        ? 'unknown'
        : hasRung.low
          ? 'low'
          : hasRung.high
            ? 'high'
            : 'usual';
    const judged = { record, population, counts, verdict, hasRungLow: hasRung.low, peak, expectation };
    this.learning.tune(judged);
    if (verdict !== 'unknown') alarms.push(...this.judgeGroups(record, counts, last!, expectation!));
    if (verdict === 'low') this.groups.tenants.hold(tenant);
    if (this.learning.learn(judged) && expectation !== undefined)
      this.groups.learnLevel(record, counts, expectation);
    return { alarms, verdict };
  }

  private judgeGroups(
    record: RequestRecord,
    counts: RequestCounts,
    { low }: Evidence,
    expectation: Expectation,
  ): Alarm[] {
    const factor = limitEvidence(low, this.levels);
    const findTail = (): UnlikelyTail | undefined =>
      this.learning.findUnlikely(record.model, record.promptTail);
    const alarms = this.groups.learn({ record, counts, evidence: low, factor, findTail }, expectation);
    if (alarms.some(({ scope }) => scope === 'tenant')) this.learning.accuse(record.tenant);
    return alarms.map((alarm) => this.ring(alarm));
  }

  private ring(alarm: Omit<Alarm, 'id'>): Alarm {
    this.alarmCount += 1;
    const numbered = { id: `alarm-${this.alarmCount}`, ...alarm };
    this.alarms.push(numbered);
    if (this.alarms.length > mostAlarms) this.alarms.shift();
    return numbered;
  }
}

const sortOf = (evidence: Measured, kind: RequestCounts['kind']): string => `${evidence}:${kind}`;

function checkRate(what: string, rate: number, most: number): void {
  if (rate > 0 && rate <= most) return;
  throw new MistletoeError('usage', `${what} is ${rate}; more than 0 and at most ${most} was expected.`, {
    hint: 'Give for example 0.01 for the share of requests and 1 for the alarms a week.',
  });
}
