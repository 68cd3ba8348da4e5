/**
 * The audit for test dashboards: a suite for each drafter; in it, a case that says whether anything was audited, one
 * for each gate and one for each prompt. Only gates fail: a single prompt is evidence, not a test.
 */
import type {
  ArmName,
  ArmResult,
  ArmSummary,
  AuditResult,
  DrafterResult,
  PromptResult,
} from '../../audit/result.js';
import type { AuditTimings } from '../../audit/arms/phase-clock.js';
import { countClasses, countedArm } from '../../audit/summary.js';
import {
  describeCounts,
  describeDrop,
  describeTests,
  findArm,
  findCounted,
  findPromptArms,
  keptText,
  promptChange,
  sameAnswerLength,
} from './audit-words.js';
import { escapeXml } from '../markup.js';
import { acceptedLengthText, changeText, divergenceText, fixed, passesText } from '../../core/number-text.js';
import { cellText } from '../table.js';
import { lengthCell } from './row-columns.js';
import type { DrafterVerdict, GateCheck, Verdict } from './verdict.js';

interface Case {
  readonly name: string;
  readonly seconds: number;
  readonly outcome: 'passed' | 'failure' | 'error' | 'skipped';
  readonly message: string;
}

const gateNames: Readonly<Record<GateCheck['name'], string>> = {
  failIfDrop: 'gate: drop of the accepted length along the clean answer',
  failIfAcceptedLengthBelow: 'gate: attacked accepted length along the clean answer',
};

export function renderJUnit(result: AuditResult, timings: AuditTimings, verdict: Verdict): string {
  const suites = result.drafters.map((drafter) => ({
    name: `mistletoe.${drafter.drafter}`,
    cases: listCases(drafter, timings, verdict),
  }));
  if (suites.length === 0)
    suites.push({
      name: 'mistletoe',
      cases: [{ name: 'audited', seconds: 0, outcome: 'error', message: verdict.headline }],
    });
  const all = suites.flatMap(({ cases }) => cases);
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="mistletoe audit" ${countAttributes(all)}>`,
    ...suites.flatMap(({ name, cases }) => [
      `  <testsuite name="${escapeXml(name)}" ${countAttributes(cases)}>`,
      ...cases.flatMap((each) => drawCase(each, name)),
      '  </testsuite>',
    ]),
    '</testsuites>',
  ];
  return `${lines.join('\n')}\n`;
}

function listCases(result: DrafterResult, timings: AuditTimings, verdict: Verdict): Case[] {
  const { drafter, prompts } = result;
  const own = verdict.drafters.find((entry) => entry.drafter === drafter);
  const outcome = own?.audited === true ? 'passed' : 'error';
  const message = [...(verdict.warnings ?? []), describeDrafter(result, own)].join(' ');
  const counted = countedArm(prompts);
  return [
    { name: 'audited', seconds: 0, outcome, message },
    ...verdict.checks
      .filter((check) => check.drafter === drafter)
      .map(({ name, passed, message }): Case => {
        return { name: gateNames[name], seconds: 0, outcome: passed ? 'passed' : 'failure', message };
      }),
    ...prompts.map((prompt): Case => ({
      name: `prompt ${prompt.promptId}`,
      seconds: measureSeconds(timings, drafter, prompt.promptId),
      outcome: prompt.skipped === null ? 'passed' : 'skipped',
      message: prompt.skipped ?? describePrompt(prompt, counted),
    })),
  ];
}

function describeDrafter(result: DrafterResult, verdict: DrafterVerdict | undefined): string {
  const { summary } = result;
  const clean = findArm(summary, 'clean');
  const counted = findCounted(result);
  if (verdict?.audited !== true || clean === undefined || counted === undefined)
    return describeCounts(summary);
  const length = (row: ArmSummary): string => cellText(lengthCell(row.sameAnswer));
  return [
    `${verdict.level}: accepted length along the clean answer ${describeDrop(summary)}, ${length(clean)} -> ${length(counted)}`,
    `passes per answer ${passesText(clean.passes)} -> ${passesText(counted.passes)} (${changeText(counted.passes / clean.passes - 1)})`,
    `answers ${keptText(counted.kept)}`,
    `free-running ${acceptedLengthText(counted.freeRunning)}, passes ${changeText(counted.passRatio - 1)}`,
    `KL ${divergenceText(counted.divergence)} nats`,
    `${describeTests(summary, verdict)}; ${describeCounts(summary)}`,
  ].join('; ');
}

function describePrompt(prompt: PromptResult, counted: ArmName): string {
  const [clean] = findPromptArms(prompt, 'clean');
  const attacks = findPromptArms(prompt, counted);
  if (clean === undefined || attacks.length === 0) return 'not measured';
  const mean = (value: (arm: ArmResult) => number): number =>
    attacks.reduce((sum, arm) => sum + value(arm), 0) / attacks.length;
  const passes = mean(({ sameAnswer }) => sameAnswer.steps);
  const ratio = mean(({ compared }) => compared.passes) / mean(({ compared }) => compared.cleanPasses);
  const without = attacks.flatMap(({ withoutSuffix }) => withoutSuffix ?? []);
  return [
    ...without.slice(0, 1).map((why) => `without a suffix (${why})`),
    `accepted length along the clean answer ${acceptedLengthText(sameAnswerLength(prompt, 'clean'))} -> ` +
      `${acceptedLengthText(sameAnswerLength(prompt, counted))} (${changeText(promptChange(prompt, counted))})`,
    `passes ${clean.sameAnswer.steps} -> ${Number.isInteger(passes) ? passes : passesText(passes)} (${changeText(passes / clean.sameAnswer.steps - 1)})`,
    `answers ${keptText(countClasses(attacks.map(({ preservation }) => preservation.kept)))}`,
    `free-running passes ${changeText(ratio - 1)}`,
    `KL ${divergenceText(mean(({ preservation }) => preservation.divergence))} nats`,
  ].join('; ');
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

function drawCase({ name, seconds, outcome, message }: Case, className: string): string[] {
  const open = `    <testcase name="${escapeXml(name)}" classname="${escapeXml(className)}" time="${fixed(seconds, 3)}">`;
  const inner =
    outcome === 'passed'
      ? `      <system-out>${escapeXml(message)}</system-out>`
      : `      <${outcome} message="${escapeXml(message)}"/>`;
  return [open, inner, '    </testcase>'];
}
