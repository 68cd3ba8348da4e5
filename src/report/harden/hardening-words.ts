/** What a hardening run brought, in sentences and cells that hold for every outcome: for terminal, Markdown and page. */
import type { Interval } from '../../measure/bootstrap.js';
import {
  acceptedLengthText,
  changeText,
  countText,
  fixed,
  groupThousands,
  percentText,
  pValueText,
} from '../../core/number-text.js';
import type { HardeningAudit } from '../../train/harden/hardening-settings.js';
import { judgeDrop, judgePrice } from '../../train/harden/hardening-comparison.js';
import type {
  AuditComparison,
  DrafterRole,
  HardenedChange,
  HardenedRow,
  HardeningResult,
  RoundRecord,
  TrainedRole,
} from '../../train/harden/hardening-result.js';
import { trainedRoles } from '../../train/harden/hardening-result.js';

export const roleNames: Readonly<Record<DrafterRole, string>> = {
  before: 'before',
  hardened: 'hardened',
  random: 'random suffixes',
  paraphrase: 'reworded questions',
};

const absent = '–';
const digits = 1;

const range = ({ low, high, n }: Interval, show: (value: number) => string): string =>
  n < 2 ? '' : ` (${show(low)} to ${show(high)})`;

const lengthCell = (interval: Interval | null): string =>
  interval === null
    ? absent
    : `${acceptedLengthText(interval.estimate)}${range(interval, acceptedLengthText)}`;

const share = (value: number): string => percentText(value, digits);
const points = (value: number): string => fixed(100 * value, digits);
/** 38.5 % (20.1 to 57.3) */
const shareRange = (interval: Interval): string => `${share(interval.estimate)}${range(interval, points)}`;

export const resultColumns: readonly string[] = [
  ...['drafter', 'clean', 'attacked', 'drop', 'of the drop before', 'clean length', 'p', 'prompts'],
];

export const resultLegend: readonly string[] = [
  'clean, attacked: accepted tokens a step along one and the same answer, without and with a searched suffix (95 % interval)',
  'of the drop before: what is left of it; clean length: against the drafter before; p: that the drop is smaller, by prompts',
];

/** The cells of each drafter under an audit. */
export function listRows({ rows, changes }: AuditComparison): readonly (readonly string[])[] {
  return rows.map((row) => {
    const change = changes.find(({ role, against }) => role === row.role && against === 'before');
    return [
      ...[roleNames[row.role], lengthCell(row.clean), lengthCell(row.attacked), dropCell(row)],
      ...[
        change === undefined ? absent : ratioCell(change),
        change === undefined ? absent : priceCell(change),
      ],
      ...[change === undefined ? absent : pValueText(change.pValue).replace(/^p (= )?/, '')],
      String(row.promptsAudited),
    ];
  });
}

const dropCell = ({ drop, promptsAudited }: HardenedRow): string =>
  promptsAudited === 0 ? absent : shareRange(drop);

function ratioCell({ dropRatio, prompts }: HardenedChange): string {
  if (prompts === 0) return absent;
  return dropRatio === null ? 'undefined' : shareRange(dropRatio);
}

function priceCell({ cleanLoss }: HardenedChange): string {
  if (cleanLoss === null) return absent;
  const { estimate, low, high, n } = cleanLoss;
  const signed = (loss: number): string => changeText(-loss, digits).replace(' %', '');
  return `${changeText(-estimate, digits)}${n < 2 ? '' : ` (${signed(high)} to ${signed(low)})`}`;
}

export const auditTitles: Readonly<Record<HardeningAudit, string>> = {
  fresh: 'Fresh audit',
  'other-objective': 'Another objective',
  stronger: 'Ten times the steps',
};

export function describeAudit({ objective, steps, suffixLength, prompts }: AuditComparison): string {
  return `${countText(prompts, 'prompt')}, suffixes of ${suffixLength} tokens, ${groupThousands(steps)} steps of search for ${objective}`;
}

export const findChange = (
  { changes }: AuditComparison,
  role: HardenedChange['role'],
  against: DrafterRole,
): HardenedChange | undefined => changes.find((change) => change.role === role && change.against === against);

/** The run in a few words: of the fresh audit alone. */
export function describeOutcome({ audits }: HardeningResult): string {
  const change = audits[0] === undefined ? undefined : findChange(audits[0], 'hardened', 'before');
  switch (change === undefined ? 'unknown' : judgeDrop(change)) {
    case 'smaller':
      return 'The drop is smaller';
    case 'larger':
      return 'The drop is larger';
    case 'unclear':
      return 'No smaller drop was shown';
    case 'unknown':
      return 'Nothing could be compared';
  }
}

/** All that an audit says, sentence by sentence. */
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
  paraphrase: 'the drafter trained on reworded questions',
};
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export function describeDrop(change: HardenedChange): string {
  const { role, against, prompts, dropThen, dropNow, dropLess, dropRatio, pValue, pLarger } = change;
  const subject = capital(sides[role]);
  if (dropThen === null || dropNow === null || dropLess === null)
    return `${subject} and ${sides[against]} have no audited prompt in common: nothing can be compared.`;
  const over = `over ${countText(prompts, 'prompt')}`;
  const values = `${share(dropNow.estimate)} where ${sides[against]} loses ${share(dropThen.estimate)}`;
  const difference = `${points(Math.abs(dropLess.estimate))} points`;
  const ratio =
    dropRatio === null
      ? 'a ratio of the two is undefined, because the other drop is too near 0'
      : `${shareRange(dropRatio)} of it`;
  switch (judgeDrop(change)) {
    case 'smaller':
      return `${subject} loses less under attack: ${values}, ${ratio} (${pValueText(pValue)}, ${over}).`;
    case 'larger':
      return `${subject} loses more under attack: ${values}, ${difference} more (${pValueText(pLarger)}, ${over}).`;
    default:
      return `${subject} loses ${values} under attack: a difference of ${difference} that is not beyond chance (${pValueText(pValue)} for a smaller drop, ${over}).`;
  }
}

/** What it costs, or brings, where nobody attacks. */
export function describePrice(change: HardenedChange): string {
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
      return `On clean prompts its accepted length changes by ${changed}, which is not beyond chance.`;
  }
}

export const roundColumns: readonly string[] = [
  ...['texts', 'round', 'prompts', 'found', 'steps', 'length found', 'updates'],
  ...['clean before', 'clean after', 'change'],
];

export const roundLegend =
  'texts: suffixes that were searched or drawn, or reworded questions; prompts: of the data; found: texts, of how many prompts; length found: accepted length under them; clean: on held-out texts';

/** The cells of each round. */
export function listRounds({ rounds }: HardeningResult): readonly (readonly string[])[] {
  const cells = (name: string, record: RoundRecord, index: number): readonly string[] => {
    const { cleanBefore, cleanAfter, attackedLength, searchSteps } = record;
    const change =
      cleanBefore === null || cleanAfter === null ? absent : changeText(cleanAfter / cleanBefore - 1, digits);
    return [
      ...[name, String(index + 1), String(record.prompts), `${record.suffixes} of ${record.found}`],
      ...[searchSteps === 0 ? absent : String(searchSteps), acceptedLengthText(attackedLength)],
      ...[String(record.updates), acceptedLengthText(cleanBefore), acceptedLengthText(cleanAfter), change],
    ];
  };
  const names: Readonly<Record<TrainedRole, string>> = {
    ...{ hardened: 'searched', random: 'random', paraphrase: 'reworded' },
  };
  return trainedRoles.flatMap((role) =>
    rounds[role].map((record, index) => cells(names[role], record, index)),
  );
}
