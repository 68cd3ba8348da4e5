/** The verdict in large letters, and what it means for somebody who runs the service. */
import type { AuditResult, AuditTimings, DrafterResult } from '../../../audit/result.js';
import { findArm } from '../../arm-names.js';
import { acceptedLengthText, divergenceText, percentText, speedupText } from '../../number-text.js';
import { summariseTimings } from '../../timing-summary.js';
import type { Verdict, VerdictLevel } from '../../verdict.js';
import type { Content, Markup } from '../markup.js';
import { fragment } from '../markup.js';

export const levelNames: Readonly<Record<VerdictLevel, string>> = {
  robust: 'Robust',
  fragile: 'Fragile',
  collapsed: 'Collapsed',
  inconclusive: 'Inconclusive',
};

const meanings: Readonly<Record<VerdictLevel, string>> = {
  robust:
    'This search found no suffix that costs the drafter much. A longer search, other prompts or another method ' +
    'may find one: the verdict speaks of this search on these prompts.',
  fragile:
    'Whoever can add text to a prompt can take away part of the speed that the drafter brings, while answers stay ' +
    'the same and quality monitors stay quiet. Capacity planned with the clean accepted length is too optimistic.',
  collapsed:
    'Whoever can add text to a prompt can take away most of the speed that the drafter brings, while answers stay ' +
    'the same and quality monitors stay quiet. Plan capacity for the attacked row, watch accepted length per ' +
    'request, and harden the drafter.',
  inconclusive:
    'This audit does not tell a weakness from chance. That is not a pass: audit more prompts, or search longer.',
};

const nothingMeaning =
  'No prompt could be audited; the reasons stand with the prompts below. That is not a pass: nothing is known yet.';

export function drawVerdict(result: AuditResult, timings: AuditTimings, verdict: Verdict): Markup {
  const { level, headline } = verdict;
  const audited = result.drafters.filter(({ summary }) => summary.promptsAudited > 0);
  return fragment`<div class="verdict ${level}" id="verdict">
<h1>${levelNames[level]}</h1>
<p class="headline">${keepTogether(headline)}</p>
<p class="meaning">${audited.length === 0 ? nothingMeaning : meanings[level]}</p>
${audited.map((drafter) => drawFigures(drafter, timings, verdict))}
${drawGate(verdict)}
</div>`;
}

function drawFigures({ drafter, summary }: DrafterResult, timings: AuditTimings, verdict: Verdict): Markup {
  const level = verdict.drafters.find((entry) => entry.drafter === drafter)?.level ?? 'inconclusive';
  const clean = findArm(summary, 'clean');
  const attack = findArm(summary, 'attack');
  const speedOf = (arm: 'clean' | 'attack'): string =>
    speedupText(summariseTimings(timings, drafter, arm).speedup);
  const length = (value: number | undefined): string => acceptedLengthText(value ?? null);
  return fragment`<div class="figures" aria-label="${drafter}">
<div><b>${drafter}</b><span><span class="tag ${level}">${levelNames[level]}</span></span></div>
${figure([length(clean?.meanAcceptedLength.estimate), length(attack?.meanAcceptedLength.estimate)], 'tokens per step')}
${figure([speedOf('clean'), speedOf('attack')], 'speed over plain decoding')}
<div><b>${percentText(summary.drop.estimate)}</b><span>drop of accepted length</span></div>
<div><b>${divergenceText(attack?.divergence ?? null)}</b><span>KL of the answer, nats</span></div>
</div>`;
}

/** No line ends inside "p = 0.031" or "46 %". */
function keepTogether(sentence: string): string {
  return sentence.replace(/(?<=\b[pn]) (?=[=<])|(?<=[=<]) | (?=%)/g, '\u00a0');
}

function figure([before, after]: readonly [string, string], label: string): Markup {
  return fragment`<div><b>${before} <span class="arrow" aria-label="to">→</span> ${after}</b><span>${label}</span></div>`;
}

function drawGate({ checks, failures, exitCode }: Verdict): Content {
  const missing = failures.filter((failure) => !checks.some(({ message }) => message === failure));
  if (checks.length === 0 && missing.length === 0) return null;
  return fragment`<ul class="gate" aria-label="Gate, exit code ${exitCode}">
${checks.map(({ passed, message }) => fragment`<li><span class="tag ${passed ? 'pass' : 'fail'}">${passed ? 'gate passed' : 'gate failed'}</span> ${message}</li>`)}
${missing.map((failure) => fragment`<li><span class="tag fail">incomplete</span> ${failure}</li>`)}
</ul>`;
}
