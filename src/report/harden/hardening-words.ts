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
import {
  type Cell,
  type Column,
  type Row,
  type Table,
  intervalCell,
  negateInterval,
  rangeText,
} from '../table.js';
import type { HardeningAudit } from '../../train/harden/hardening-settings.js';
import { judgeDrop, trainedRoles } from '../../train/harden/hardening-result.js';
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
  clean: 'clean texts',
};

const share = (value: number): string => percentText(value, 1);
const change = (value: number): string => changeText(value, 1);
const points = (value: number): string => `${fixed(100 * value, 1)} points`;

const resultColumns: readonly (Column | string)[] = [
  'drafter',
  { name: 'clean', unit: 'tokens per step' },
  { name: 'attacked', unit: 'tokens per step' },
  { name: 'drop', unit: 'under attack' },
  { name: 'of the drop before', unit: 'what is left of it' },
  { name: 'clean length', unit: 'against before' },
  { name: 'p', unit: 'that the drop is smaller' },
  'prompts',
];

export const resultLegend: readonly string[] = [
  'clean, attacked: accepted tokens per step along the same answer, without and with a searched suffix (95 % interval)',
  'of the drop before: what is left of it; clean length: against the drafter before; p: that the drop is smaller, over prompts',
];

export function auditTable({ rows, changes }: AuditComparison): Table {
  const dash = '–';
  const cellOf = (interval: Interval | null | undefined, text: (value: number) => string): Cell | string =>
    interval == null ? dash : intervalCell(interval, text);
  return {
    columns: resultColumns,
    rows: rows.map(({ role, clean, attacked, promptsAudited, drop }) => {
      const own = changes.find((each) => each.role === role && each.against === 'before');
      const isCompared = own !== undefined && own.prompts > 0;
      return {
        tone: own !== undefined && judgeDrop(own) === 'smaller' ? 'good' : undefined,
        cells: [
          roleNames[role],
          cellOf(clean, acceptedLengthText),
          cellOf(attacked, acceptedLengthText),
          promptsAudited === 0 ? dash : intervalCell(drop, share),
          isCompared && own.dropRatio === null ? 'undefined' : cellOf(own?.dropRatio, share),
          cellOf(own?.cleanLoss && negateInterval(own.cleanLoss), change),
          own === undefined ? dash : pValueText(own.pValue),
          String(promptsAudited),
        ],
      };
    }),
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

/** The hardened drafter against the one before, in the fresh audit. */
export const findMainChange = ({ audits: [fresh] }: HardeningResult): HardenedChange | undefined =>
  fresh?.changes.find(({ role, against }) => role === 'hardened' && against === 'before');

export type Outcome = 'smaller' | 'larger' | 'unclear' | 'unknown' | 'too few';

/** What the fresh audit shows. Fewer than five prompts decide nothing. */
export function judgeOutcome(result: HardeningResult): Outcome {
  const main = findMainChange(result);
  if (main?.dropNow == null) return 'unknown';
  return main.prompts < minPairs ? 'too few' : judgeDrop(main);
}

/** The simplest baseline that searched suffixes did not beat in the fresh audit, if there is one. */
function findUnbeaten({ audits: [fresh] }: HardeningResult): HardenedChange | undefined {
  return fresh?.changes.findLast(
    (own) => own.role === 'hardened' && own.against !== 'before' && judgeDrop(own) !== 'smaller',
  );
}

/** What hardening changed, in about 20 words. */
export function describeOutcome(result: HardeningResult): string {
  const main = findMainChange(result);
  if (main?.dropThen == null || main.dropNow === null)
    return 'Nothing could be compared: no prompt was audited both before and after hardening.';
  const { dropThen, dropNow, dropLess } = main;
  const prompts = countText(main.prompts, 'prompt');
  const difference = dropLess === null ? undefined : rangeText(negateInterval(dropLess), points);
  const range = difference === undefined ? '' : ` (95 % interval of the difference ${difference})`;
  const values = `${share(dropThen.estimate)} to ${share(dropNow.estimate)}`;
  switch (judgeOutcome(result)) {
    case 'smaller': {
      const falls = `under attack the drop of the accepted length falls from ${values}${range}`;
      const unbeaten = findUnbeaten(result);
      if (unbeaten?.dropThen == null) return `Hardening helps: ${falls}, over ${prompts}.`;
      const baseline = `${share(unbeaten.dropThen.estimate)} with ${roleNames[unbeaten.against]}`;
      return `Training helps, the searches do not: ${falls}, and to ${baseline}, over ${prompts}.`;
    }
    case 'larger':
      return `Hardening made it worse: under attack the drop of the accepted length rises from ${values}${range}, over ${prompts}.`;
    case 'too few':
      return `${prompts} ${main.prompts === 1 ? 'is' : 'are'} too few to tell whether hardening helped: the drop under attack went from ${values}.`;
    default:
      return `No gain was shown: the drop under attack went from ${values}, which chance can explain${range}, over ${prompts}.`;
  }
}

const sides: Readonly<Record<DrafterRole, string>> = {
  before: 'the drafter before',
  hardened: 'the hardened drafter',
  random: 'the drafter trained on random suffixes',
  clean: 'the drafter trained on clean texts',
};

/** Each pair of drafters under attack. The table has the rest: what is left of the drop, and clean prompts. */
export function describeComparison({ changes }: AuditComparison): readonly string[] {
  return changes.map((own) => {
    const { role, against, prompts, dropThen, dropNow, dropLess, pValue, pLarger } = own;
    const effect = judgeDrop(own);
    if (effect === 'unknown' || dropThen === null || dropNow === null || dropLess === null)
      return `No audited prompt in common: ${sides[role]} and ${sides[against]} cannot be compared.`;
    const difference = points(Math.abs(dropLess.estimate));
    const results = {
      smaller: `${difference} less (${pValueText(pValue)})`,
      larger: `${difference} more (${pValueText(pLarger)})`,
      unclear: `a difference of ${difference} that chance can explain (${pValueText(pValue)} for a smaller drop)`,
    };
    return `Under attack ${sides[role]} loses ${share(dropNow.estimate)} where ${sides[against]} loses ${share(dropThen.estimate)}: ${results[effect]}, over ${countText(prompts, 'prompt')}.`;
  });
}

export const roundLegend =
  'texts: with searched or random suffixes, or clean; prompts: taken from the data; found: prompts that gave texts, and how many texts; attacked length: accepted length under them; clean: on held-out texts';

export function roundTable({ rounds }: HardeningResult): Table {
  const names: Readonly<Record<TrainedRole, string>> = {
    hardened: 'searched',
    random: 'random',
    clean: 'clean',
  };
  const rowOf = (name: string, record: RoundRecord, index: number): Row => {
    const { cleanBefore, cleanAfter, attackedLength, searchSteps } = record;
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
        change((cleanAfter ?? NaN) / (cleanBefore ?? NaN) - 1),
      ],
    };
  };
  return {
    columns: [
      ...['texts', 'round', 'prompts', 'found', 'search steps', 'attacked length', 'updates'],
      ...['clean before', 'clean after', 'change'],
    ],
    rows: trainedRoles.flatMap((role) =>
      rounds[role].map((record, index) => rowOf(names[role], record, index)),
    ),
  };
}
