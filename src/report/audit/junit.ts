/**
 * The audit for test dashboards: a suite for each drafter; in it, a case that says whether anything was audited, and one
 * for each gate. A single prompt is evidence, not a test.
 */
import type { AuditResult } from '../../audit/result.js';
import { escapeXml } from '../markup.js';
import { describeCounts } from './audit-words.js';
import { describeDrafter } from './headline.js';
import type { GateCheck, Verdict } from './verdict.js';

interface Case {
  readonly name: string;
  readonly outcome: 'passed' | 'failure' | 'error';
  readonly message: string;
}

const gateNames: Readonly<Record<GateCheck['name'], string>> = {
  failIfDrop: 'gate: drop of the accepted length along the clean answer',
  failIfAcceptedLengthBelow: 'gate: attacked accepted length along the clean answer',
};

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
      .map(({ name, passed, message }): Case => {
        return { name: gateNames[name], outcome: passed ? 'passed' : 'failure', message };
      });
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
  return `tests="${cases.length}" failures="${count('failure')}" errors="${count('error')}" skipped="0"`;
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
