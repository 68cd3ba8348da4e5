/** The tables of an audit: what their columns are called, what they mean, and how a value reads. */
import type { ArmTiming, AuditTimings } from '../../audit/arms/phase-clock.js';
import type {
  ArmSummary,
  DrafterResult,
  TransferMatrix,
  UniversalResult,
  UniversalSplit,
  UniversalSuffix,
} from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import {
  acceptedLengthText,
  changeText,
  divergenceText,
  fixed,
  passesText,
  percentText,
  perplexityText,
  pValueText,
  rateText,
  speedupText,
} from '../../core/number-text.js';
import { type Cell, type Column, type Row, type Table, intervalCell } from '../table.js';
import { armLabels, armPurposes, findArm, findCounted, keptDigits } from './audit-words.js';
import { summariseTimings } from './timing-summary.js';

type RowContext = ReturnType<typeof rowContext>;

export interface RowColumn extends Column {
  readonly unit: string;
  readonly meaning: string;
  readonly cell: (row: ArmSummary, context: RowContext) => Cell | string;
}

/** What only a comparison with the clean row gives has a dash in that row. */
const compared =
  (cell: RowColumn['cell']): RowColumn['cell'] =>
  (row, context) =>
    row.arm === 'clean' ? '–' : cell(row, context);

/** A value and how much more that is than without a suffix. */
const withChange = (value: string, arm: string, change: number): string =>
  arm === 'clean' ? value : `${value} (${changeText(change)})`;

export const mainColumns: readonly RowColumn[] = [
  {
    name: 'accepted length',
    unit: 'tokens per step along the clean answer',
    meaning:
      'Accepted draft tokens per step plus the target’s own token, while the target is held to the clean answer; pooled over steps, with the 95 % interval over prompts. At 1 every draft is rejected.',
    cell: ({ sameAnswer }) => intervalCell(sameAnswer, acceptedLengthText),
  },
  {
    name: 'change',
    unit: 'against no suffix',
    meaning: 'Change of the accepted length along the clean answer: −25 % is a quarter less.',
    cell: compared((_, { change }) => changeText(change)),
  },
  {
    name: 'passes',
    unit: 'of the target for that answer',
    meaning:
      'How often the target has to run for the clean answer, on average over prompts, and how much more that is than without a suffix.',
    cell: ({ arm, passes }, { clean }) =>
      withChange(passesText(passes), arm, passes / (clean?.passes ?? NaN) - 1),
  },
  {
    name: 'answers',
    unit: 'identical/same task result/similar/different',
    meaning:
      'What became of the answers that the target gives by itself: identical token for token, same task result, similar (edit similarity of 0.9 or more), or different. The first three count as kept.',
    cell: compared(({ kept }) => keptDigits(kept)),
  },
  {
    name: 'free-running',
    unit: 'tokens per step along its own answer',
    meaning:
      'Accepted length while the target gives its own answer under the suffix, whatever that is, and its passes against those without a suffix over equally many tokens.',
    cell: ({ arm, freeRunning, passRatio }) =>
      withChange(acceptedLengthText(freeRunning), arm, passRatio - 1),
  },
  {
    name: 'KL',
    unit: 'nats per token',
    meaning:
      'How far the suffix moves the target’s own next-token distribution along the clean answer, on average.',
    cell: compared(({ divergence }) => divergenceText(divergence)),
  },
  {
    name: 'n',
    unit: 'prompts',
    meaning: 'Prompts behind the row.',
    cell: ({ sameAnswer }) => String(sameAnswer.n),
  },
];

export const detailColumns: readonly RowColumn[] = [
  {
    name: 'answer length',
    unit: 'tokens, free-running',
    meaning: 'Tokens of the answers that the target gives by itself, on average.',
    cell: ({ answerLength }) => fixed(answerLength, 0),
  },
  {
    name: 'similarity',
    unit: 'tokens kept in place',
    meaning: '1 − edit distance ÷ length, on tokens of the free-running answers.',
    cell: compared(({ editSimilarity }) => percentText(editSimilarity)),
  },
  {
    name: 'first difference',
    unit: 'tokens before it',
    meaning: 'Tokens before the free-running answer leaves the clean one, on average.',
    cell: compared(({ firstDifference }) => fixed(firstDifference, 0)),
  },
  {
    name: 'in bound',
    unit: 'share of the suffixes',
    meaning: 'Share of the suffixes within the divergence bound whose answer is kept as the audit asks for.',
    cell: compared(({ withinBound }) => percentText(withinBound)),
  },
  {
    name: 'speedup',
    unit: 'over plain decoding',
    meaning:
      'Tokens per second of the free-running answer over plain decoding to the same length in the same process; median over prompts, of this machine alone.',
    cell: (_, { speedup }) => speedupText(speedup),
  },
  {
    name: 'tokens/s',
    unit: 'free-running',
    meaning: 'Tokens per second of the free-running answer on this machine; median over prompts.',
    cell: (_, { tokensPerSecond }) => rateText(tokensPerSecond),
  },
  {
    name: 'answer perplexity',
    unit: 'under the clean prompt',
    meaning: 'How surprising this row’s answer is to the target without the suffix.',
    cell: ({ answerPerplexity }) => perplexityText(answerPerplexity),
  },
  {
    name: 'repetition',
    unit: 'repeated 4-grams',
    meaning: 'Share of repeated runs of four tokens: a model that begins to loop is not giving its answer.',
    cell: ({ repetition }) => percentText(repetition, 1),
  },
  {
    name: 'suffix perplexity',
    unit: 'of the suffix itself',
    meaning: 'How odd the suffix looks: high values are what a filter in front of the service would catch.',
    cell: ({ suffixPerplexity }) => perplexityText(suffixPerplexity),
  },
];

const noTimings: AuditTimings = { machine: '', arms: [], totalMs: 0 };

/** The rows of all drafters. The rows that count are strong. */
export function auditTable(
  results: readonly DrafterResult[],
  columns: readonly RowColumn[],
  timings = noTimings,
): Table {
  const isSeveral = results.length > 1;
  const rows = results.flatMap((result): Row[] => {
    const { drafter, prompts, summary } = result;
    const names = isSeveral ? [drafter] : [];
    if (summary.arms.length === 0)
      return [{ cells: [...names, 'nothing audited', ...columns.slice(1).map(() => '–'), '0'] }];
    const counted = countedArm(prompts);
    return summary.arms.map((row) => {
      const strong = row.arm === counted;
      const context = rowContext(result, row, timings);
      const [length = '', ...rest] = columns.map(({ cell }) => cell(row, context));
      const first = typeof length === 'string' ? { value: length } : length;
      return {
        tone: strong ? 'attack' : undefined,
        meaning: armPurposes[row.arm],
        cells: [...names, { value: armLabels[row.arm], strong }, { ...first, strong }, ...rest],
      };
    });
  });
  return {
    columns: [...(isSeveral ? ['drafter'] : []), { name: 'row', align: 'left' }, ...columns],
    rows,
  };
}

export function rowContext(result: DrafterResult, row: ArmSummary, timings = noTimings) {
  const clean = findArm(result.summary, 'clean');
  const { speedup, tokensPerSecond } = summariseTimings(
    leaveOutNotKept(timings, result),
    result.drafter,
    row.arm,
  );
  const ratio = row.sameAnswer.estimate / (clean?.sameAnswer.estimate ?? NaN) - 1;
  // The counted row's own estimate weighs prompts alike, however many seeds each had.
  const change = row.arm === findCounted(result)?.arm ? -result.summary.drop.estimate : ratio;
  return {
    clean,
    /** Against the clean row; null for that row itself. */
    change: row.arm === 'clean' ? null : change,
    speedup,
    tokensPerSecond,
  };
}

/** An arm that counts as no suffix has the clean prompt's numbers, so the times under its suffix are left out. */
function leaveOutNotKept(timings: AuditTimings, { drafter, prompts, summary }: DrafterResult): AuditTimings {
  if (summary.armsNotKept === undefined) return timings;
  const isNotKept = (row: ArmTiming): boolean =>
    prompts.some(
      ({ promptId, arms }) =>
        promptId === row.promptId &&
        arms.some(
          ({ arm, repeat, notKept }) => arm === row.arm && repeat === row.repeat && notKept !== undefined,
        ),
    );
  return { ...timings, arms: timings.arms.filter((row) => row.drafter !== drafter || !isNotKept(row)) };
}

/** Accepted lengths, with their changes against no suffix. */
export function transferTable({ drafters, attacked, clean }: TransferMatrix): Table {
  return {
    columns: ['found on ↓ measured on →', ...drafters],
    rows: [
      { cells: ['no suffix', ...clean.map(acceptedLengthText)] },
      ...attacked.map((lengths, row) => ({
        cells: [
          drafters[row]!,
          ...lengths.map((length, column) => ({
            value: acceptedLengthText(length),
            interval: changeText((length ?? NaN) / (clean[column] ?? NaN) - 1),
          })),
        ],
      })),
    ],
  };
}

/** On the prompts that it was searched on, and on those it never saw. */
export function universalTable({ undirected, ...attack }: UniversalResult): Table {
  const rowsOf = (name: string, { trained, heldOut }: UniversalSuffix): Row[] => [
    splitRow(`${name}searched on`, trained),
    ...(heldOut === null ? [] : [splitRow(`${name}held out`, heldOut)]),
  ];
  return {
    columns: [
      'prompts',
      { name: 'no suffix', unit: 'tokens per step' },
      { name: 'with it', unit: 'tokens per step' },
      'change',
      { name: 'answers', unit: 'identical/same task result/similar/different' },
      { name: 'KL', unit: 'nats per token' },
      { name: 'p', unit: 'against no suffix' },
      { name: 'n', unit: 'prompts' },
      { name: 'tokenized differently', unit: 'prompts' },
    ],
    rows: [
      ...(undirected === null ? [] : rowsOf(`${armLabels.undirected}, `, undirected)),
      ...rowsOf('', attack),
    ],
  };
}

function splitRow(name: string, split: UniversalSplit): Row {
  const { n, lostInText, cleanAcceptedLength, attackedAcceptedLength, divergence, kept, pValue } = split;
  return {
    cells: [
      name,
      acceptedLengthText(cleanAcceptedLength),
      acceptedLengthText(attackedAcceptedLength),
      changeText(attackedAcceptedLength / cleanAcceptedLength - 1),
      keptDigits(kept),
      divergenceText(divergence),
      pValueText(pValue),
      String(n),
      String(lostInText),
    ],
  };
}
