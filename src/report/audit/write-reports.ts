/** Writes the reports of an audit into its run folder. */
import { join } from 'node:path';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import type { AuditResult } from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { isRecord } from '../../core/json-text.js';
import { fingerprintPrompt } from '../../text/prompts/suffix-list.js';
import { writeReport, writeWhole } from '../document.js';
import { escapeXml } from '../markup.js';
import { createAuditReport } from './audit-report.js';
import { describeCounts, findPromptArms, sameAnswerLength } from './audit-words.js';
import { describeDrafter } from './headline.js';
import { type GateCheck, type Verdict, judge } from './verdict.js';

export async function writeReports(
  folder: string,
  result: AuditResult,
  timings: AuditTimings,
  verdict: Verdict = judge(result),
) {
  const paths = {
    html: join(folder, 'report.html'),
    markdown: join(folder, 'report.md'),
    junit: join(folder, 'junit.xml'),
    /** The result with its verdict: what the other files are made from. */
    result: join(folder, 'result.json'),
    /** The suffixes that count, to be measured again. */
    suffixes: join(folder, 'suffixes.jsonl'),
  };
  await writeReport(folder, createAuditReport(result, timings, verdict));
  await writeWhole(paths.junit, renderJUnit(result, verdict));
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
        .map(({ suffix, sameAnswer, preservation, origin }) =>
          JSON.stringify({
            prompt: prompt.promptId,
            drafter,
            suffix,
            sameAnswerLength: sameAnswer.meanAcceptedLength,
            cleanLength,
            kept: preservation.kept,
            // Lets a replay on these prompts be told from a test on others.
            chosenOn: counted === 'attack' ? [fingerprintPrompt(prompt.prompt)] : origin?.chosenOn,
          }),
        );
    });
  });
  return lines.map((line) => `${line}\n`).join('');
}

/**
 * For test dashboards: a suite for each drafter; in it, a case that says whether anything was audited, and one for each
 * gate, skipped where it is undecided. A single prompt is evidence, not a test.
 */
interface Case {
  readonly name: string;
  readonly outcome: 'passed' | 'failure' | 'error' | 'skipped';
  readonly message: string;
}

const gateNames: Readonly<Record<GateCheck['name'], string>> = {
  failIfDrop: 'gate: drop of the accepted length along the clean answer',
  failIfAcceptedLengthBelow: 'gate: attacked accepted length along the clean answer',
};

const caseOutcomes = { passed: 'passed', failed: 'failure', undecided: 'skipped' } as const;

export function renderJUnit(result: AuditResult, verdict: Verdict): string {
  const suites = result.drafters.map((drafter, index) => {
    const own = verdict.drafters[index]!;
    const message = own.audited ? describeDrafter(drafter, own) : describeCounts(drafter.summary);
    const audited: Case = {
      name: 'audited',
      outcome: own.audited ? 'passed' : 'error',
      message: [...(verdict.warnings ?? []), message].join(' '),
    };
    const gates = verdict.checks
      .filter((check) => check.drafter === drafter.drafter)
      .map(({ name, outcome, message }): Case => ({
        name: gateNames[name],
        outcome: caseOutcomes[outcome],
        message,
      }));
    return { name: `mistletoe.${drafter.drafter}`, cases: [audited, ...gates] };
  });
  if (suites.length === 0)
    suites.push({
      name: 'mistletoe',
      cases: [{ name: 'audited', outcome: 'error', message: verdict.headline }],
    });
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="mistletoe audit" ${countAttributes(suites.flatMap(({ cases }) => cases))}>`,
    ...suites.flatMap(({ name, cases }) => [
      `  <testsuite name="${escapeXml(name)}" ${countAttributes(cases)}>`,
      ...cases.flatMap((each) => drawCase(each, name)),
      '  </testsuite>',
    ]),
    '</testsuites>',
  ];
  return `${lines.join('\n')}\n`;
}

function countAttributes(cases: readonly Case[]): string {
  const count = (outcome: Case['outcome']): number =>
    cases.filter((entry) => entry.outcome === outcome).length;
  return `tests="${cases.length}" failures="${count('failure')}" errors="${count('error')}" skipped="${count('skipped')}"`;
}

function drawCase({ name, outcome, message }: Case, className: string): string[] {
  const inner =
    outcome === 'passed'
      ? `      <system-out>${escapeXml(message)}</system-out>`
      : `      <${outcome} message="${escapeXml(message)}"/>`;
  return [
    `    <testcase name="${escapeXml(name)}" classname="${escapeXml(className)}">`,
    inner,
    '    </testcase>',
  ];
}
