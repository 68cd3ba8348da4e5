/** One table for every report: columns and rows of cells that print as text, as Markdown and as HTML. */
import { largest } from '../core/vector.js';
import { type Interval, minPairs } from '../measure/statistics.js';
import { type Markup, escapeMarkdown, fragment } from './markup.js';

/** Text is for a terminal, which cleans what it prints. */
export type PrintStyle = 'text' | 'markdown';

export interface Column {
  readonly name: string;
  /** A few words below the name, in HTML. */
  readonly unit?: string | undefined;
  /** One sentence, shown while the pointer is over the name. */
  readonly meaning?: string | undefined;
  /** Numbers are on the right; the first column is always on the left. */
  readonly align?: 'left' | undefined;
}

export interface Cell {
  readonly value: string;
  /** "1.90 to 2.31"; in text it follows in parentheses. */
  readonly interval?: string | undefined;
  readonly strong?: boolean | undefined;
}

export interface Row {
  /** The first one names the row. */
  readonly cells: readonly (Cell | string)[];
  /** `good` and `attack` color the row in HTML. */
  readonly tone?: 'good' | 'attack' | undefined;
  readonly meaning?: string | undefined;
}

export interface Table {
  readonly columns: readonly (Column | string)[];
  readonly rows: readonly Row[];
}

type NumberText = (value: number) => string;

export const intervalCell = (interval: Interval, text: NumberText): Cell => ({
  value: text(interval.estimate),
  interval: rangeText(interval, text),
});

/** From fewer, an interval would say more about its method than about the number. */
export const hasInterval = ({ n }: Interval): boolean => n >= minPairs;

/** "1.90 to 2.31" or "19 to 31 %" */
export const rangeText = (interval: Interval, text: NumberText): string | undefined =>
  hasInterval(interval)
    ? `${text(interval.low).replace(/ ?(%|points|x)$/, '')} to ${text(interval.high)}`
    : undefined;

/** "25 % (95 % interval 19 to 31 %)" */
export function intervalText(interval: Interval, text: NumberText): string {
  const range = rangeText(interval, text);
  return text(interval.estimate) + (range === undefined ? '' : ` (95 % interval ${range})`);
}

/** A drop as a change, and the other way round. */
export const negateInterval = ({ estimate, low, high, n }: Interval): Interval => ({
  estimate: -estimate,
  low: -high,
  high: -low,
  n,
});

const asColumn = (column: Column | string): Column =>
  typeof column === 'string' ? { name: column } : column;
const asCell = (cell: Cell | string): Cell => (typeof cell === 'string' ? { value: cell } : cell);

/** "2.10 (1.90 to 2.31)" */
export function cellText({ value, interval }: Cell): string {
  return interval === undefined ? value : `${value} (${interval})`;
}

export const tableText = (table: Table): string[] => printTable(table, 'text');

/** Padded in Markdown too, so that it reads well in a terminal. */
export function printTable({ columns, rows }: Table, style: PrintStyle): string[] {
  const isMarkdown = style === 'markdown';
  const print = ({ value, interval, strong = false }: Cell): string => {
    const text = isMarkdown ? escapeMarkdown(value) : value;
    return cellText({ value: isMarkdown && strong ? `**${text}**` : text, interval });
  };
  const heads = columns.map(asColumn);
  const [names, ...lines] = [
    heads.map(({ name }) => print({ value: name })),
    ...rows.map(({ cells }) => cells.map((cell) => print(asCell(cell)))),
  ];
  const widths = names.map((name, column) => {
    const lengths = lines.map((line) => line[column]!.length);
    return largest([name.length, ...lengths], isMarkdown ? 3 : 0);
  });
  const isLeft = heads.map(({ align }, column) => column === 0 || align === 'left');
  const pad = (line: readonly string[]): string[] =>
    line.map((text, column) =>
      isLeft[column] ? text.padEnd(widths[column]!) : text.padStart(widths[column]!),
    );
  if (!isMarkdown) return [names, ...lines].map((line) => pad(line).join('  ').trimEnd());
  const rule = widths.map((width, column) =>
    isLeft[column] ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  return [pad(names), rule, ...lines.map(pad)].map((line) => `| ${line.join(' | ')} |`);
}

/** `label` names the scrolling region for screen readers. */
export function tableHtml({ columns, rows }: Table, label: string): Markup {
  const heads = columns.map(asColumn);
  return fragment`<div class="scroll" tabindex="0" role="region" aria-label="${label}"><table>
<thead><tr>${heads.map(drawHead)}</tr></thead>
<tbody>${rows.map((row) => drawRow(row, heads))}</tbody>
</table></div>`;
}

const leftClass = fragment` class="left"`;

function drawHead({ name, unit, meaning, align }: Column): Markup {
  const label = meaning === undefined ? name : fragment`<abbr title="${meaning}">${name}</abbr>`;
  return fragment`<th scope="col"${align && leftClass}>${label}${unit === undefined ? null : fragment`<small>${unit}</small>`}</th>`;
}

function drawRow({ cells, tone, meaning }: Row, heads: readonly Column[]): Markup {
  const [first, ...rest] = cells.map(asCell);
  const title = meaning === undefined ? null : fragment` title="${meaning}"`;
  const drawn = rest.map(({ value, interval }, index) => {
    const range = interval === undefined ? null : fragment` <span class="range">${interval}</span>`;
    return fragment`<td${heads[index + 1]?.align && leftClass}>${value}${range}</td>`;
  });
  return fragment`<tr class="${tone}"${title}><th scope="row">${first?.value}</th>${drawn}</tr>`;
}
