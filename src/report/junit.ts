/**
 * The audit for test dashboards: a suite for each drafter; in it, a case that says whether anything was audited, one
 * for each gate and one for each prompt. Only gates fail: a single prompt is evidence, not a test.
 */
import type { AuditResult, AuditTimings, DrafterResult, PromptResult } from '../audit/result.js';
import { findPromptArm } from './arm-names.js';
import { escapeXml } from './escape.js';
import { acceptedLengthText, divergenceText, fixed, percentText } from './number-text.js';
import type { GateCheck, Verdict } from './verdict.js';

interface Case {
  readonly name: string;
  readonly className: string;
  readonly seconds: number;
  readonly outcome: 'passed' | 'failure' | 'error' | 'skipped';
  readonly message: string;
}

const gateNames: Readonly<Record<GateCheck['name'], string>> = {
  failIfDrop: 'gate: drop of the mean accepted length',
  failIfAcceptedLengthBelow: 'gate: attacked mean accepted length',
};

export function renderJUnit(result: AuditResult, timings: AuditTimings, verdict: Verdict): string {
  const suites = result.drafters.map((drafter) => ({
    name: `mistletoe.${drafter.drafter}`,
    cases: listCases(drafter, timings, verdict),
  }));
  if (suites.length === 0) {
    const message = verdict.headline;
    const nothing = {
      name: 'audited',
      className: 'mistletoe',
      seconds: 0,
      outcome: 'error',
      message,
    } as const;
    suites.push({ name: 'mistletoe', cases: [nothing] });
  }
  const all = suites.flatMap(({ cases }) => cases);
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="mistletoe audit" ${countAttributes(all)}>`,
    ...suites.flatMap(({ name, cases }) => [
      `  <testsuite name="${escapeXml(name)}" ${countAttributes(cases)}>`,
      ...cases.flatMap(drawCase),
      '  </testsuite>',
    ]),
    '</testsuites>',
  ];
  return `${lines.join('\n')}\n`;
}

function listCases(result: DrafterResult, timings: AuditTimings, verdict: Verdict): Case[] {
  const { drafter, prompts, summary } = result;
  const className = `mistletoe.${drafter}`;
  const audited = verdict.drafters.find((entry) => entry.drafter === drafter)?.audited === true;
  const message = `${summary.promptsAudited} prompts audited, ${summary.promptsSkipped} skipped`;
  return [
    { name: 'audited', className, seconds: 0, outcome: audited ? 'passed' : 'error', message },
    ...verdict.checks
      .filter((check) => check.drafter === drafter)
      .map(({ name, passed, message }): Case => {
        return {
          name: gateNames[name],
          className,
          seconds: 0,
          outcome: passed ? 'passed' : 'failure',
          message,
        };
      }),
    ...prompts.map((prompt): Case => ({
      name: `prompt ${prompt.promptId}`,
      className,
      seconds: measureSeconds(timings, drafter, prompt.promptId),
      outcome: prompt.skipped === null ? 'passed' : 'skipped',
      message: prompt.skipped ?? describePrompt(prompt),
    })),
  ];
}

function describePrompt(prompt: PromptResult): string {
  const clean = findPromptArm(prompt, 'clean');
  const attack = findPromptArm(prompt, 'attack');
  if (clean === undefined || attack === undefined) return 'not measured';
  const before = clean.acceptance.meanAcceptedLength;
  const after = attack.acceptance.meanAcceptedLength;
  return (
    `mean accepted length ${acceptedLengthText(before)} -> ${acceptedLengthText(after)} ` +
    `(drop ${percentText(1 - after / before)}), KL ${divergenceText(attack.preservation.divergence)} nats, ` +
    `edit similarity ${percentText(attack.preservation.editSimilarity)}`
  );
}

function measureSeconds(timings: AuditTimings, drafter: string, promptId: string): number {
  const rows = timings.arms.filter((row) => row.drafter === drafter && row.promptId === promptId);
  return rows.reduce((sum, { prefillMs, decodeMs }) => sum + prefillMs + decodeMs, 0) / 1000;
}

function countAttributes(cases: readonly Case[]): string {
  const count = (outcome: Case['outcome']): number =>
    cases.filter((entry) => entry.outcome === outcome).length;
  const seconds = cases.reduce((sum, entry) => sum + entry.seconds, 0);
  return (
    `tests="${cases.length}" failures="${count('failure')}" errors="${count('error')}" ` +
    `skipped="${count('skipped')}" time="${fixed(seconds, 3)}"`
  );
}

function drawCase({ name, className, seconds, outcome, message }: Case): string[] {
  const open = `    <testcase name="${escapeXml(name)}" classname="${escapeXml(className)}" time="${fixed(seconds, 3)}">`;
  const inner =
    outcome === 'passed'
      ? `      <system-out>${escapeXml(message)}</system-out>`
      : `      <${outcome} message="${escapeXml(message)}"/>`;
  return [open, inner, '    </testcase>'];
}
