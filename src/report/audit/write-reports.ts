/** Writes the reports of an audit into its run folder. */
import { join } from 'node:path';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { AuditResult } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { writeWhole } from '../document.js';
import { findPromptArms, sameAnswerLength } from './audit-words.js';
import { renderMarkdown } from './audit-markdown.js';
import { renderHtml } from './audit-page.js';
import { renderJUnit } from './junit.js';
import type { Verdict } from './verdict.js';
import { judge } from './verdict.js';

interface ReportPaths {
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

/**
 * A result as one JSON document. Keys have a fixed order, so that two documents can be compared as text. JSON has no
 * infinities: a number that is not finite becomes null.
 */
const leadingKeys = [
  'schema',
  'runFolder',
  'verdict',
  'id',
  'drafter',
  'promptId',
  'arm',
  'name',
  'level',
  'headline',
];

/** Everything, times included; names the folder of the run where one is given. */
export function renderJson(
  result: AuditResult,
  timings: AuditTimings,
  verdict: Verdict,
  folder?: string,
): string {
  return stringifyStably({ ...result, verdict, timings, runFolder: folder });
}

/** What a run leaves in its folder: no times, so the same options, seed and weights give the same bytes. */
export function renderResult(result: AuditResult, verdict: Verdict): string {
  return stringifyStably({ ...result, verdict });
}

export function stringifyStably(value: unknown): string {
  return `${JSON.stringify(value, (_, child: unknown) => (isRecord(child) ? orderKeys(child) : child), 2)}\n`;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function orderKeys(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const keys = Object.keys(record).sort(
    (left, right) => rankOf(left) - rankOf(right) || (left < right ? -1 : 1),
  );
  return Object.fromEntries(keys.map((key) => [key, record[key]]));
}

function rankOf(key: string): number {
  const rank = leadingKeys.indexOf(key);
  return rank < 0 ? leadingKeys.length : rank;
}

/** The suffixes that count, one JSON line each, so that they can be measured again with --suffix. */
export function renderSuffixes({ drafters }: AuditResult): string {
  const lines = drafters.flatMap(({ drafter, prompts }) => {
    const counted = countedArm(prompts);
    return prompts.flatMap((prompt) => {
      const cleanLength = sameAnswerLength(prompt, 'clean');
      return findPromptArms(prompt, counted)
        .filter(({ withoutSuffix, suffix }) => withoutSuffix === null && suffix !== '')
        .map(({ suffix, sameAnswer, preservation }) =>
          JSON.stringify({
            prompt: prompt.promptId,
            drafter,
            suffix,
            sameAnswerLength: sameAnswer.meanAcceptedLength,
            cleanLength,
            kept: preservation.kept,
          }),
        );
    });
  });
  return lines.map((line) => `${line}\n`).join('');
}
