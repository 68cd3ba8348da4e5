/** Writes the reports of an audit into its run folder. */
import { join } from 'node:path';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { AuditResult } from '../../audit/result.js';
import { writeWhole } from '../document.js';
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
  // Last, so that a finished result has its reports.
  await writeWhole(paths.result, renderResult(result, verdict));
  return paths;
}
