/** A comparison of two audits as text, as Markdown for a pull request, and as a page. */
import { changeText, percentText } from '../../core/number-text.js';
import type { Interval } from '../../measure/statistics.js';
import { armLabels } from '../audit/audit-words.js';
import { type Report, cardBlock, factsBlock, section, sentencesBlock, tableBlock } from '../document.js';
import { type Content, escapeMarkdown, fragment } from '../markup.js';
import { drawIntervals } from '../chart.js';
import { type Opening, drawFigure, rangeText } from '../page.js';
import { tableText } from '../table.js';
import { judgeChange } from './comparison.js';
import type { Comparison, DrafterComparison, RunDescription } from './comparison-record.js';
import {
  comparisonTable,
  describeDifference,
  describeDrafter,
  describeUnpaired,
  findWorst,
  nameDrafter,
  signed,
  summarizeComparison,
} from './comparison-words.js';

const describeRun = ({ name, target, version, level }: RunDescription): string =>
  `${name}, target ${target}, Mistletoe ${version}: ${level}`;

const noDifferences = 'Both runs have the same setup.';

export function renderComparisonText(comparison: Comparison): string {
  const { runs, differences, drafters, gate } = comparison;
  const lines = [
    summarizeComparison(comparison),
    '',
    `before  ${describeRun(runs.before)}`,
    `after   ${describeRun(runs.after)}`,
    '',
    ...(differences.length === 0
      ? [noDifferences]
      : ['Setup differences:', ...differences.map((each) => `  ${describeDifference(each)}`)]),
    ...describeUnpaired(comparison),
    ...drafters.flatMap((drafter) => [
      '',
      nameDrafter(drafter),
      ...(drafter.rows.length === 0 ? [] : tableText(comparisonTable(drafter))),
      ...describeDrafter(drafter),
    ]),
    ...(gate === null ? [] : ['', ...(gate.failures.length === 0 ? ['The gate passed.'] : gate.failures)]),
  ];
  return `${lines.join('\n')}\n`;
}

const gateTitles = {
  0: 'Gate passed.',
  3: 'Incomplete.',
  4: 'Too few prompts.',
  100: 'Gate failed.',
} as const;

export function createComparisonReport(comparison: Comparison): Report {
  const { runs, differences, drafters, gate } = comparison;
  const gateText = describeGate(gate);
  return {
    title: `Mistletoe comparison of ${runs.before.name} and ${runs.after.name}`,
    brand: 'Mistletoe comparison',
    subject: `${runs.before.name} and ${runs.after.name}, over the prompts that both audited`,
    opening: describeOpening(comparison, gateText),
    sections: [
      section(
        ['drafters', 'Drafters', 'Row by row'],
        'Only prompts with the same text that both runs audited are compared. Each change is against the prompts without a suffix of the same run; the difference of two changes is in percentage points.',
        {
          html: null,
          markdown: gate === null ? [] : [`**${gateTitles[gate.exitCode]}** ${escapeMarkdown(gateText)}`],
        },
        sentencesBlock(describeUnpaired(comparison)),
        ...drafters.map((drafter) =>
          cardBlock(
            nameDrafter(drafter),
            ...(drafter.rows.length === 0
              ? []
              : [tableBlock(comparisonTable(drafter), `Rows of ${nameDrafter(drafter)}`)]),
            sentencesBlock([describeDrafter(drafter).join(' ')]),
          ),
        ),
      ),
      section(
        ['setup', 'Setup', 'The two runs'],
        differences.length === 0 ? noDifferences : undefined,
        cardBlock(
          undefined,
          factsBlock([
            ['before', describeRun(runs.before)],
            ['after', describeRun(runs.after)],
            ...differences.map((each) => ['difference', describeDifference(each)] as const),
          ]),
        ),
      ),
    ],
    imprint: `Mistletoe ${runs.after.version} · ${comparison.schema}`,
  };
}

function describeGate(gate: Comparison['gate']): string {
  if (gate === null) return '';
  return gate.failures.length === 0
    ? `No drop grew by ${percentText(gate.failIfWorse, 1)} or more beyond chance.`
    : gate.failures.join(' ');
}

const tones = {
  worse: ['collapsed', 'Worse'],
  better: ['robust', 'Better'],
  unclear: ['inconclusive', 'No change shown'],
  'too few': ['inconclusive', 'Not decided'],
  unknown: ['inconclusive', 'Not compared'],
} as const;

function describeOpening(comparison: Comparison, gateText: string): Opening {
  const { drafters, gate } = comparison;
  const [tone, label] = tones[judgeChange(findWorst(comparison)?.counted ?? null)];
  return {
    id: 'outcome',
    tone,
    label,
    sentence: summarizeComparison(comparison),
    picture: drawLengths(drafters),
    details: fragment`${drafters.map(drawFigures)}${
      gate &&
      fragment`<ul class="gate"><li><span class="tag ${gate.exitCode === 0 ? 'pass' : 'fail'}">${gateTitles[gate.exitCode]}</span> ${gateText}</li></ul>`
    }`,
  };
}

const exact = (value: number): Interval => ({ estimate: value, low: value, high: value, n: 1 });
const beforeMark = { name: 'before', color: 'var(--soft)', symbol: 'circle' } as const;
const afterMark = { name: 'after', color: 'var(--accent)', symbol: 'circle', filled: true } as const;

/** The prompts without a suffix and the attack, before and after. */
const drawLengths = (drafters: readonly DrafterComparison[]): Content =>
  drawIntervals(
    drafters.flatMap(({ drafter, rows }) =>
      rows
        .filter((row, index) => row.change === null || index === rows.length - 1)
        .map(({ arm, length }) => ({
          name: drafters.length === 1 ? armLabels[arm.after] : `${drafter.after}, ${armLabels[arm.after]}`,
          marks: [
            { style: beforeMark, value: exact(length.before) },
            { style: afterMark, value: exact(length.after) },
          ],
        })),
    ),
  );

function drawFigures(drafter: DrafterComparison): Content {
  const { counted, rows, prompts } = drafter;
  if (counted === null) return null;
  const { growth, drop } = counted;
  const clean = rows.find(({ change }) => change === null)?.lengthChange;
  const range = ({ low, high, n }: Interval, text: (value: number) => string): string | undefined =>
    n < 2 ? undefined : rangeText(text(low), text(high));
  return fragment`<div class="figures" role="group" aria-label="${nameDrafter(drafter)}">
<div><b>${nameDrafter(drafter)}</b><span>${prompts.shared} prompts in both</span></div>
${drawFigure(`${signed(growth.estimate)} points`, `drop under attack: ${percentText(drop.before)} to ${percentText(drop.after)}`, range(growth, signed))}
${
  clean === undefined
    ? null
    : drawFigure(
        changeText(clean.estimate, 1),
        'accepted length without a suffix',
        range(clean, (value) => changeText(value, 1)),
      )
}
</div>`;
}
