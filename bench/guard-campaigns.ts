/** The simulated weeks and campaigns of guard-tenants.ts as tables, a part of each for every drafter. */
import { calibrate } from './guard-scores.js';
import type { Campaign } from './guard-tenants.js';
import {
  requestsPerWeek,
  ruleWindow,
  simulateBenignWeek,
  simulateCampaign,
  simulateGate,
} from './guard-tenants.js';
import type { Found } from './guard-missed.js';
import { median } from './stopwatch.js';

export const campaigns = 10;
/** After the one that campaigns begin with. */
export const furtherWeeks = 4;

export const percent = (share: number, digits = 0): string => `${(100 * share).toFixed(digits)} %`;
export const middle = (values: readonly (number | undefined)[]): string => {
  const found = values.filter((value) => value !== undefined);
  return found.length === 0 ? '-' : median(found).toFixed(0);
};
export const shareFound = (values: readonly (number | undefined)[]): number =>
  values.filter((value) => value !== undefined).length / values.length;

export type Table = string[][];

const foundAs = [
  ...['found by a request', 'requests until then', 'found as a tenant', 'of these by level'],
  ...['requests until then', `fixed threshold over ${ruleWindow}`, 'requests until then'],
];

export const weekTables: Record<'week' | 'weeks' | 'campaigns' | 'known' | 'gate', Table> = {
  week: [
    [
      ...['drafter', 'tenants', 'alarms of requests', 'share of requests', 'highest share of a tenant'],
      ...['alarms of tenants', 'alarms of everybody'],
    ],
  ],
  weeks: [['drafter', 'tenants', 'weeks', 'alarms of tenants', 'tenants that rang', 'alarms of everybody']],
  campaigns: [['drafter', 'attacked share', ...foundAs, 'alarms of other tenants']],
  known: [['drafter', 'the tenant asks from', 'attacked share', ...foundAs, 'alarms of other tenants']],
  gate: [['drafter', 'attacked share of all traffic', 'switched off for everybody', 'requests until then']],
};

export function simulate({ drafter, calibration, benign, attacked }: Found): void {
  const benignTraces = benign.map(({ trace }) => trace);
  const attackedTraces = attacked.map(({ trace }) => trace);
  const calibrated = calibrate(calibration);
  const [mixed, specialised] = (['mixed', 'specialised'] as const).map((tenants) => {
    const week = simulateBenignWeek(calibrated, benignTraces, tenants);
    const name = tenants === 'mixed' ? 'mixed' : 'one set each';
    weekTables.week.push([
      ...[drafter, name, String(week.requestAlarms), percent(week.requestAlarms / requestsPerWeek, 2)],
      percent(week.highestOfTenants, 1),
      ...[String(week.tenantAlarms), String(week.everyoneAlarms)],
    ]);
    const more = Array.from({ length: furtherWeeks }, (_, index) =>
      simulateBenignWeek(calibrated, benignTraces, tenants, index + 2),
    );
    const sum = (pick: (each: typeof week) => number): string =>
      String(more.reduce((total, each) => total + pick(each), 0));
    weekTables.weeks.push([
      ...[drafter, name, String(furtherWeeks), sum(({ tenantAlarms }) => tenantAlarms)],
      ...[sum(({ tenantsThatRang }) => tenantsThatRang), sum(({ everyoneAlarms }) => everyoneAlarms)],
    ]);
    return week;
  });
  // The best that the rules can do: one tenant of the benign week rings, and the gate stays open all of it.
  const ruleOf = ({ lowestOfTenants }: typeof mixed & {}): number =>
    [...lowestOfTenants].sort((left, right) => left - right)[1]!;
  // Without attacks it says how often 200 requests ring by chance.
  for (const share of [1, 0.5, 0.25, 0.1, 0]) {
    const options = { share, ruleThreshold: ruleOf(mixed!) };
    const runs = Array.from({ length: campaigns }, (_, seed) =>
      simulateCampaign(mixed!, benignTraces, attackedTraces, { ...options, seed }),
    );
    weekTables.campaigns.push([drafter, percent(share), ...describeRuns(runs)]);
  }
  for (const set of new Set(attackedTraces.map((trace) => trace.set))) {
    const tenant = specialised!.sources.findIndex((source) => source[0]!.set === set);
    const own = attackedTraces.filter((trace) => trace.set === set);
    for (const share of [1, 0]) {
      const options = { share, ruleThreshold: ruleOf(specialised!), tenant };
      const runs = Array.from({ length: campaigns }, (_, seed) =>
        simulateCampaign(specialised!, specialised!.sources[tenant]!, own, { ...options, seed }),
      );
      weekTables.known.push([drafter, set, percent(share), ...describeRuns(runs)]);
    }
  }
  for (const share of [0.02, 0.05, 0.1, 0.2, 0.4]) {
    const runs = Array.from({ length: campaigns }, (_, seed) =>
      simulateGate(benignTraces, attackedTraces, { share, threshold: mixed!.lowestOfAll, seed }),
    );
    weekTables.gate.push([drafter, percent(share), percent(shareFound(runs)), middle(runs)]);
  }
}

function describeRuns(runs: readonly Campaign[]): string[] {
  const share = (pick: (run: Campaign) => number | undefined): string => percent(shareFound(runs.map(pick)));
  const until = (pick: (run: Campaign) => number | undefined): string => middle(runs.map(pick));
  const byLevel = runs.filter(({ isLevel }) => isLevel).length / runs.length;
  return [
    ...[share(({ byRequest }) => byRequest), until(({ byRequest }) => byRequest)],
    ...[share(({ byTenant }) => byTenant), percent(byLevel), until(({ byTenant }) => byTenant)],
    ...[share(({ byRule }) => byRule), until(({ byRule }) => byRule)],
    String(runs.reduce((sum, { alarmsOfOthers }) => sum + alarmsOfOthers, 0)),
  ];
}
