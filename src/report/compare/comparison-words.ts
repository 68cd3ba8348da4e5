/** A comparison in sentences and a table, for the terminal, Markdown and the page. */
import type { Interval } from '../../measure/statistics.js';
import type { Cell, Table } from '../table.js';
import { armLabels, countAnswers, describeKept } from '../audit/audit-words.js';
import type {
  Comparison,
  DrafterComparison,
  RowComparison,
  SetupDifference,
  SetupValue,
  Sides,
} from './comparison-record.js';
import { describeTooFew, judgeChange } from './comparison.js';
import {
  acceptedLengthText,
  changeText,
  countText,
  fixed,
  passesText,
  percentText,
  pValueText,
} from '../../core/number-text.js';

export function comparisonTable({ rows }: DrafterComparison): Table {
  return {
    columns: [
      'row',
      { name: 'accepted length', unit: 'tokens per step' },
      'against no suffix',
      { name: 'difference, points (95 %)' },
      { name: 'passes', unit: 'of the target' },
      'answers kept',
      { name: 'n', unit: 'prompts' },
    ],
    rows: rows.map((row) => ({
      cells: [
        nameChange(row.arm, (arm) => armLabels[arm]),
        arrow(row.length, acceptedLengthText),
        row.change === null ? '–' : arrow(row.change, (change) => changeText(change)),
        row.difference === null ? '–' : pointsCell(row.difference),
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

/** Percentage points with their sign; one prompt has no interval. */
function pointsCell({ estimate, low, high, n }: Interval): Cell {
  return { value: signed(estimate), interval: n < 2 ? undefined : `${signed(low)} to ${signed(high)}` };
}

export function signed(share: number): string {
  const text = fixed(100 * share, 1);
  return share > 0 && text !== '0.0' ? `+${text}` : text;
}

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
  const range = growth.n < 2 ? '' : ` (95 % interval ${signed(growth.low)} to ${signed(growth.high)} points)`;
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

export function describeDrafter(drafter: DrafterComparison): string[] {
  const { counted, prompts, rows, level } = drafter;
  const verdict =
    level.before === level.after ? `${level.after} in both` : `${level.before} → ${level.after}`;
  const sentences = [`Verdict: ${verdict}.`];
  if (counted === null)
    sentences.push('No prompt was audited in both runs, so nothing else can be compared.');
  else {
    const { growth, pValue } = counted;
    const row = rows.at(-1)!;
    sentences.push(
      `Accepted length under ${row.arm.after === 'attack' ? 'attack' : 'the given suffixes'}, against no suffix: ` +
        `${arrow(row.change!, (change) => changeText(change))}; ${describeGrowth(growth)}` +
        `${growth.n < 2 ? '' : `, ${pValueText(pValue)}`}; ${countText(growth.n, 'prompt')}.`,
    );
    if (judgeChange(counted) === 'too few') sentences.push(`${describeTooFew(counted)} to rule out chance.`);
    sentences.push(
      `Answers before: ${describeKept(row.kept.before)}; after: ${describeKept(row.kept.after)}.`,
    );
    const { before, after } = counted.withoutSuffix;
    if (before + after > 0) sentences.push(`Prompts without a suffix: ${before} → ${after}.`);
  }
  const clean = rows.find(({ change }) => change === null);
  if (clean !== undefined) {
    const { estimate, low, high, n } = clean.lengthChange;
    const range = n < 2 ? '' : ` (95 % ${changeText(low, 1)} to ${changeText(high, 1)})`;
    sentences.push(`Without a suffix: ${changeText(estimate, 1)}${range}.`);
  }
  return [...sentences, ...describeLeftOut(prompts)];
}

function describeGrowth({ estimate, low, high, n }: Interval): string {
  const [from, to] = estimate < 0 ? [-high, -low] : [low, high];
  const range = n < 2 ? '' : ` (95 % ${fixed(100 * from, 1)} to ${fixed(100 * to, 1)})`;
  return `the drop ${estimate < 0 ? 'shrank' : 'grew'} by ${fixed(100 * Math.abs(estimate), 1)} points${range}`;
}

function describeLeftOut({ onlyBefore, onlyAfter, changed }: DrafterComparison['prompts']): string[] {
  const parts = [
    ...(onlyBefore > 0 ? [`${countText(onlyBefore, 'prompt')} audited only before`] : []),
    ...(onlyAfter > 0 ? [`${countText(onlyAfter, 'prompt')} audited only after`] : []),
    ...(changed > 0 ? [`${countText(changed, 'prompt')} with another text`] : []),
  ];
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
