/**
 * Prometheus' text format (0.0.4). Libraries sort and join the labels for every count, which costs as much as reading the
 * response; here text is made when scraped.
 */

/** Names and values alternate. */
export type Labels = readonly string[];

export const textContentType = 'text/plain; version=0.0.4; charset=utf-8';

export class Histogram {
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

  /** Of two with the same bounds. */
  plus(other: Histogram): Histogram {
    const total = new Histogram(this.bounds);
    total.sum = this.sum + other.sum;
    for (const place of total.counts.keys()) total.counts[place] = this.counts[place]! + other.counts[place]!;
    return total;
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

export function line(name: string, labels: Labels, value: number): string {
  const pairs: string[] = [];
  for (let index = 0; index < labels.length; index += 2)
    pairs.push(`${labels[index]!}="${escapeLabel(labels[index + 1]!)}"`);
  return pairs.length === 0 ? `${name} ${value}` : `${name}{${pairs.join(',')}} ${value}`;
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' };
const escapeLabel = (text: string): string => text.replace(/[\\\n"]/g, (found) => escapes[found]!);
