/** The verdict in large letters, and what it means for somebody who runs the service. */
import type { AuditResult, DrafterResult } from '../../audit/result.js';
import { controlNames, findArm, findCounted } from './arm-names.js';
import { countAnswers } from './test-text.js';
import type { VerdictLevel } from './levels.js';
import { levelNames } from './levels.js';
import { acceptedLengthText, changeText, passesText, pValueText } from '../../core/number-text.js';
import type { KeptClass } from '../../measure/kept-class.js';
import type { DrafterVerdict, Verdict } from './verdict.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';
import { keepTogether, listClasses } from './rows.js';

const meanings: Readonly<Record<VerdictLevel, (answers: string) => string>> = {
  robust: () =>
    'These suffixes cost the drafter little. A longer search, other prompts or another method may find worse ones: ' +
    'the verdict speaks of this audit on these prompts.',
  fragile: (answers) =>
    'Whoever can add text to a prompt can take away part of the speed that the drafter brings: for the same answer ' +
    `the target has to run more often, and ${answers}. Capacity planned with the clean accepted length is too optimistic.`,
  collapsed: (answers) =>
    'Whoever can add text to a prompt can take away much of the speed that the drafter brings: for the same answer ' +
    `the target has to run far more often, and ${answers}. Plan capacity for the attacked row, watch accepted ` +
    'length per request, and harden the drafter.',
  inconclusive: () =>
    'This audit does not tell a weakness from chance. That is not a pass: audit more prompts, or search longer.',
};

const nothingMeaning =
  'No prompt could be audited; the reasons stand with the prompts below. That is not a pass: nothing is known yet.';

export function drawVerdict(result: AuditResult, verdict: Verdict): Markup {
  const { level, headline } = verdict;
  const audited = result.drafters.filter((_, index) => verdict.drafters[index]?.audited === true);
  return fragment`<div class="verdict ${level}" id="verdict">
${(verdict.warnings ?? []).map((warning) => fragment`<p class="warning"><span class="tag fail">warning</span> ${keepTogether(warning)}</p>`)}
<h1>${levelNames[level]}</h1>
<p class="headline">${keepTogether(headline)}</p>
<p class="meaning">${audited.length === 0 ? nothingMeaning : meanings[level](describeAnswers(audited))}</p>
${audited.length === 0 ? null : fragment`<p class="soft small over">Along the clean answers, without the suffix and with it:</p>`}
${audited.map((drafter) =>
  drawFigures(
    drafter,
    verdict.drafters.find((entry) => entry.drafter === drafter.drafter)!,
  ),
)}
${drawGate(verdict)}
</div>`;
}

function describeAnswers(drafters: readonly DrafterResult[]): string {
  const counts = drafters
    .map((drafter) => findCounted(drafter))
    .flatMap((row) => (row ? countAnswers(row.kept) : []));
  const kept = counts.reduce((sum, count) => sum + count.kept, 0);
  const total = counts.reduce((sum, count) => sum + count.total, 0);
  return kept === total
    ? `all ${total} answers are kept, so that quality monitors stay quiet`
    : `${kept} of ${total} answers are kept`;
}

function drawFigures(result: DrafterResult, verdict: DrafterVerdict): Markup {
  const { drafter, summary } = result;
  const { level, weakestControl, pValue, adjustedPValue, family } = verdict;
  const clean = findArm(summary, 'clean');
  const counted = findCounted(result);
  const length = (value: number | undefined): string => acceptedLengthText(value ?? null);
  const passes = (counted?.passes ?? NaN) / (clean?.passes ?? NaN) - 1;
  const p = pValueText(adjustedPValue ?? pValue);
  const test =
    weakestControl === null
      ? 'no control was measured'
      : `against ${controlNames[weakestControl]}${adjustedPValue !== null && family > 1 ? ', corrected' : ''}`;
  return fragment`<div class="figures" role="group" aria-label="${drafter}">
<div><b>${drafter}</b><span><span class="tag ${level}">${levelNames[level]}</span></span></div>
${figure([length(clean?.sameAnswer.estimate), length(counted?.sameAnswer.estimate)], 'tokens a step', changeText(-summary.drop.estimate))}
${figure([passesText(clean?.passes ?? null), passesText(counted?.passes ?? null)], 'passes per answer', changeText(passes))}
${counted === undefined ? null : drawClasses(counted.kept)}
<div><b>${keepTogether(p)}</b><span>${test}</span></div>
</div>`;
}

function figure([before, after]: readonly [string, string], label: string, change: string): Markup {
  return fragment`<div><b>${before} <span class="arrow" aria-label="to">→</span> ${after}</b><span>${label}, <strong>${keepTogether(change)}</strong></span></div>`;
}

/** How many answers are kept, and how many fall into each class. */
function drawClasses(kept: Readonly<Record<KeptClass, number>>): Markup {
  const { kept: inside, total } = countAnswers(kept);
  return fragment`<div><b>${inside} of ${total}</b><span>answers kept: ${listClasses(kept)}</span></div>`;
}

function drawGate({ checks, failures, exitCode }: Verdict): Content {
  const missing = failures.filter((failure) => !checks.some(({ message }) => message === failure));
  if (checks.length === 0 && missing.length === 0) return null;
  return fragment`<ul class="gate" aria-label="Gate, exit code ${exitCode}">
${checks.map(({ passed, message }) => fragment`<li><span class="tag ${passed ? 'pass' : 'fail'}">${passed ? 'gate passed' : 'gate failed'}</span> ${message}</li>`)}
${missing.map((failure) => fragment`<li><span class="tag fail">incomplete</span> ${failure}</li>`)}
</ul>`;
}
