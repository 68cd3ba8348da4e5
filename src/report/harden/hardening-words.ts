/** What a hardening run changed, in sentences and tables for the terminal, Markdown and the page. */
import { type Interval, minPairs } from '../../measure/statistics.js';
import {
  acceptedLengthText,
  changeText,
  countText,
  fixed,
  groupThousands,
  percentText,
  pValueText,
} from '../../core/number-text.js';
import { lengthCell } from '../audit/row-columns.js';
import { type Cell, type Column, type Row, type Table, cellText } from '../table.js';
import type { HardeningAudit } from '../../train/harden/hardening-settings.js';
import { judgeDrop, judgePrice, trainedRoles } from '../../train/harden/hardening-result.js';
import type {
  AuditComparison,
  DrafterRole,
  HardenedChange,
  HardeningResult,
  RoundRecord,
  TrainedRole,
} from '../../train/harden/hardening-result.js';

export const roleNames: Readonly<Record<DrafterRole, string>> = {
  before: 'before',
  hardened: 'hardened',
  random: 'random suffixes',
};

const digits = 1;

/** Values are shares: "20.1 to 57.3", in percent. */
const shareCell = ({ estimate, low, high, n }: Interval): Cell => ({
  value: percentText(estimate, digits),
  interval: n < 2 ? undefined : `${points(low)} to ${points(high)}`,
});
const share = (value: number): string => percentText(value, digits);
const points = (value: number): string => fixed(100 * value, digits);

const resultColumns: readonly Column[] = [
  { name: 'drafter' },
  { name: 'clean', unit: 'tokens per step' },
  { name: 'attacked', unit: 'tokens per step' },
  { name: 'drop', unit: 'under attack' },
  { name: 'of the drop before', unit: 'what is left of it' },
  { name: 'clean length', unit: 'against before' },
  { name: 'p', unit: 'that the drop is smaller' },
  { name: 'prompts' },
];

export const resultLegend: readonly string[] = [
  'clean, attacked: accepted tokens per step along the same answer, without and with a searched suffix (95 % interval)',
  'of the drop before: what is left of it; clean length: against the drafter before; p: that the drop is smaller, over prompts',
];

export function auditTable({ rows, changes }: AuditComparison): Table {
  return {
    columns: resultColumns,
    rows: rows.map((row) => {
      const change = changes.find(({ role, against }) => role === row.role && against === 'before');
      return {
        tone: change !== undefined && judgeDrop(change) === 'smaller' ? 'good' : undefined,
        cells: [
          roleNames[row.role],
          row.clean === null ? '–' : lengthCellOf(row.clean),
          row.attacked === null ? '–' : lengthCellOf(row.attacked),
          row.promptsAudited === 0 ? '–' : shareCell(row.drop),
          change === undefined || change.prompts === 0
            ? '–'
            : change.dropRatio === null
              ? 'undefined'
              : shareCell(change.dropRatio),
          change?.cleanLoss == null ? '–' : lossCell(change.cleanLoss),
          change === undefined ? '–' : pValueText(change.pValue).replace(/^p (= )?/, ''),
          String(row.promptsAudited),
        ],
      };
    }),
  };
}

const lengthCellOf = (interval: Interval): Cell =>
  interval.n < 2 ? { value: acceptedLengthText(interval.estimate) } : lengthCell(interval);

function lossCell({ estimate, low, high, n }: Interval): Cell {
  const signed = (loss: number): string => changeText(-loss, digits).replace(' %', '');
  return {
    value: changeText(-estimate, digits),
    interval: n < 2 ? undefined : `${signed(high)} to ${signed(low)}`,
  };
}

export const auditTitles: Readonly<Record<HardeningAudit, string>> = {
  fresh: 'Fresh audit',
  'other-objective': 'Another objective',
  stronger: 'Ten times the steps',
};

export function describeAudit({ objective, steps, suffixLength, prompts }: AuditComparison): string {
  return `${countText(prompts, 'prompt')}, suffixes of ${suffixLength} tokens, ${groupThousands(steps)} search steps for ${objective}`;
}

export const findChange = (
  { changes }: AuditComparison,
  role: HardenedChange['role'],
  against: DrafterRole,
): HardenedChange | undefined => changes.find((change) => change.role === role && change.against === against);

export type Outcome = 'smaller' | 'larger' | 'unclear' | 'unknown' | 'too few';

/** What the fresh audit shows. Fewer than five prompts decide nothing. */
export function judgeOutcome({ audits }: HardeningResult): Outcome {
  const change = audits[0] === undefined ? undefined : findChange(audits[0], 'hardened', 'before');
  if (change?.dropNow == null) return 'unknown';
  return change.prompts < minPairs ? 'too few' : judgeDrop(change);
}

/** What hardening changed, in about 20 words. */
export function describeOutcome(result: HardeningResult): string {
  const change =
    result.audits[0] === undefined ? undefined : findChange(result.audits[0], 'hardened', 'before');
  if (change?.dropThen == null || change.dropNow === null)
    return 'Nothing could be compared: no prompt was audited both before and after hardening.';
  const { dropThen, dropNow, dropLess } = change;
  const prompts = countText(change.prompts, 'prompt');
  const range = dropLess === null || dropLess.n < 2 ? '' : ` (${describeRange(dropLess)})`;
  const values = `${share(dropThen.estimate)} to ${share(dropNow.estimate)}`;
  switch (judgeOutcome(result)) {
    case 'smaller':
      return `Hardening helps: under attack the drop of the accepted length falls from ${values}${range}, over ${prompts}.`;
    case 'larger':
      return `Hardening made it worse: under attack the drop of the accepted length rises from ${values}${range}, over ${prompts}.`;
    case 'too few':
      return `${prompts} ${change.prompts === 1 ? 'is' : 'are'} too few to tell whether hardening helped: the drop under attack went from ${values}.`;
    default:
      return `No gain was shown: the drop under attack went from ${values}, which chance can explain${range}, over ${prompts}.`;
  }
}

const describeRange = ({ low, high }: Interval): string =>
  `95 % interval of the difference ${points(-high)} to ${points(-low)} points`;

export function describeComparison(comparison: AuditComparison): readonly string[] {
  return comparison.changes.map((change) =>
    change.against === 'before'
      ? [describeDrop(change), describePrice(change)].join(' ').trimEnd()
      : describeDrop(change),
  );
}

const sides: Readonly<Record<DrafterRole, string>> = {
  before: 'the drafter before',
  hardened: 'the hardened drafter',
  random: 'the drafter trained on random suffixes',
};
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function describeDrop(change: HardenedChange): string {
  const { role, against, prompts, dropThen, dropNow, dropLess, dropRatio, pValue, pLarger } = change;
  const subject = capital(sides[role]);
  if (dropThen === null || dropNow === null || dropLess === null)
    return `${subject} and ${sides[against]} have no audited prompt in common: nothing can be compared.`;
  const over = `over ${countText(prompts, 'prompt')}`;
  const values = `${share(dropNow.estimate)} where ${sides[against]} loses ${share(dropThen.estimate)}`;
  const difference = `${points(Math.abs(dropLess.estimate))} points`;
  const ratio =
    dropRatio === null
      ? 'the ratio is undefined because the other drop is close to 0'
      : `${cellText(shareCell(dropRatio))} of it`;
  switch (judgeDrop(change)) {
    case 'smaller':
      return `${subject} loses less under attack: ${values}, ${ratio} (${pValueText(pValue)}, ${over}).`;
    case 'larger':
      return `${subject} loses more under attack: ${values}, ${difference} more (${pValueText(pLarger)}, ${over}).`;
    default:
      return `${subject} loses ${values} under attack: a difference of ${difference} that chance can explain (${pValueText(pValue)} for a smaller drop, ${over}).`;
  }
}

/** The effect on prompts that nobody attacks. */
function describePrice(change: HardenedChange): string {
  const { cleanLoss } = change;
  if (cleanLoss === null) return '';
  const { estimate, low, high, n } = cleanLoss;
  const bounds = n < 2 ? '' : ` (95 % ${changeText(-high, digits)} to ${changeText(-low, digits)})`;
  const changed = `${changeText(-estimate, digits)}${bounds}`;
  switch (judgePrice(change)) {
    case 'smaller':
      return `On clean prompts it accepts less than before: ${changed}.`;
    case 'larger':
      return `On clean prompts it accepts more than before: ${changed}.`;
    default:
      return `On clean prompts its accepted length changes by ${changed}, which chance can explain.`;
  }
}

export const roundLegend =
  'texts: searched or random suffixes; prompts: taken from the data; found: prompts that gave texts, and how many texts; attacked length: accepted length under them; clean: on held-out texts';

export function roundTable({ rounds }: HardeningResult): Table {
  const names: Readonly<Record<TrainedRole, string>> = { hardened: 'searched', random: 'random' };
  const cells = (name: string, record: RoundRecord, index: number): Row => {
    const { cleanBefore, cleanAfter, attackedLength, searchSteps } = record;
    const change = cleanBefore === null || cleanAfter === null ? null : cleanAfter / cleanBefore - 1;
    return {
      cells: [
        name,
        String(index + 1),
        String(record.prompts),
        `${record.found} (${countText(record.suffixes, 'text')})`,
        searchSteps === 0 ? '–' : String(searchSteps),
        acceptedLengthText(attackedLength),
        String(record.updates),
        acceptedLengthText(cleanBefore),
        acceptedLengthText(cleanAfter),
        changeText(change, digits),
      ],
    };
  };
  return {
    columns: [
      ...['texts', 'round', 'prompts', 'found', 'search steps', 'attacked length', 'updates'],
      ...['clean before', 'clean after', 'change'],
    ],
    rows: trainedRoles.flatMap((role) =>
      rounds[role].map((record, index) => cells(names[role], record, index)),
    ),
  };
}
