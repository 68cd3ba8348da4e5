/** Prometheus metrics of ended requests. */
import type { Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { meanAcceptedLength } from '../observation.js';
import type { Labels } from './exposition.js';
import { Cells, family, Histogram, line } from './exposition.js';

const lengths = [1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16];
const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/** @param labelModel the name under which a model is counted */
export function createRequestTally(options: {
  readonly tenants: boolean;
  readonly labelModel: (model: string) => string;
}): { ended(record: Observation, verdict: Verdict): void; text(): string } {
  const { tenants, labelModel } = options;
  const own = ['engine', 'model', 'route', ...(tenants ? ['tenant'] : [])];
  const outcomes = new Cells(['route', 'upstream', 'ending', 'status'], () => ({ count: 0 }));
  const times = new Cells(['route'], () => ({
    duration: new Histogram(seconds),
    firstByte: new Histogram(seconds),
  }));
  const drafts = new Cells(own, () => ({ steps: 0, accepted: 0, proposed: 0, isProposedKnown: false }));
  const silent = new Cells(own, () => ({ count: 0 }));
  const verdicts = new Cells([...own, 'verdict'], () => ({ count: 0 }));
  const accepted = new Cells([...own, 'evidence'], () => new Histogram(lengths));

  return {
    ended(record, verdict) {
      const { engine, model, route, tenant, upstream, ending, status } = record;
      const { speculation, totalMs, firstByteMs } = record;
      const outcome = statusClass(status);
      outcomes.at(`${route} ${upstream} ${ending} ${outcome}`, () => [route, upstream, ending, outcome])
        .count++;
      const { duration, firstByte } = times.at(route, () => [route]);
      duration.observe(totalMs / 1000);
      if (firstByteMs !== null) firstByte.observe(firstByteMs / 1000);
      if (upstream === 'plain' || status < 200 || status >= 300) return;
      const named = labelModel(model);
      const key = `${engine} ${route} ${tenants ? tenant : ''} ${named}`;
      const values = (): Labels => [engine, named, route, ...(tenants ? [tenant] : [])];
      verdicts.at(`${verdict.name} ${key}`, () => [...values(), verdict.name]).count++;
      if (speculation === null) {
        silent.at(key, values).count++;
        return;
      }
      const cell = drafts.at(key, values);
      cell.steps += speculation.steps;
      cell.accepted += speculation.accepted;
      if (speculation.proposed !== null) {
        cell.proposed += speculation.proposed;
        cell.isProposedKnown = true;
      }
      const { evidence } = speculation;
      accepted
        .at(`${evidence} ${key}`, () => [...values(), evidence])
        .observe(meanAcceptedLength(speculation));
    },
    text: () =>
      [
        ...family(
          'request_accepted_length',
          'histogram',
          'Mean accepted length of a request, the bonus token included.',
          (name) => accepted.lines((cell, labels) => cell.lines(name, labels)),
        ),
        ...family('spec_steps_total', 'counter', 'Verification passes of the target.', (name) =>
          drafts.lines(({ steps }, labels) => [line(name, labels, steps)]),
        ),
        ...family(
          'spec_draft_tokens_total',
          'counter',
          'Draft tokens, where the engine counts them.',
          (name) =>
            drafts.lines((cell, labels) => (cell.isProposedKnown ? [line(name, labels, cell.proposed)] : [])),
        ),
        ...family(
          'spec_accepted_tokens_total',
          'counter',
          'Accepted draft tokens, without bonus tokens.',
          (name) => drafts.lines((cell, labels) => [line(name, labels, cell.accepted)]),
        ),
        ...family(
          'requests_without_telemetry_total',
          'counter',
          'Answered requests without draft counts.',
          (name) => silent.lines(({ count }, labels) => [line(name, labels, count)]),
        ),
        ...family('verdicts_total', 'counter', 'Answered requests by verdict.', (name) =>
          verdicts.lines(({ count }, labels) => [line(name, labels, count)]),
        ),
        ...family('requests_total', 'counter', 'Requests forwarded or refused.', (name) =>
          outcomes.lines(({ count }, labels) => [line(name, labels, count)]),
        ),
        ...family('request_duration_seconds', 'histogram', 'From request to end of response.', (name) =>
          times.lines(({ duration }, labels) => duration.lines(name, labels)),
        ),
        ...family(
          'time_to_first_byte_seconds',
          'histogram',
          'From request to first byte of the response.',
          (name) => times.lines(({ firstByte }, labels) => firstByte.lines(name, labels)),
        ),
      ]
        .map((each) => `${each}\n`)
        .join(''),
  };
}

function statusClass(status: number): string {
  return status === 0 ? 'none' : `${Math.floor(status / 100)}xx`;
}
