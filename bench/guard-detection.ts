/**
 * Does the guard catch attacks, and act on them? Two parts:
 *
 *   live       `serve` (draft model, chains of four) behind `guard` (plain-upstream for tenants). Six suffixes that the audit
 *              found are mixed with benign prompts, after 0, 50 and 200 benign requests.
 *   simulated  weeks of benign requests of 40 tenants and attacking tenants, drawn from decoded requests (guard-traces.ts),
 *              judged by the same code.
 *
 * Run: npm run bench:guard-detection [-- live | simulated [DRAFTER,...]]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Random } from '../src/core/random.js';
import { createRandom } from '../src/core/random.js';
import type { BundledDrafter } from '../src/decode/bundled-models.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { configureGuard } from '../src/guard/config-file.js';
import { startGuard } from '../src/guard/guard.js';
import { Judge } from '../src/guard/judge/judge.js';
import type { Verdict } from '../src/guard/judge/verdict.js';
import type { Observation } from '../src/guard/observation.js';
import { replayFile } from '../src/guard/records/replay.js';
import { startServer } from '../src/serve/serve.js';
import type { Trace, TracePlan } from './guard-traces.js';
import { draftLength, planAttacks, planBenign, traceAll } from './guard-traces.js';
import { median, printTable } from './stopwatch.js';

const [part = 'all', chosen = 'sps,eagle3'] = process.argv.slice(2);
const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;

async function runLive(): Promise<void> {
  const maxTokens = 44;
  const attackRequests = 12;
  const benign = (await planBenign(0)).filter(({ set }) => set !== 'bundled');
  const attacks = planAttacks(benign, 'sps').slice(0, 6);
  const shared = { target: bundledTarget, threads: 1, port: 0, metricsLevel: 'detailed' } as const;
  const server = await startServer({ ...shared, drafters: { sps: 'sps' }, draft: `chain:${draftLength}` });
  const plain = await startServer(shared);
  const random = createRandom(1, 'live');
  const rows = [
    [
      ...['benign before', 'attacks drafted, 32+ steps', 'called collapsed', 'accepted length'],
      ...['attacks until the measure', 'measures on benign tenants', 'verdicts that differ in replay'],
      ...['attacker after the measure, of plain'],
    ],
  ];
  for (const before of [0, 50, 200]) {
    const folder = mkdtempSync(join(tmpdir(), 'guard-detection-'));
    const guard = await startGuard(
      configureGuard({
        ...{ upstream: server.url, plainUpstream: plain.url, port: 0, operator: { port: 0 } },
        ...{ records: { folder }, tenant: { from: 'header', header: 'x-tenant' } },
        mitigation: { action: 'plain-upstream' },
      }),
    );
    const send = async (url: string, tenant: string, { text }: TracePlan): Promise<number> => {
      const startMs = performance.now();
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-tenant': tenant },
        body: JSON.stringify({
          ...{ model: server.modelName, max_tokens: maxTokens, temperature: 0 },
          messages: [{ role: 'user', content: text }],
        }),
      });
      await response.text();
      return performance.now() - startMs;
    };
    const sendBenign = (index: number): Promise<number> =>
      send(guard.url, `tenant-${index % 6}`, benign[random.nextInteger(benign.length)]!);
    for (let index = 0; index < before; index += 5)
      await Promise.all([0, 1, 2, 3, 4].map((offset) => sendBenign(index + offset)));
    const ratios: number[] = [];
    for (let index = 0; index < attackRequests; index++) {
      const attack = attacks[index % attacks.length]!;
      const ms = await send(guard.url, 'attacker', attack);
      if (index >= 6) ratios.push((await send(plain.url, 'attacker', attack)) / ms);
      await sendBenign(index);
    }
    await guard.close();
    const judged: { record: Observation; verdict: Verdict }[] = [];
    const replay = await replayFile(folder, {
      measures: { action: 'plain-upstream' },
      onJudged: (record, { verdict }) => judged.push({ record, verdict }),
    });
    rmSync(folder, { recursive: true });
    const applied = replay.actions.filter(({ change }) => change === 'applied');
    const attacker = applied[0]?.tenant;
    const own = judged.filter(({ record }) => record.tenant === attacker);
    const drafted = own.filter(({ record }) => (record.speculation?.steps ?? 0) >= 32);
    const until = own.findIndex(({ record }) => record.id === applied[0]?.requestId) + 1;
    const lengths = drafted.map(({ verdict }) => verdict.numbers.acceptedLength ?? 0);
    rows.push([
      ...[String(before), String(drafted.length)],
      String(drafted.filter(({ verdict }) => verdict.name === 'collapsed').length),
      `${Math.min(...lengths).toFixed(2)}-${Math.max(...lengths).toFixed(2)}`,
      ...[
        String(until),
        String(applied.length - 1),
        String(replay.different),
        `${median(ratios).toFixed(2)}x`,
      ],
    ]);
  }
  await Promise.all([server.close(), plain.close()]);
  printTable(rows);
}

const tenantCount = 40;
const requestsPerWeek = 10_080;
const minuteMs = 60_000;
const campaigns = 20;
const maxAttack = 200;

async function simulate(drafters: readonly BundledDrafter[]): Promise<void> {
  const plans = await planBenign(300);
  const weeks = [['drafter', 'tenants', 'benign requests', 'low', 'collapsed', 'tenant alerts', 'measures']];
  const attacks = [['drafter', 'tenants', 'attacked share', 'found', 'median requests', 'max', 'by']];
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
      for (const share of [1, 0.5, 0.25]) {
        const runs = Array.from({ length: campaigns }, (_, seed) =>
          runCampaign(judge.saved, sources, { attacked, share, seed }),
        );
        const found = runs.filter((run) => run !== undefined);
        const counts = found.map(({ requests }) => requests);
        const causes = [...new Set(found.map(({ cause }) => cause))].join(', ');
        const until = found.length === 0 ? ['-', '-'] : [String(median(counts)), String(Math.max(...counts))];
        attacks.push([drafter, kind, percent(share), `${found.length} of ${campaigns}`, ...until, causes]);
      }
    }
  }
  console.log(`\nA benign week of ${tenantCount} tenants\n`);
  printTable(weeks);
  console.log('\nA new tenant that attacks, while the others continue\n');
  printTable(attacks);
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
  options: { readonly attacked: readonly Trace[]; readonly share: number; readonly seed: number },
): { readonly requests: number; readonly cause: string } | undefined {
  const random = createRandom(options.seed, 'campaign');
  const judge = new Judge();
  judge.restore(saved);
  let atMs = requestsPerWeek * minuteMs;
  for (let requests = 1; requests <= maxAttack; requests++) {
    for (let other = 0; other < 3; other++) {
      const tenant = random.nextInteger(sources.length);
      judge.judge(toObservation(draw(random, sources[tenant]!), `tenant-${tenant}`, (atMs += minuteMs)));
    }
    const isAttack = random.next() < options.share;
    const trace = draw(random, isAttack ? options.attacked : sources[0]!);
    const { alerts } = judge.judge(toObservation(trace, 'attacker', (atMs += minuteMs)));
    const own = alerts.find(({ tenant }) => tenant === 'attacker');
    if (own !== undefined) return { requests, cause: own.cause };
  }
  return undefined;
}

function toObservation(trace: Trace, tenant: string, endedMs: number): Observation {
  const { id, accepted, proposed, promptTokens, tokens } = trace;
  const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
  return {
    ...{ id, tenant, endedMs, model: 'reference', route: '/v1/chat/completions', engine: 'mistletoe' },
    ...{ status: 200, ending: 'complete', upstream: 'speculative', isStream: true },
    ...{ promptTokens, completionTokens: tokens, firstByteMs: null, totalMs: 0 },
    speculation: {
      ...{ evidence: 'reported', steps: accepted.length, accepted: sum(accepted), proposed: sum(proposed) },
      ...{
        perStepAccepted: accepted,
        perStepProposed: proposed,
        histogram: null,
        draftLength,
        isTree: false,
      },
    },
  };
}

if (part !== 'simulated') await runLive();
if (part !== 'live') await simulate(chosen.split(',') as BundledDrafter[]);
