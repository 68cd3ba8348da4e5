/**
 * Which attacks on drafters does the guard detect? Weeks of benign requests of 40 tenants and attacking tenants, drawn from
 * decoded requests (guard-traces.ts) and judged by the guard's code. guard-live.ts has the live experiment.
 *
 * Run: npm run bench -- guard-detection [DRAFTER,...]
 */
import { type Random, createRandom } from '../src/core/random.js';
import { sum } from '../src/core/vector.js';
import type { BundledDrafter } from '../src/core/package-files.js';
import { Judge } from '../src/guard/judge/judge.js';
import type { Observation } from '../src/guard/observation.js';
import { type Trace, draftLength, planAttacks, planBenign, traceAll } from './guard-traces.js';
import { median, printTable } from './stopwatch.js';

const [chosen = 'sps,eagle3'] = process.argv.slice(2);
const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;

const tenantCount = 40;
const requestsPerWeek = 10_080;
const minuteMs = 60_000;
const maxRequests = 200;
/** A benign new tenant shows the false alerts. */
const campaigns = [
  ...[1, 0.5, 0.25].map((share) => ({ isNew: true, share, runs: 20 })),
  ...[1, 0.5].map((share) => ({ isNew: false, share, runs: 40 })),
  { isNew: true, share: 0, runs: 200 },
] as const;

async function simulate(drafters: readonly BundledDrafter[]): Promise<void> {
  const plans = await planBenign(300);
  const weeks = [['drafter', 'tenants', 'benign requests', 'low', 'collapsed', 'tenant alerts', 'measures']];
  const attacks = [
    ['drafter', 'tenants', 'attacker', 'attacked share', 'found', 'median requests', 'max', 'by'],
  ];
  for (const drafter of drafters) {
    const traces = await traceAll(drafter, [...plans, ...planAttacks(plans, drafter)]);
    const benign = traces.filter(({ kind }) => kind === 'benign');
    const attacked = traces.filter(({ kind }) => kind !== 'benign');
    const sets = [...new Set(benign.map(({ set }) => set))];
    for (const kind of ['mixed', 'one set each'] as const) {
      const sources = Array.from({ length: tenantCount }, (_, tenant) =>
        kind === 'mixed' ? benign : benign.filter(({ set }) => set === sets[tenant % sets.length]),
      );
      const judge = runWeek(sources);
      weeks.push([drafter, kind, String(requestsPerWeek), ...judge.row]);
      for (const { isNew, share, runs } of campaigns) {
        const found = Array.from({ length: runs }, (_, seed) =>
          runCampaign(judge.saved, sources, { attacked, isNew, share, seed }),
        ).filter((run) => run !== undefined);
        const counts = found.map(({ requests }) => requests);
        const causes = [...new Set(found.map(({ cause }) => cause))].join(', ');
        const until = found.length === 0 ? ['-', '-'] : [String(median(counts)), String(Math.max(...counts))];
        const attacker = isNew ? 'new' : 'known';
        const ofRuns = `${found.length} of ${runs}`;
        attacks.push([drafter, kind, attacker, percent(share), ofRuns, ...until, causes]);
      }
    }
  }
  printTable(weeks, `A benign week of ${tenantCount} tenants`);
  printTable(attacks, `A tenant that attacks after that week, up to ${maxRequests} requests`);
}

const draw = (random: Random, traces: readonly Trace[]): Trace => traces[random.nextInteger(traces.length)]!;

function runWeek(sources: readonly (readonly Trace[])[]): {
  readonly row: readonly string[];
  readonly saved: ReturnType<Judge['save']>;
} {
  const random = createRandom(1, 'week');
  const judge = new Judge({ measures: { action: 'plain-upstream' } });
  const counts = { low: 0, collapsed: 0, alerts: 0, measures: 0 };
  for (let request = 0; request < requestsPerWeek; request++) {
    const tenant = random.nextInteger(sources.length);
    const trace = draw(random, sources[tenant]!);
    const judgment = judge.judge(toObservation(trace, `tenant-${tenant}`, request * minuteMs));
    const { name } = judgment.verdict;
    if (name === 'low' || name === 'collapsed') counts[name] += 1;
    counts.alerts += judgment.alerts.length;
    counts.measures += judgment.actions.length;
  }
  const { low, collapsed, alerts, measures } = counts;
  const row = [percent(low / requestsPerWeek), percent(collapsed / requestsPerWeek), String(alerts)];
  return { row: [...row, String(measures)], saved: judge.save() };
}

function runCampaign(
  saved: ReturnType<Judge['save']>,
  sources: readonly (readonly Trace[])[],
  options: {
    readonly attacked: readonly Trace[];
    readonly isNew: boolean;
    readonly share: number;
    readonly seed: number;
  },
): { readonly requests: number; readonly cause: string } | undefined {
  const random = createRandom(options.seed, 'campaign');
  const judge = new Judge();
  judge.restore(saved);
  let atMs = requestsPerWeek * minuteMs;
  const own = options.seed % sources.length;
  const attacker = options.isNew ? 'attacker' : `tenant-${own}`;
  for (let requests = 1; requests <= maxRequests; requests++) {
    for (let other = 0; other < 3; other++) {
      const tenant = (own + 1 + random.nextInteger(sources.length - 1)) % sources.length;
      judge.judge(toObservation(draw(random, sources[tenant]!), `tenant-${tenant}`, (atMs += minuteMs)));
    }
    const isAttack = random.next() < options.share;
    const trace = draw(random, isAttack ? options.attacked : sources[own]!);
    const { alerts } = judge.judge(toObservation(trace, attacker, (atMs += minuteMs)));
    const alert = alerts.find(({ tenant }) => tenant === attacker);
    if (alert !== undefined) return { requests, cause: alert.cause };
  }
  return undefined;
}

function toObservation(trace: Trace, tenant: string, endedMs: number): Observation {
  const { id, accepted, proposed, promptTokens, tokens } = trace;
  return {
    ...{ id, tenant, endedMs, model: 'reference', route: '/v1/chat/completions', engine: 'mistletoe' },
    ...{ status: 200, ending: 'complete', upstream: 'speculative', isStream: true },
    ...{ promptTokens, completionTokens: tokens, firstByteMs: null, totalMs: 0 },
    speculation: {
      evidence: 'reported',
      steps: accepted.length,
      accepted: sum(accepted),
      proposed: sum(proposed),
      perStepAccepted: accepted,
      perStepProposed: proposed,
      histogram: null,
      draftLength,
      isTree: false,
    },
  };
}

await simulate(chosen.split(',') as BundledDrafter[]);
