/** A report as sections of blocks. Each block prints as HTML, as Markdown and as text, so all three say the same. */
import { join } from 'node:path';
import { replaceFile } from '../core/durable-files.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { parameterText } from '../core/number-text.js';
import { type Content, escapeMarkdown, fragment } from './markup.js';
import { type FigureGroup, type Opening, framePage } from './page.js';
import { type PrintStyle, type Table, printTable, tableHtml } from './table.js';

export interface Block {
  readonly html: Content;
  readonly print: (style: PrintStyle) => readonly string[];
}

export interface Section {
  readonly id: string;
  /** In the navigation of the page. */
  readonly name: string;
  readonly title: string;
  readonly lead?: string | undefined;
  readonly blocks: readonly Block[];
}

export interface Report {
  readonly title: string;
  readonly brand: string;
  /** What was done to what, in one sentence. */
  readonly subject: string;
  readonly opening: Opening;
  readonly sections: readonly Section[];
  readonly imprint: string;
}

export const section = (
  [id, name, title]: readonly [id: string, name: string, title: string],
  lead: string | undefined,
  ...blocks: readonly Block[]
): Section => ({ id, name, title, lead, blocks });

const printText = (text: string, style: PrintStyle): string =>
  style === 'markdown' ? escapeMarkdown(text) : text;

const printItems = (items: readonly string[], style: PrintStyle): string[] =>
  items.map((item) => (style === 'markdown' ? `- ${escapeMarkdown(item)}` : item));

/** `notes` explain the columns; Markdown has no room for their units in the heads. */
export const tableBlock = (table: Table, label: string, notes: readonly string[] = []): Block => ({
  html: [tableHtml(table, label), notes.map((note) => fragment`<p class="soft small">${note}</p>`)],
  print(style) {
    const lines = printTable(table, style);
    const units = table.columns.flatMap((column) =>
      typeof column === 'string' || column.unit === undefined ? [] : `${column.name}: ${column.unit}`,
    );
    const below = [...units, ...notes];
    if (style === 'text' || below.length === 0) return lines;
    return [...lines, '', `<sub>${below.map(escapeMarkdown).join(' · ')}</sub>`];
  },
});

/** Names and values: a list in HTML, a table without heads elsewhere. */
export type Facts = readonly (readonly [name: string, value: string])[];

export const factsBlock = (facts: Facts): Block => ({
  html: fragment`<dl class="facts">${facts.map(([name, value]) => fragment`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`,
  print(style) {
    const columns = ['', { name: '', align: 'left' as const }];
    const lines = printTable({ columns, rows: facts.map((cells) => ({ cells })) }, style);
    return style === 'markdown' ? lines : lines.slice(1);
  },
});

export const sentencesBlock = (sentences: readonly string[]): Block => ({
  html: sentences.map((sentence) => fragment`<p class="small">${sentence}</p>`),
  print: (style) => printItems(sentences, style),
});

/** On the page only. */
export const pictureBlock = (html: Content): Block => ({ html, print: () => [] });

export const cardBlock = (title: string | undefined, ...blocks: readonly Block[]): Block => ({
  html: fragment`<div class="card">${title === undefined ? null : fragment`<h3>${title}</h3>`}${blocks.map(({ html }) => html)}</div>\n`,
  print: (style) => [
    ...(title === undefined ? [] : printTitle(title, 4, style)),
    ...printBlocks(blocks, style),
  ],
});

export const limitsBlock = (limits: readonly string[]): Block => ({
  html: fragment`<div class="limits"><h3>Limits of this report</h3><ul>${limits.map((limit) => fragment`<li>${limit}</li>`)}</ul></div>`,
  print: (style) => printItems(limits, style),
});

const printTitle = (title: string, level: number, style: PrintStyle): string[] =>
  style === 'markdown' ? [`${'#'.repeat(level)} ${escapeMarkdown(title)}`, ''] : [title];

const printBlocks = (blocks: readonly Block[], style: PrintStyle): string[] =>
  blocks
    .map(({ print }) => print(style))
    .filter(({ length }) => length > 0)
    .flatMap((lines, index) => [...(index === 0 ? [] : ['']), ...lines]);

export function renderReportHtml({ sections, ...page }: Report): string {
  const chapters = sections.map(({ id, name, title, lead, blocks }) => ({
    id,
    name,
    content: fragment`<h2>${title}</h2>
${lead === undefined ? null : fragment`<p class="lead">${lead}</p>`}
${blocks.map(({ html }) => html)}`,
  }));
  return framePage({ ...page, chapters });
}

const tonePictures = { robust: '🟢', fragile: '🟠', collapsed: '🔴', inconclusive: '⚪' } as const;

export function printReport({ brand, opening, subject, sections }: Report, style: PrintStyle): string {
  const { label, tone, sentence, warnings = [], figures, gate = [] } = opening;
  const [strong, quote, mark] = style === 'markdown' ? ['**', '> ', `${tonePictures[tone]} `] : ['', '', ''];
  const head = [
    ...warnings.flatMap((warning) => [`${quote}${strong}Warning.${strong} ${printText(warning, style)}`, '']),
    ...printTitle(sentence, 2, style),
    `${mark}${strong}${label}${strong} · ${printText(`${brand}: ${subject}.`, style)}`,
    '',
    ...printItems(figures.map(describeFigures), style),
    '',
    ...gate.flatMap(({ title, text }) => [`${strong}${title}${strong} ${printText(text, style)}`, '']),
  ];
  const parts = sections.map(({ title, lead, blocks }) => {
    const content = printBlocks(blocks, style);
    if (content.length === 0) return [];
    const explained = lead === undefined || style === 'text' ? [] : [escapeMarkdown(lead), ''];
    return [...printTitle(title, 3, style), ...explained, ...content, ''];
  });
  const shown = style === 'markdown' ? shortenParts([head, ...parts]) : [head, ...parts];
  return `${shown.flat().join('\n').trimEnd()}\n`;
}

/** Of a comment on GitHub. */
const maxMarkdownLength = 65_536;
const shortenedNote =
  '_The rest is left out here, because a comment on GitHub holds 65,536 characters; the HTML report has it._';

const lengthOf = (lines: readonly string[]): number => lines.reduce((sum, { length }) => sum + length + 1, 0);

/** Cuts the longest parts behind whole lines, so that all together fit. */
function shortenParts(parts: readonly (readonly string[])[]): readonly (readonly string[])[] {
  let room = maxMarkdownLength - 1;
  let maxLength = Infinity;
  const lengths = parts.map(lengthOf).sort((left, right) => left - right);
  for (const [index, length] of lengths.entries()) {
    maxLength = Math.floor(room / (lengths.length - index));
    if (length > maxLength) break;
    room -= length;
    maxLength = Infinity;
  }
  return parts.map((lines) => (lengthOf(lines) > maxLength ? cutLines(lines, maxLength) : lines));
}

function cutLines(lines: readonly string[], maxLength: number): readonly string[] {
  const note = ['', shortenedNote, ''];
  let room = maxLength - lengthOf(note);
  const end = lines.findIndex(({ length }) => (room -= length + 1) < 0);
  return [...lines.slice(0, end), ...note];
}

/** "eagle3 (Collapsed): −50 % accepted length (95 % interval −56 to −40 %); ..." */
function describeFigures({ name, note, figures }: FigureGroup): string {
  const numbers = figures.map(({ value, interval, label }) => {
    const range = interval === undefined ? '' : ` (95 % interval ${interval})`;
    return `${value} ${label}${range}`;
  });
  return `${name === undefined ? '' : `${name} (${note}): `}${numbers.join('; ')}`;
}

/** "target, 12.5 million parameters, sha256 0123456789abcdef…" */
export const describeModel = (model: {
  readonly name: string;
  readonly parameterCount: number;
  readonly sha256: string;
}): string => `${model.name}, ${parameterText(model.parameterCount)}, ${hashText(model.sha256)}`;

export const hashText = (sha256: string): string => `sha256 ${sha256.slice(0, 16)}…`;

/** "steps 200, rate 0.001" */
export const describeSettings = (settings: object): string =>
  Object.entries(settings)
    .map(([name, value]) => `${name} ${Array.isArray(value) ? value.join('+') : String(value)}`)
    .join(', ');

/** report.html and report.md in the folder of a run. */
export async function writeReport(folder: string, report: Report) {
  const paths = { html: join(folder, 'report.html'), markdown: join(folder, 'report.md') };
  await writeWhole(paths.html, renderReportHtml(report));
  await writeWhole(paths.markdown, printReport(report, 'markdown'));
  return paths;
}

/** Written aside and renamed, so that the file is complete or absent. */
export async function writeWhole(path: string, text: string): Promise<void> {
  try {
    await replaceFile(path, text);
  } catch (cause) {
    throw new MistletoeError('runtime', `Could not write ${path}: ${describeCause(cause)}.`, {
      hint: 'Check that the folder exists, is writable and that the disk has room.',
      cause,
    });
  }
}
