/** One table for every report: columns and rows of cells that print as text, as Markdown and as HTML. */
import { largest } from '../core/vector.js';
import { type Content, type Markup, escapeMarkdown, fragment } from './markup.js';

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
  /** Replaces the value in HTML. */
  readonly content?: Content;
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

const asColumn = (column: Column | string): Column =>
  typeof column === 'string' ? { name: column } : column;
const asCell = (cell: Cell | string): Cell => (typeof cell === 'string' ? { value: cell } : cell);
const isLeft = ({ columns }: Table, index: number): boolean =>
  index === 0 || asColumn(columns[index] ?? '').align === 'left';

/** "2.10 (1.90 to 2.31)" */
export function cellText({ value, interval }: Cell): string {
  return interval === undefined ? value : `${value} (${interval})`;
}

export const tableText = (table: Table): string[] =>
  padCells(table, 0).map((line) => line.join('  ').trimEnd());

/** Markdown that reads well in a terminal too: padded, and only pipes are escaped. */
export function paddedMarkdown(table: Table): string[] {
  const [names = [], ...rows] = padCells(table, 3, (text) => text.replaceAll('|', '\\|'));
  const rule = names.map(({ length }, column) =>
    isLeft(table, column) ? '-'.repeat(length) : `${'-'.repeat(length - 1)}:`,
  );
  return [names, rule, ...rows].map((line) => `| ${line.join(' | ')} |`);
}

function padCells(table: Table, minWidth: number, escape = (text: string) => text): string[][] {
  const lines = [
    table.columns.map((column) => escape(asColumn(column).name)),
    ...table.rows.map(({ cells }) => cells.map((cell) => escape(cellText(asCell(cell))))),
  ];
  const widths = table.columns.map((_, column) => largest(lines.map((line) => line[column]!.length), minWidth)); // prettier-ignore
  return lines.map((line) =>
    line.map((text, column) =>
      isLeft(table, column) ? text.padEnd(widths[column]!) : text.padStart(widths[column]!),
    ),
  );
}

export function tableMarkdown(table: Table): string[] {
  const line = (texts: readonly string[]): string => `| ${texts.join(' | ')} |`;
  const { columns, rows } = table;
  return [
    line(columns.map((column) => escapeMarkdown(asColumn(column).name))),
    line(columns.map((_, index) => (isLeft(table, index) ? '---' : '---:'))),
    ...rows.map(({ cells }) => line(cells.map((cell) => cellMarkdown(asCell(cell))))),
  ];
}

function cellMarkdown({ value, interval, strong = false }: Cell): string {
  const text = escapeMarkdown(value);
  return cellText({ value: strong ? `**${text}**` : text, interval });
}

/** `label` names the scrolling region for screen readers. */
export function tableHtml({ columns, rows }: Table, label: string, className = ''): Markup {
  return fragment`<div class="scroll" tabindex="0" role="region" aria-label="${label}"><table class="${className}">
<thead><tr>${columns.map((column) => drawHead(asColumn(column)))}</tr></thead>
<tbody>${rows.map(drawRow)}</tbody>
</table></div>`;
}

function drawHead({ name, unit, meaning }: Column): Markup {
  const label = meaning === undefined ? name : fragment`<abbr title="${meaning}">${name}</abbr>`;
  return fragment`<th scope="col">${label}${unit === undefined ? null : fragment`<small>${unit}</small>`}</th>`;
}

function drawRow({ cells, tone, meaning }: Row): Markup {
  const [first = '', ...rest] = cells;
  const title = meaning === undefined ? null : fragment` title="${meaning}"`;
  return fragment`<tr class="${tone ?? ''}"><th scope="row"${title}>${asCell(first).value}</th>${rest.map((cell) => drawCell(asCell(cell)))}</tr>`;
}

function drawCell({ value, interval, content }: Cell): Markup {
  return fragment`<td>${content ?? value}${interval === undefined ? null : fragment` <span class="range">${interval}</span>`}</td>`;
}

/** Names and values, as a list in HTML and as a table without heads in Markdown. */
export type Facts = readonly (readonly [name: string, value: string])[];

export const factsMarkdown = (facts: Facts): string[] => [
  '| | |',
  '| --- | --- |',
  ...facts.map((fact) => `| ${fact.map(escapeMarkdown).join(' | ')} |`),
];

export const factsHtml = (facts: readonly (readonly [string, Content])[]): Markup =>
  fragment`<dl class="facts">${facts.map(([name, value]) => fragment`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
