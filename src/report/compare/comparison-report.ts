/** A comparison of two audits, for a terminal, for a pull request, and as a page. */
import { changeText, countText, percentText, pValueText } from '../../core/number-text.js';
import type { Interval } from '../../measure/statistics.js';
import { armLabels } from '../audit/audit-words.js';
import { type Report, cardBlock, factsBlock, section, sentencesBlock, tableBlock } from '../document.js';
import type { Content } from '../markup.js';
import { drawIntervals } from '../chart.js';
import { gateTitles } from '../gate.js';
import type { FigureGroup, GateLine, Opening } from '../page.js';
import { intervalCell } from '../table.js';
import { type Comparison, type DrafterComparison, type RunDescription, judgeChange } from './comparison.js';
import {
  comparisonTable,
  describeDifference,
  describeDrafter,
  describeUnpaired,
  findWorst,
  nameDrafter,
  signedPoints,
  summarizeComparison,
} from './comparison-words.js';

const describeRun = ({ name, target, version, level }: RunDescription): string =>
  `${name}, target ${target}, Mistletoe ${version}: ${level}`;

export function createComparisonReport(comparison: Comparison): Report {
  const { runs, differences, drafters } = comparison;
  return {
    title: `Mistletoe comparison of ${runs.before.name} and ${runs.after.name}`,
    brand: 'Mistletoe comparison',
    subject: `${runs.before.name} and ${runs.after.name}, over the prompts that both audited`,
    opening: describeOpening(comparison),
    sections: [
      section(
        ['drafters', 'Drafters', 'Row by row'],
        'Only prompts with the same text that both runs audited are compared. Each change is against the prompts without a suffix of the same run; the difference of two changes is in percentage points.',
        sentencesBlock(describeUnpaired(comparison)),
        ...drafters.map((drafter) =>
          cardBlock(
            nameDrafter(drafter),
            ...(drafter.rows.length === 0
              ? []
              : [tableBlock(comparisonTable(drafter), `Rows of ${nameDrafter(drafter)}`)]),
            sentencesBlock(describeDrafter(drafter)),
          ),
        ),
      ),
      section(
        ['setup', 'Setup', 'The two runs'],
        undefined,
        cardBlock(
          undefined,
          sentencesBlock(differences.length === 0 ? ['Both runs have the same setup.'] : []),
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

function describeGate(gate: Comparison['gate']): GateLine[] {
  if (gate === null) return [];
  const { exitCode, failures, failIfWorse } = gate;
  const title = gateTitles[exitCode];
  return exitCode === 0
    ? [{ passed: true, title, text: `No drop grew by ${percentText(failIfWorse, 1)} or more beyond chance.` }]
    : failures.map((text) => ({ passed: false, title, text }));
}

const tones = {
  worse: ['collapsed', 'Worse'],
  better: ['robust', 'Better'],
  unclear: ['inconclusive', 'No change shown'],
  'too few': ['inconclusive', 'Not decided'],
  unknown: ['inconclusive', 'Not compared'],
} as const;

function describeOpening(comparison: Comparison): Opening {
  const { drafters, gate } = comparison;
  const [tone, label] = tones[judgeChange(findWorst(comparison)?.counted ?? null)];
  return {
    tone,
    label,
    sentence: summarizeComparison(comparison),
    picture: drawLengths(drafters),
    figures: drafters.flatMap(listFigures),
    gate: describeGate(gate),
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

function listFigures(drafter: DrafterComparison): FigureGroup[] {
  const { counted, rows, prompts } = drafter;
  if (counted === null) return [];
  const { growth, drop, pValue } = counted;
  const clean = rows.find(({ change }) => change === null)!;
  return [
    {
      name: nameDrafter(drafter),
      note: `${countText(prompts.shared, 'prompt')} in both`,
      figures: [
        {
          ...intervalCell(growth, signedPoints),
          label: `drop under attack: ${percentText(drop.before)} to ${percentText(drop.after)}`,
        },
        ...(growth.n < 2 ? [] : [{ value: pValueText(pValue), label: 'paired signed-rank test' }]),
        {
          ...intervalCell(clean.lengthChange, (change) => changeText(change, 1)),
          label: 'accepted length without a suffix',
        },
      ],
    },
  ];
}
