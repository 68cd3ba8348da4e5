/** A report as sections of blocks. Each block prints as HTML and as Markdown, so both say the same. */
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeCause, MistletoeError } from '../core/errors.js';
import { parameterText } from '../core/number-text.js';
import { type Content, escapeMarkdown, fragment } from './markup.js';
import { type Page, framePage } from './page.js';
import { type Facts, type Table, factsHtml, factsMarkdown, tableHtml, tableMarkdown } from './table.js';

export interface Block {
  readonly html: Content;
  readonly markdown: readonly string[];
}

export interface Section {
  readonly id: string;
  /** In the navigation of the page. */
  readonly name: string;
  readonly title: string;
  readonly lead: string | undefined;
  readonly blocks: readonly Block[];
}

export interface Report extends Omit<Page, 'chapters'> {
  /** What was done to what, in one sentence. */
  readonly subject: string;
  readonly sections: readonly Section[];
}

export const section = (
  [id, name, title]: readonly [id: string, name: string, title: string],
  lead: string | undefined,
  ...blocks: readonly Block[]
): Section => ({ id, name, title, lead, blocks });

/** `notes` explain the columns. */
export const tableBlock = (table: Table, label: string, notes: readonly string[] = []): Block => ({
  html: [tableHtml(table, label), notes.map((note) => fragment`<p class="soft small">${note}</p>`)],
  markdown: [
    ...tableMarkdown(table),
    ...(notes.length === 0 ? [] : ['', `<sub>${notes.map(escapeMarkdown).join(' · ')}</sub>`]),
  ],
});

export const factsBlock = (facts: Facts): Block => ({
  html: factsHtml(facts),
  markdown: factsMarkdown(facts),
});

export const sentencesBlock = (sentences: readonly string[]): Block => ({
  html: sentences.map((sentence) => fragment`<p>${sentence}</p>`),
  markdown: sentences.map((sentence) => `- ${escapeMarkdown(sentence)}`),
});

/** On the page only. */
export const pictureBlock = (html: Content): Block => ({ html, markdown: [] });

export function cardBlock(title: string | undefined, ...blocks: readonly Block[]): Block {
  return {
    html: fragment`<div class="card">${title === undefined ? null : fragment`<h3>${title}</h3>`}${blocks.map(({ html }) => html)}</div>\n`,
    markdown: [...(title === undefined ? [] : [`#### ${escapeMarkdown(title)}`, '']), ...joinBlocks(blocks)],
  };
}

export const limitsBlock = (limits: readonly string[]): Block => ({
  html: fragment`<div class="limits"><h3>Limits of this report</h3><ul>${limits.map((limit) => fragment`<li>${limit}</li>`)}</ul></div>`,
  markdown: limits.map((limit) => `- ${escapeMarkdown(limit)}`),
});

const joinBlocks = (blocks: readonly Block[]): string[] =>
  blocks
    .filter(({ markdown }) => markdown.length > 0)
    .flatMap(({ markdown }, index) => [...(index === 0 ? [] : ['']), ...markdown]);

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

export function renderReportMarkdown({ brand, opening, subject, sections }: Report): string {
  const lines = [
    `## ${escapeMarkdown(opening.sentence)}`,
    '',
    escapeMarkdown(`${brand}: ${subject}.`),
    '',
    ...sections.flatMap(({ title, lead, blocks }) => [
      `### ${escapeMarkdown(title)}`,
      '',
      ...(lead === undefined ? [] : [escapeMarkdown(lead), '']),
      ...joinBlocks(blocks),
      '',
    ]),
  ];
  return `${lines.join('\n').trimEnd()}\n`;
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
  await writeWhole(paths.markdown, renderReportMarkdown(report));
  return paths;
}

/** Written aside and renamed, so that the file is complete or absent. */
export async function writeWhole(path: string, text: string): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    await writeFile(temporary, text, 'utf8');
    await rename(temporary, path);
  } catch (cause) {
    await rm(temporary, { force: true });
    throw new MistletoeError('runtime', `Could not write ${path}: ${describeCause(cause)}.`, {
      hint: 'Check that the folder exists, is writable and that the disk has room.',
      cause,
    });
  }
}
