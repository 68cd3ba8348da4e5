/**
 * Looks at a running engine from outside and says what it can be asked for: which engine, how it drafts, which telemetry of
 * acceptance it gives and the flag that is missing. It reads; it generates nothing and changes nothing.
 */
import { MistletoeError } from '../core/errors.js';
import type { GetOptions } from './bounded-get.js';
import type { EngineCounters } from './engine-counters.js';
import { lengthSinceStart, readEngineCounters } from './engine-counters.js';
import { examiners } from './engine-findings.js';
import type { Probes } from './engine-probe.js';
import {
  metricsOf,
  modelsOf,
  parseEngineUrl,
  probeServer,
  recogniseServer,
  serverInfoOf,
} from './engine-probe.js';
import type { EngineReport } from './engine-report.js';
import { shownText } from './engine-report.js';
import { asList, asObject } from './speculation/reading.js';

export type ExamineOptions = Pick<GetOptions, 'fetch' | 'key' | 'timeoutMs' | 'signal'>;

/**
 * @example
 * const { engine, perRequest } = await examineEngine('http://localhost:8000');
 * perRequest.remedy; // '--per-request-spec-decode-metrics summary'
 */
export async function examineEngine(url: string, options: ExamineOptions = {}): Promise<EngineReport> {
  const base = parseEngineUrl(url);
  const probes = await probeServer(base, options);
  requireAnswer(base, probes, options.key !== undefined);
  const engine = recogniseServer(probes);
  const metrics = metricsOf(probes);
  const counters = readEngineCounters(metrics?.samples ?? []).find((each) => each.engine === engine);
  const metricNames = metrics === undefined ? undefined : new Set(metrics.samples.map(({ name }) => name));
  const { version, drafting, perRequest, aggregate, notes } = examiners[engine]({
    probes,
    metricNames,
    counters,
  });
  return {
    url: base.href.replace(/\/$/, ''),
    engine,
    version,
    models: namesOf(probes),
    drafting,
    perRequest,
    aggregate,
    acceptedLength: acceptedLengthOf(probes, counters),
    notes: [...notes, ...keyNotes(probes, options.key !== undefined)],
    probes: [...probes.values()].map(({ path, status, failure }) => ({ path, status, failure })),
  };
}

function requireAnswer(base: URL, probes: Probes, hasKey: boolean): void {
  const all = [...probes.values()];
  const failure = all.find((probe) => probe.failure !== null)?.failure;
  if (all.every(({ status }) => status === null))
    throw new MistletoeError('network', `${base.host} cannot be examined: ${failure ?? 'no answer'}.`, {
      hint: 'Check the address, and whether the server runs and has loaded its model.',
    });
  if (all.every(({ status }) => status === null || status === 401 || status === 403))
    throw new MistletoeError('usage', `${base.host} refuses to be read without a key that it knows.`, {
      hint: hasKey
        ? 'Check the key in the variable of --key-env.'
        : 'Name a variable that holds the key with --key-env.',
    });
}

function keyNotes(probes: Probes, hasKey: boolean): readonly string[] {
  const refused = [...probes.values()].filter(({ status }) => status === 401 || status === 403);
  if (refused.length === 0) return [];
  const paths = refused.map(({ path }) => path).join(', ');
  return [`Not shown ${hasKey ? 'with this key' : 'without a key (--key-env)'}: ${paths}.`];
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
  const counted = counters === undefined ? undefined : lengthSinceStart(counters);
  if (counted !== undefined) return { value: counted, over: 'all steps since its start' };
  const state = asObject(asList(serverInfoOf(probes)?.internal_states)?.[0]);
  const average = state?.avg_spec_accept_length;
  if (typeof average === 'number' && average >= 1)
    return { value: average, over: 'all steps since its start' };
  const recent = counters?.recentLength ?? 0;
  return recent >= 1 ? { value: recent, over: 'the last moments' } : null;
}
