/** A comparison in sentences and a table, for the terminal, Markdown and the page. */
import { type Table, intervalCell, rangeText } from '../table.js';
import { armLabels, countAnswers, keptText } from '../audit/audit-words.js';
import {
  type Comparison,
  type DrafterComparison,
  type SetupDifference,
  type SetupValue,
  describeTooFew,
  judgeChange,
} from './comparison.js';
import type { RowComparison, Sides } from './comparison-numbers.js';
import {
  acceptedLengthText,
  changeText,
  countText,
  passesText,
  percentText,
} from '../../core/number-text.js';

export function comparisonTable({ rows }: DrafterComparison): Table {
  return {
    columns: [
      'row',
      { name: 'accepted length', unit: 'tokens per step' },
      'against no suffix',
      'difference, points (95 %)',
      { name: 'passes', unit: 'of the target' },
      'answers kept',
      { name: 'n', unit: 'prompts' },
    ],
    rows: rows.map((row) => ({
      cells: [
        nameChange(row.arm, (arm) => armLabels[arm]),
        arrow(row.length, acceptedLengthText),
        row.change === null ? '–' : arrow(row.change, (change) => changeText(change)),
        row.difference === null ? '–' : intervalCell(row.difference, signed),
        arrow(row.passes, passesText),
        row.change === null ? '–' : arrow(row.kept, keptShare),
        String(row.n),
      ],
    })),
  };
}

/** One name where nothing changed. */
const nameChange = <T>({ before, after }: Sides<T>, name: (value: T) => string): string =>
  before === after ? name(after) : `${name(before)} → ${name(after)}`;

function arrow<T>({ before, after }: Sides<T>, text: (value: T) => string): string {
  return `${text(before)} → ${text(after)}`;
}

function keptShare(kept: RowComparison['kept']['before']): string {
  const { kept: count, total } = countAnswers(kept);
  return `${count}/${total}`;
}

const signed = (share: number): string => changeText(share, 1).replace(' %', '');
/** Percentage points with their sign. */
export const signedPoints = (share: number): string => `${signed(share)} points`;

export const nameDrafter = ({ drafter }: DrafterComparison): string => nameChange(drafter, String);

/** The drafter whose drop under attack grew most. */
export function findWorst({ drafters }: Comparison): DrafterComparison | undefined {
  const grown = ({ counted }: DrafterComparison): number => counted?.growth.estimate ?? -Infinity;
  return [...drafters].sort((left, right) => grown(right) - grown(left))[0];
}

/** What changed for the worst drafter, in about 20 words. */
export function summarizeComparison(comparison: Comparison): string {
  const worst = findWorst(comparison);
  if (worst?.counted == null)
    return 'Nothing could be compared: the runs share no drafter and prompt that both audited.';
  const { drop, growth } = worst.counted;
  const name = nameDrafter(worst);
  const values = `from ${percentText(drop.before)} to ${percentText(drop.after)}`;
  const prompts = countText(growth.n, 'prompt');
  const interval = rangeText(growth, signedPoints);
  const range = interval === undefined ? '' : ` (95 % interval ${interval})`;
  const change = judgeChange(worst.counted);
  switch (change) {
    case 'worse':
    case 'better':
      return `${name} got ${change}: the attack’s cost went ${values} of the accepted length${range}, over ${prompts}.`;
    case 'too few':
      return `${describeTooFew(worst.counted)} to tell whether ${name} changed: the drop under attack went ${values}.`;
    default:
      return `No change is shown: the drop of ${name} under attack went ${values}${range}, over ${prompts}.`;
  }
}

/** What neither the table nor the figures say. */
export function describeDrafter(drafter: DrafterComparison): string[] {
  const { counted, prompts, rows, level } = drafter;
  const verdict =
    level.before === level.after ? `${level.after} in both` : `${level.before} → ${level.after}`;
  const sentences = [`Verdict: ${verdict}.`];
  if (counted === null)
    sentences.push('No prompt was audited in both runs, so nothing else can be compared.');
  else {
    const { kept } = rows.at(-1)!;
    const { before, after } = counted.withoutSuffix;
    if (judgeChange(counted) === 'too few') sentences.push(`${describeTooFew(counted)} to rule out chance.`);
    sentences.push(`Answers before: ${keptText(kept.before)}; after: ${keptText(kept.after)}.`);
    if (before + after > 0) sentences.push(`Prompts without a suffix: ${before} → ${after}.`);
  }
  return [...sentences, ...describeLeftOut(prompts)];
}

function describeLeftOut({ onlyBefore, onlyAfter, changed }: DrafterComparison['prompts']): string[] {
  const counts: readonly (readonly [number, string])[] = [
    [onlyBefore, 'audited only before'],
    [onlyAfter, 'audited only after'],
    [changed, 'with another text'],
  ];
  const parts = counts
    .filter(([count]) => count > 0)
    .map(([count, reason]) => `${countText(count, 'prompt')} ${reason}`);
  return parts.length === 0 ? [] : [`Left out: ${parts.join(', ')}.`];
}

export function describeDifference({ name, before, after }: SetupDifference): string {
  return `${name}: ${valueText(before)} → ${valueText(after)}`;
}

function valueText(value: SetupValue): string {
  if (value === null) return 'none';
  const text = String(value);
  return /^[0-9a-f]{64}$/.test(text) ? text.slice(0, 12) : text;
}

export function describeUnpaired({ unpaired: { before, after } }: Comparison): string[] {
  return [
    ...(before.length > 0 ? [`Only before: ${before.join(', ')}.`] : []),
    ...(after.length > 0 ? [`Only after: ${after.join(', ')}.`] : []),
  ];
}
