/**
 * Prometheus metrics of ended requests. Libraries sort and join the labels for every count, five times per request, which
 * costs as much as reading the response. Here each cell is found by one key, and text is made when scraped.
 */
import type { Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { meanAcceptedLength } from '../observation.js';

const lengths = [1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16];
const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/** Names and values alternate. */
type Labels = readonly string[];

class Histogram {
  private readonly counts: Float64Array;
  private sum = 0;

  constructor(private readonly bounds: readonly number[]) {
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds } = this;
    let place = 0;
    while (place < bounds.length && value > bounds[place]!) place++;
    this.counts[place]!++;
    this.sum += value;
  }

  lines(name: string, labels: Labels): string[] {
    let total = 0;
    const buckets = Array.from(this.counts, (count, place) => {
      total += count;
      const bound = place < this.bounds.length ? String(this.bounds[place]) : '+Inf';
      return line(`${name}_bucket`, ['le', bound, ...labels], total);
    });
    return [...buckets, line(`${name}_sum`, labels, this.sum), line(`${name}_count`, labels, total)];
  }
}

/** Cells of one metric, each with its labels. */
class Cells<Cell> {
  private readonly cells = new Map<string, { readonly labels: Labels; readonly cell: Cell }>();

  constructor(
    private readonly names: Labels,
    private readonly create: () => Cell,
  ) {}

  /** @param key unique for the values */
  at(key: string, values: () => Labels): Cell {
    const known = this.cells.get(key);
    if (known !== undefined) return known.cell;
    const given = values();
    const cell = this.create();
    this.cells.set(key, { cell, labels: this.names.flatMap((name, index) => [name, given[index]!]) });
    return cell;
  }

  lines(linesOf: (cell: Cell, labels: Labels) => readonly string[]): string[] {
    return [...this.cells.values()].flatMap(({ cell, labels }) => linesOf(cell, labels));
  }
}

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

function family(
  shortName: string,
  type: 'counter' | 'histogram',
  help: string,
  linesOf: (name: string) => readonly string[],
): string[] {
  const name = `mistletoe_${shortName}`;
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...linesOf(name), ''];
}

function line(name: string, labels: Labels, value: number): string {
  const pairs: string[] = [];
  for (let index = 0; index < labels.length; index += 2)
    pairs.push(`${labels[index]!}="${escapeLabel(labels[index + 1]!)}"`);
  return `${name}{${pairs.join(',')}} ${value}`;
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' };
const escapeLabel = (text: string): string => text.replace(/[\\\n"]/g, (found) => escapes[found]!);

function statusClass(status: number): string {
  return status === 0 ? 'none' : `${Math.floor(status / 100)}xx`;
}
