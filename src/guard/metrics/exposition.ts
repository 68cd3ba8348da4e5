/**
 * Prometheus' text format (0.0.4). Libraries sort and join the labels for every count, which costs as much as reading the
 * response; here each cell is found by one key, and text is made when scraped.
 */

/** Names and values alternate. */
export type Labels = readonly string[];

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
export class Cells<Cell> {
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

export function family(
  shortName: string,
  type: 'counter' | 'gauge' | 'histogram',
  help: string,
  linesOf: (name: string) => readonly string[],
): string[] {
  const name = `mistletoe_${shortName}`;
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...linesOf(name), ''];
}

export function line(name: string, labels: Labels, value: number): string {
  const pairs: string[] = [];
  for (let index = 0; index < labels.length; index += 2)
    pairs.push(`${labels[index]!}="${escapeLabel(labels[index + 1]!)}"`);
  return pairs.length === 0 ? `${name} ${value}` : `${name}{${pairs.join(',')}} ${value}`;
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' };
const escapeLabel = (text: string): string => text.replace(/[\\\n"]/g, (found) => escapes[found]!);

export const textContentType = 'text/plain; version=0.0.4; charset=utf-8';
