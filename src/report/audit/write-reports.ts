/** Writes the reports of one run into its folder. Each file is there whole or not at all: written aside, then renamed. */
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeCause, MistletoeError } from '../../core/errors.js';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { AuditResult } from '../../audit/result.js';
import { renderHtml } from './audit-page.js';
import { renderResult, renderSuffixes } from './json.js';
import { renderJUnit } from './junit.js';
import { renderMarkdown } from './audit-markdown.js';
import type { Verdict } from './verdict.js';
import { judge } from './verdict.js';

export interface ReportPaths {
  readonly html: string;
  readonly markdown: string;
  readonly junit: string;
  /** The result with its verdict: what the other files are made from. */
  readonly result: string;
  /** The suffixes that count, to be measured again. */
  readonly suffixes: string;
}

export async function writeReports(
  folder: string,
  result: AuditResult,
  timings: AuditTimings,
  verdict: Verdict = judge(result),
): Promise<ReportPaths> {
  const paths = {
    html: join(folder, 'report.html'),
    markdown: join(folder, 'report.md'),
    junit: join(folder, 'junit.xml'),
    result: join(folder, 'result.json'),
    suffixes: join(folder, 'suffixes.jsonl'),
  };
  await writeWhole(paths.html, renderHtml(result, timings, verdict));
  await writeWhole(paths.markdown, renderMarkdown(result, timings, verdict));
  await writeWhole(paths.junit, renderJUnit(result, timings, verdict));
  await writeWhole(paths.suffixes, renderSuffixes(result));
  // Last: whoever finds it finds the others too.
  await writeWhole(paths.result, renderResult(result, verdict));
  return paths;
}

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
