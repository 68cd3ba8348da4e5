/** The metrics against prom-client, which counts the same requests the long way. */
import { Counter, Histogram, Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { parsePrometheusText } from '../engines/counters.js';
import type { Observation } from '../observation.js';
import { createVerdict } from '../../../test/support/guard/traffic.js';
import { GuardMetrics } from './guard-metrics.js';

const hostile = 'a"b\\c\nd e';

function createRecords(count: number): Observation[] {
  const random = createRandom(3, 'tally');
  const pick = <T>(...values: readonly T[]): T => values[Math.floor(random.next() * values.length)]!;
  return Array.from({ length: count }, (_, index): Observation => {
    const [steps, accepted] = [1 + Math.floor(random.next() * 20), Math.floor(random.next() * 60)];
    return {
      ...{ id: String(index), endedMs: index, isStream: false, promptTokens: 1, completionTokens: 1 },
      ...{ model: pick('m', hostile), route: pick('/v1/completions', '/generate') },
      ...{
        engine: pick('vllm', 'sglang'),
        tenant: pick('t', 'u v'),
        status: pick(0, 200, 200, 204, 429, 502),
      },
      ...{ ending: pick('complete', 'refused'), upstream: pick('speculative', 'speculative', 'plain') },
      // On the bounds, too: what is equal to one belongs below it.
      ...{ totalMs: pick(0, 10, 20.5, 81_920, 90_000), firstByteMs: pick(null, 10, 11) },
      speculation: pick(null, {
        ...{ evidence: pick('reported', 'estimated'), steps, accepted, proposed: pick(null, 2 * accepted) },
        ...{
          histogram: null,
          perStepAccepted: null,
          perStepProposed: null,
          draftLength: null,
          isTree: false,
        },
      }),
    };
  });
}

function countTheLongWay(records: readonly Observation[], tenants: boolean): Promise<string> {
  const registers = [new Registry()];
  const own = ['engine', 'model', 'route', ...(tenants ? ['tenant'] : [])];
  const [help, prefix] = ['.', 'mistletoe_'];
  const counter = (name: string, labelNames: string[]): Counter =>
    new Counter({ name: prefix + name, help, labelNames, registers });
  const histogram = (name: string, labelNames: string[], buckets: number[]): Histogram =>
    new Histogram({ name: prefix + name, help, labelNames, buckets, registers });
  const doubled = Array.from({ length: 14 }, (_, power) => Number((0.01 * 2 ** power).toFixed(2)));
  const lengths = histogram(
    'request_accepted_length',
    [...own, 'evidence'],
    [...[1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16]],
  );
  const steps = counter('spec_steps_total', own);
  const drafted = counter('spec_draft_tokens_total', own);
  const accepted = counter('spec_accepted_tokens_total', own);
  const verdicts = counter('verdicts_total', [...own, 'verdict']);
  const silent = counter('requests_without_telemetry_total', own);
  const requests = counter('requests_total', ['route', 'upstream', 'ending', 'status']);
  const duration = histogram('request_duration_seconds', ['route'], doubled);
  const firstByte = histogram('time_to_first_byte_seconds', ['route'], doubled);
  for (const { engine, model, route, tenant, status, upstream, ending, ...rest } of records) {
    const { speculation } = rest;
    requests.inc({ route, upstream, ending, status: status === 0 ? 'none' : `${String(status)[0]!}xx` });
    duration.observe({ route }, rest.totalMs / 1000);
    if (rest.firstByteMs !== null) firstByte.observe({ route }, rest.firstByteMs / 1000);
    if (upstream === 'plain' || status < 200 || status > 299) continue;
    const labels = { engine, model, route, ...(tenants ? { tenant } : {}) };
    verdicts.inc({ ...labels, verdict: 'low' });
    if (speculation === null) silent.inc(labels);
    else {
      steps.inc(labels, speculation.steps);
      accepted.inc(labels, speculation.accepted);
      if (speculation.proposed !== null) drafted.inc(labels, speculation.proposed);
      const length = 1 + speculation.accepted / speculation.steps;
      lengths.observe({ ...labels, evidence: speculation.evidence }, length);
    }
  }
  return registers[0]!.metrics();
}

/** Sums are compared as they are shown with nine digits: they are added up in one order. */
function samplesOf(text: string): Record<string, string> {
  const samples = parsePrometheusText(text);
  expect(samples).toHaveLength(text.match(/^[^#\n]/gm)!.length);
  const named = samples.map(({ name, labels, value }) => [
    `${name} ${JSON.stringify([...labels].sort())}`,
    value.toPrecision(9),
  ]);
  return Object.fromEntries(named) as Record<string, string>;
}

describe('GuardMetrics', () => {
  it.each([false, true])('counts as prom-client does, with tenants as labels: %s', async (tenants) => {
    const records = createRecords(400);
    const metrics = new GuardMetrics({ tenants });
    for (const record of records) metrics.ended(record, createVerdict('low'));
    const text = metrics.text({
      ...{ streams: [], running: 0, lostRecords: 0, tenants: 0, measures: 0, isStateConnected: null },
    });
    const expected = samplesOf(await countTheLongWay(records, tenants));
    expect(Object.keys(expected).length).toBeGreaterThan(100);
    expect(samplesOf(text)).toMatchObject(expected);
    expect(Object.keys(samplesOf(text))).toHaveLength(Object.keys(expected).length + 5);
    expect(text).toContain('# TYPE mistletoe_requests_total counter\n');
  });
});
