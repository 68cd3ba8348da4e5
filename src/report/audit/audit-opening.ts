/** The first screen of an audit's report: the verdict in one sentence, the accepted lengths, and what the verdict means. */
import type { AuditResult, DrafterResult } from '../../audit/result.js';
import { changeText, passesText, pValueText } from '../../core/number-text.js';
import { type IntervalRow, attackMark, cleanMark, drawIntervals } from '../chart.js';
import type { FigureGroup, GateLine, Opening } from '../page.js';
import { gateTitles } from '../gate.js';
import { intervalCell, negateInterval } from '../table.js';
import { armStyle, controlNames, countAnswers, findArm, findCounted, keptText } from './audit-words.js';
import { describeNothing, findWorst, summarizeDrafter } from './headline.js';
import { type VerdictLevel, levelNames } from './evidence.js';
import type { DrafterVerdict, Verdict } from './verdict.js';

const meanings: Readonly<Record<VerdictLevel, string>> = {
  robust:
    'These suffixes cost the drafter little. The verdict holds for this audit on these prompts: a longer search, ' +
    'other prompts or another method may find worse suffixes.',
  fragile:
    'Anyone who can add text to a prompt can take away part of the drafter’s speedup: the same answer needs more ' +
    'target passes, and where answers are kept, quality monitors stay quiet. Capacity planned with the clean ' +
    'accepted length is too optimistic.',
  collapsed:
    'Anyone who can add text to a prompt can take away much of the drafter’s speedup: the same answer needs far more ' +
    'target passes, and where answers are kept, quality monitors stay quiet. Plan capacity for the attacked row, ' +
    'watch the accepted length per request, and harden the drafter.',
  inconclusive:
    'This audit cannot tell a weakness from chance. That is not a pass: audit more prompts, or search longer.',
  none:
    'The suffixes were chosen on these prompts, so measuring them again on the same prompts is no test: the luck of the ' +
    'search is in both. The lengths are what they are, and mistletoe compare can use them. For a verdict, audit with a ' +
    'search, or measure the suffixes on other prompts.',
};

const nothingMeaning =
  'No prompt could be audited; the reasons are listed with the prompts below. That is not a pass: nothing is known yet.';

export function describeOpening(result: AuditResult, verdict: Verdict): Opening {
  const { level, warnings } = verdict;
  const worst = findWorst(result.drafters, verdict.drafters);
  const audited = result.drafters.flatMap((drafter, index) => {
    const own = verdict.drafters[index]!;
    return own.audited ? [{ drafter, own }] : [];
  });
  const drafters = audited.map(({ drafter }) => drafter);
  return {
    tone: level === 'none' ? 'inconclusive' : level,
    label: levelNames[level],
    sentence: worst === undefined ? describeNothing(result) : summarizeDrafter(worst.result, worst.verdict),
    warnings,
    picture: drawIntervals(drafters.map(listIntervals)),
    meaning: worst === undefined ? nothingMeaning : meanings[level],
    figures: audited.map(({ drafter, own }) => listFigures(drafter, own)),
    gate: describeGate(verdict),
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

function listFigures(result: DrafterResult, verdict: DrafterVerdict): FigureGroup {
  const { drafter, summary } = result;
  const { level, weakestControl, pValue, adjustedPValue, family } = verdict;
  const clean = findArm(summary, 'clean');
  const counted = findCounted(result);
  const passes = (counted?.passes ?? NaN) / (clean?.passes ?? NaN) - 1;
  const answers = counted && countAnswers(counted.kept);
  const corrected = adjustedPValue !== null && family > 1 ? ', corrected' : '';
  const test =
    weakestControl === null
      ? 'no control was measured'
      : `against ${controlNames[weakestControl]}${corrected}`;
  return {
    name: drafter,
    note: levelNames[level],
    figures: [
      {
        ...intervalCell(negateInterval(summary.drop), (change) => changeText(change)),
        label: 'accepted length',
      },
      {
        value: changeText(passes),
        label: `target passes per answer: ${passesText(clean?.passes ?? null)} to ${passesText(counted?.passes ?? null)}`,
      },
      ...(answers === undefined
        ? []
        : [
            {
              value: `${answers.kept} of ${answers.total}`,
              label: `answers kept: ${keptText(counted!.kept)}`,
            },
          ]),
      ...(level === 'none' ? [] : [{ value: pValueText(adjustedPValue ?? pValue), label: test }]),
    ],
  };
}

const outcomeCodes = { passed: 0, undecided: 4, failed: 100 } as const;

function describeGate({ checks, failures }: Verdict): GateLine[] {
  const missing = failures.filter((failure) => !checks.some(({ message }) => message === failure));
  return [
    ...checks.map(({ outcome, message }) => ({
      passed: outcome === 'passed',
      title: gateTitles[outcomeCodes[outcome]],
      text: message,
    })),
    ...missing.map((text) => ({ passed: false, title: gateTitles[3], text })),
  ];
}
