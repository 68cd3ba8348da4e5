/** Examines a running engine from outside: how it drafts, what it reports, and which flag is missing. It only reads. */
import { MistletoeError } from '../../core/errors.js';
import type { EngineName } from '../observation.js';
import type { EngineAdapter, Findings, Seen } from './adapter.js';
import { draftingByCounters, estimatedFromStreams, report, shownText, unknownDrafting } from './adapter.js';
import { asList, asObject } from './claim.js';
import { type EngineCounters, draftedLength, readEngineCounters, tokensPerPass } from './counters.js';
import { adapterOf, recognizeServer } from './engine-list.js';
import type { GetOptions, Probes } from './probe.js';
import { metricsOf, modelsOf, parseEngineUrl, probeAll, serverInfoOf } from './probe.js';

export type ExamineOptions = Pick<GetOptions, 'fetch' | 'key' | 'timeoutMs' | 'signal'>;

export interface EngineReport extends Findings {
  readonly url: string;
  readonly engine: EngineName;
  readonly models: readonly string[];
  /** Mean accepted length, bonus token included, and over what. */
  readonly acceptedLength: { readonly value: number; readonly over: string } | null;
  readonly probes: readonly {
    readonly path: string;
    readonly status: number | null;
    readonly failure: string | null;
  }[];
}

/**
 * @example
 * const { engine, perRequest } = await examineEngine('http://localhost:8000');
 * perRequest.remedy; // '--per-request-spec-decode-metrics summary'
 */
export async function examineEngine(url: string, options: ExamineOptions = {}): Promise<EngineReport> {
  const base = parseEngineUrl(url);
  const probes = await probeServer(base, options);
  requireResponse(base, probes, options.key !== undefined);
  const engine = recognizeServer(probes);
  const adapter = adapterOf(engine);
  const metrics = metricsOf(probes);
  const [counters] = adapter === undefined ? [] : readEngineCounters(metrics ?? [], [adapter]);
  const metricNames = metrics && new Set(metrics.map(({ name }) => name));
  const findings = examine(adapter, { probes, metricNames, counters });
  return {
    url: base.href.replace(/\/$/, ''),
    engine,
    ...findings,
    models: namesOf(probes),
    acceptedLength: acceptedLengthOf(probes, counters),
    notes: [
      ...findings.notes,
      ...draftedShareNotes(counters),
      ...keyNotes(probes, options.key !== undefined),
    ],
    probes: [...probes.values()].map(({ path, status, failure }) => ({ path, status, failure })),
  };
}

const firstPaths = ['/v1/models', '/version', '/server_info', '/props', '/info', '/prometheus/metrics'];

async function probeServer(base: URL, options: GetOptions): Promise<Probes> {
  const first = await probeAll(base, firstPaths, options);
  const engine = recognizeServer(first);
  const later = [
    ...(engine === 'tensorrt-llm' ? [] : ['/metrics']),
    ...(engine === 'llama-cpp' ? ['/slots'] : []),
    ...(first.get('/server_info')?.status === 200 ? [] : ['/get_server_info']),
  ];
  return new Map([...first, ...(await probeAll(base, later, options))]);
}

function requireResponse(base: URL, probes: Probes, hasKey: boolean): void {
  const all = [...probes.values()];
  const failure = all.find((probe) => probe.failure !== null)?.failure;
  if (all.every(({ status }) => status === null))
    throw new MistletoeError('network', `${base.host} cannot be examined: ${failure ?? 'no response'}.`, {
      hint: 'Check the address, and that the server runs and has loaded its model.',
    });
  if (all.every(({ status }) => status === null || status === 401 || status === 403))
    throw new MistletoeError('usage', `${base.host} rejects requests without a valid key.`, {
      hint: hasKey
        ? 'Check the key in the variable of --key-env.'
        : 'Name a variable that contains the key with --key-env.',
    });
}

function examine(adapter: EngineAdapter | undefined, seen: Seen): Findings {
  const { probes, counters, metricNames } = seen;
  const version = shownText(probes.get('/version')?.json?.version);
  if (adapter === undefined)
    return {
      version,
      drafting: unknownDrafting,
      perRequest: report('unseen', estimatedFromStreams),
      aggregate: report('unseen', 'no metrics of a known engine'),
      notes: ['No known engine. If this is a gateway, pass the address of the engine behind it.'],
    };
  let aggregate = report('off', 'the metrics count no drafts');
  if (counters !== undefined) aggregate = report('on', 'counters in /metrics');
  else if (metricNames === undefined) aggregate = report('off', 'no metrics served', adapter.metricsRemedy);
  return { version, drafting: draftingByCounters(seen), aggregate, notes: [], ...adapter.examine(seen) };
}

function keyNotes(probes: Probes, hasKey: boolean): readonly string[] {
  const refused = [...probes.values()].filter(({ status }) => status === 401 || status === 403);
  if (refused.length === 0) return [];
  const paths = refused.map(({ path }) => path).join(', ');
  return [`Not readable ${hasKey ? 'with this key' : 'without a key (--key-env)'}: ${paths}.`];
}

function namesOf(probes: Probes): readonly string[] {
  const listed = modelsOf(probes).flatMap(({ id }) => shownText(id) ?? []);
  if (listed.length > 0) return listed;
  const others = [
    serverInfoOf(probes)?.model_path,
    probes.get('/info')?.json?.model_id,
    probes.get('/props')?.json?.model_path,
  ];
  return others.flatMap((name) => shownText(name) ?? []).slice(0, 1);
}

function acceptedLengthOf(
  probes: Probes,
  counters: EngineCounters | undefined,
): EngineReport['acceptedLength'] {
  const overall = counters && tokensPerPass(counters);
  if (overall !== undefined) return { value: overall, over: 'all passes since the start' };
  const drafted = counters && draftedLength(counters);
  const state = asObject(asList(serverInfoOf(probes)?.internal_states)?.[0]);
  const average = drafted ?? state?.avg_spec_accept_length;
  if (typeof average === 'number' && average >= 1)
    return { value: average, over: 'drafted steps since the start' };
  const recent = counters?.recentLength ?? 0;
  return recent >= 1 ? { value: recent, over: 'the last batches' } : null;
}

/** With n-gram drafters the two lengths differ widely. */
function draftedShareNotes(counters: EngineCounters | undefined): readonly string[] {
  const drafted = counters && draftedLength(counters);
  const passes = (counters?.outputTokens ?? 0) - (counters?.acceptedTokens ?? 0);
  const drafts = counters?.drafts ?? 0;
  if (drafted === undefined || passes <= 0 || drafts > 0.9 * passes) return [];
  const length = drafted.toFixed(2);
  return [`${drafts} of ${passes} passes had a draft; the accepted length over those is ${length}.`];
}
