/** The first screen of an audit's page: the verdict in one sentence, the accepted lengths, and what the verdict means. */
import type { AuditResult, DrafterResult } from '../../audit/result.js';
import { changeText, fixed, passesText, pValueText } from '../../core/number-text.js';
import { type IntervalRow, attackMark, cleanMark, drawIntervals } from '../chart.js';
import { type Content, type Markup, fragment } from '../markup.js';
import { type Opening, drawFigure, rangeText } from '../page.js';
import { armStyle, controlNames, countAnswers, findArm, findCounted, listClasses } from './audit-words.js';
import { summarizeVerdict } from './headline.js';
import { type VerdictLevel, levelNames } from './evidence.js';
import type { DrafterVerdict, Verdict } from './verdict.js';

const meanings: Readonly<Record<VerdictLevel, (answers: string) => string>> = {
  robust: () =>
    'These suffixes cost the drafter little. The verdict holds for this audit on these prompts: a longer search, ' +
    'other prompts or another method may find worse suffixes.',
  fragile: (answers) =>
    'Anyone who can add text to a prompt can take away part of the drafter’s speedup: the same answer needs more ' +
    `target passes, and ${answers}. Capacity planned with the clean accepted length is too optimistic.`,
  collapsed: (answers) =>
    'Anyone who can add text to a prompt can take away much of the drafter’s speedup: the same answer needs far more ' +
    `target passes, and ${answers}. Plan capacity for the attacked row, watch the accepted length per request, and ` +
    'harden the drafter.',
  inconclusive: () =>
    'This audit cannot tell a weakness from chance. That is not a pass: audit more prompts, or search longer.',
};

const nothingMeaning =
  'No prompt could be audited; the reasons are listed with the prompts below. That is not a pass: nothing is known yet.';

export function describeOpening(result: AuditResult, verdict: Verdict): Opening {
  const { level, warnings } = verdict;
  const audited = result.drafters.filter((_, index) => verdict.drafters[index]?.audited === true);
  return {
    id: 'verdict',
    tone: level,
    label: levelNames[level],
    sentence: summarizeVerdict(result.drafters, verdict.drafters),
    warnings,
    picture: drawIntervals(audited.map(listIntervals)),
    details: fragment`<p class="meaning">${audited.length === 0 ? nothingMeaning : meanings[level](describeAnswers(audited))}</p>
${audited.map((drafter) =>
  drawFigures(
    drafter,
    verdict.drafters.find((entry) => entry.drafter === drafter.drafter)!,
  ),
)}
${drawGate(verdict)}`,
  };
}

function listIntervals(result: DrafterResult): IntervalRow {
  const clean = findArm(result.summary, 'clean');
  const undirected = findArm(result.summary, 'undirected');
  const counted = findCounted(result);
  const attack = counted?.arm === 'given' ? { ...attackMark, name: 'with the given suffix' } : attackMark;
  return {
    name: result.drafter,
    marks: [
      ...(clean === undefined ? [] : [{ style: cleanMark, value: clean.sameAnswer }]),
      ...(undirected === undefined ? [] : [{ style: armStyle('undirected'), value: undirected.sameAnswer }]),
      ...(counted === undefined ? [] : [{ style: attack, value: counted.sameAnswer }]),
    ],
  };
}

function describeAnswers(drafters: readonly DrafterResult[]): string {
  const counts = drafters
    .map((drafter) => findCounted(drafter))
    .flatMap((row) => (row ? countAnswers(row.kept) : []));
  const kept = counts.reduce((sum, count) => sum + count.kept, 0);
  const total = counts.reduce((sum, count) => sum + count.total, 0);
  return kept === total
    ? `all ${total} answers are kept, so quality monitors stay quiet`
    : `${kept} of ${total} answers are kept`;
}

function drawFigures(result: DrafterResult, verdict: DrafterVerdict): Markup {
  const { drafter, summary } = result;
  const { level, weakestControl, pValue, adjustedPValue, family } = verdict;
  const { drop } = summary;
  const clean = findArm(summary, 'clean');
  const counted = findCounted(result);
  const passes = (counted?.passes ?? NaN) / (clean?.passes ?? NaN) - 1;
  const answers = counted === undefined ? undefined : countAnswers(counted.kept);
  const interval = rangeText(fixed(-100 * drop.high, 0), changeText(-drop.low));
  const test =
    weakestControl === null
      ? 'no control was measured'
      : `against ${controlNames[weakestControl]}${adjustedPValue !== null && family > 1 ? ', corrected' : ''}`;
  return fragment`<div class="figures" role="group" aria-label="${drafter}">
<div><b>${drafter}</b><span><span class="tag ${level}">${levelNames[level]}</span></span></div>
${drawFigure(changeText(-drop.estimate), 'accepted length', drop.n < 2 ? undefined : interval)}
${drawFigure(changeText(passes), `target passes per answer: ${passesText(clean?.passes ?? null)} to ${passesText(counted?.passes ?? null)}`)}
${answers === undefined ? null : drawFigure(`${answers.kept} of ${answers.total}`, fragment`answers kept: ${listClasses(counted!.kept)}`)}
${drawFigure(pValueText(adjustedPValue ?? pValue), test)}
</div>`;
}

function drawGate({ checks, failures, exitCode }: Verdict): Content {
  const missing = failures.filter((failure) => !checks.some(({ message }) => message === failure));
  if (checks.length === 0 && missing.length === 0) return null;
  return fragment`<ul class="gate" aria-label="Gate, exit code ${exitCode}">
${checks.map(({ passed, message }) => fragment`<li><span class="tag ${passed ? 'pass' : 'fail'}">${passed ? 'gate passed' : 'gate failed'}</span> ${message}</li>`)}
${missing.map((failure) => fragment`<li><span class="tag fail">incomplete</span> ${failure}</li>`)}
</ul>`;
}
