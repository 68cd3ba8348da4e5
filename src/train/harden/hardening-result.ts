import { z } from 'zod';
import type { AuditResult, DrafterResult, PairedTest, PromptResult } from '../../audit/result.js';
import {
  acceptedLengthOf,
  bootstrapInterval,
  type Interval,
  poolCounts,
  type StepCounts,
  testSignedRanks,
} from '../../measure/statistics.js';
import type { describeMachine } from '../../runs/run-device.js';
import type { ModelIdentity } from '../../runs/identity.js';
import type { ExampleCounts } from '../data/examples.js';
import type { HardenRequest } from './harden-request.js';
import { type HardeningAudit, baselineNames } from './hardening-settings.js';

export const hardeningResultVersion = 'mistletoe-hardening/1';

export const trainedRoles = ['hardened', 'random'] as const;
export type TrainedRole = (typeof trainedRoles)[number];
export const drafterRoles = ['before', ...trainedRoles] as const;
export type DrafterRole = (typeof drafterRoles)[number];

export interface HardeningResult {
  readonly schema: typeof hardeningResultVersion;
  readonly version: string;
  readonly target: ModelIdentity;
  readonly system: string;
  readonly from: ModelIdentity;
  readonly request: Pick<HardenRequest, 'training' | 'hardening' | 'baselines' | 'data'>;
  readonly audit: Omit<HardenRequest['audit'], 'prompts'> & { readonly prompts: number };
  readonly texts: {
    readonly conversations: number;
    readonly training: ExampleCounts;
    readonly heldOut: ExampleCounts;
  };
  /** [role][round]; empty for a baseline that was not requested. */
  readonly rounds: Readonly<Record<TrainedRole | 'paraphrase', readonly RoundRecord[]>>;
  readonly audits: readonly AuditComparison[];
  /** Over all starts of the run, without the target's clean answers. */
  readonly times: Readonly<Record<'searchMs' | 'trainingMs' | 'auditMs', number>>;
  readonly device: string;
  readonly machine: ReturnType<typeof describeMachine>;
}

const count = z.int().min(0);
export const roundSchema = z.strictObject({
  /** Attacked prompts, those with at least one suffix, and their suffixes. */
  prompts: count,
  found: count,
  suffixes: count,
  /** 0 for baselines. */
  searchSteps: count,
  updates: count,
  /** Mean accepted length along clean answers under the found suffixes; null for baselines. */
  attackedLength: z.number().nullable(),
  /** On clean held-out texts, before and after training. */
  cleanBefore: z.number().nullable(),
  cleanAfter: z.number().nullable(),
});
export type RoundRecord = Readonly<z.infer<typeof roundSchema>>;

export interface AuditComparison {
  readonly audit: HardeningAudit;
  readonly objective: string;
  readonly steps: number;
  readonly suffixLength: number;
  readonly prompts: number;
  readonly rows: readonly HardenedRow[];
  readonly changes: readonly HardenedChange[];
}

interface HardenedRow {
  readonly role: DrafterRole;
  readonly clean: Interval | null;
  readonly attacked: Interval | null;
  readonly drop: Interval;
  readonly tests: readonly PairedTest[];
  readonly promptsAudited: number;
  /** Prompts on which the search found nothing within its bounds; they count as no drop. */
  readonly promptsWithoutSuffix: number;
}

/** One drafter against another over the prompts that both have. */
export interface HardenedChange {
  readonly role: TrainedRole;
  readonly against: DrafterRole;
  readonly prompts: number;
  /** This and the following are null if no prompt counts for both. */
  readonly dropThen: Interval | null;
  readonly dropNow: Interval | null;
  /** dropThen - dropNow: positive if the drop is smaller now. */
  readonly dropLess: Interval | null;
  /** dropNow / dropThen; null if dropThen is too close to 0. */
  readonly dropRatio: Interval | null;
  /** 1 - clean length now / then. */
  readonly cleanLoss: Interval | null;
  /** One-sided: the drop is smaller now. */
  readonly pValue: number | null;
  /** One-sided: the drop is larger now. */
  readonly pLarger: number | null;
}

/** Below this drop a ratio is noise. */
const minDrop = 0.01;
const significance = 0.05;

/**
 * Compares two drafters under one audit. Prompts are the independent unit: they are paired, resampled and tested as
 * pairs, with their seeds pooled. `roles`: one per drafter of the result.
 */
export function compareAudit(
  audit: HardeningAudit,
  { setup, drafters }: AuditResult,
  { roles, seed }: { readonly roles: readonly DrafterRole[]; readonly seed: number },
): AuditComparison {
  const byRole = new Map(
    roles.flatMap((role, index) => (drafters[index] === undefined ? [] : [[role, drafters[index]]])),
  );
  const { objective = '', steps = 0, suffixLength = 0 } = setup.options;
  return {
    audit,
    objective: String(objective),
    steps: Number(steps),
    suffixLength: Number(suffixLength),
    prompts: Math.max(0, ...drafters.map(({ prompts }) => prompts.length)),
    rows: [...byRole].map(([role, drafter]) => describeRow(role, drafter)),
    changes: comparedRoles.flatMap(([role, against]) => {
      const [now, then] = [byRole.get(role), byRole.get(against)];
      return now === undefined || then === undefined
        ? []
        : [comparePrompts(role, against, pairPrompts(then, now), `hardening ${seed} ${role} ${against}`)];
    }),
  };
}

const comparedRoles: readonly (readonly [TrainedRole, DrafterRole])[] = [
  ['hardened', 'before'],
  ...baselineNames.map((name) => [name, 'before'] as const),
  ...baselineNames.map((name) => ['hardened', name] as const),
];

function describeRow(role: DrafterRole, { summary }: DrafterResult): HardenedRow {
  const lengthOf = (arm: string): Interval | null =>
    summary.arms.find((row) => row.arm === arm)?.sameAnswer ?? null;
  const { drop, tests, promptsAudited, promptsWithoutSuffix } = summary;
  return {
    role,
    clean: lengthOf('clean'),
    attacked: lengthOf('attack'),
    drop,
    tests,
    promptsAudited,
    promptsWithoutSuffix,
  };
}

interface Measured {
  readonly clean: StepCounts;
  readonly attacked: StepCounts;
}
interface PromptPair {
  readonly then: Measured;
  readonly now: Measured;
}

function pairPrompts(then: DrafterResult, now: DrafterResult): readonly PromptPair[] {
  const others = new Map(now.prompts.map((prompt) => [prompt.promptId, prompt]));
  return then.prompts.flatMap((prompt) => {
    const other = others.get(prompt.promptId);
    const [left, right] = [measuredOf(prompt), other === undefined ? undefined : measuredOf(other)];
    return left === undefined || right === undefined ? [] : [{ then: left, now: right }];
  });
}

/** Averages over seeds, so that each prompt has the same weight. */
function measuredOf({ skipped, arms }: PromptResult): Measured | undefined {
  const meanOf = (name: string): StepCounts | undefined => {
    const found = arms.filter(({ arm }) => arm === name).map(({ sameAnswer }) => sameAnswer);
    const { steps, accepted } = poolCounts(found);
    return found.length === 0
      ? undefined
      : { steps: steps / found.length, accepted: accepted / found.length };
  };
  const [clean, attacked] = [meanOf('clean'), meanOf('attack')];
  return skipped !== null || clean === undefined || attacked === undefined ? undefined : { clean, attacked };
}

type Side = keyof PromptPair;

const lengthOf = (pairs: readonly PromptPair[], side: Side, arm: keyof Measured): number =>
  acceptedLengthOf(poolCounts(pairs.map((pair) => pair[side][arm])));

const dropOf = (pairs: readonly PromptPair[], side: Side): number =>
  1 - lengthOf(pairs, side, 'attacked') / lengthOf(pairs, side, 'clean');

function comparePrompts(
  role: TrainedRole,
  against: DrafterRole,
  pairs: readonly PromptPair[],
  seed: string,
): HardenedChange {
  const base = { role, against, prompts: pairs.length };
  if (pairs.length === 0) {
    const nothing = { dropThen: null, dropNow: null, dropLess: null, dropRatio: null };
    return { ...base, ...nothing, cleanLoss: null, pValue: null, pLarger: null };
  }
  // One seed: all intervals use the same resamples.
  const over = (statistic: (some: readonly PromptPair[]) => number): Interval =>
    bootstrapInterval(pairs, statistic, { seed });
  const dropsOf = (side: Side): number[] => pairs.map((pair) => dropOf([pair], side));
  const dropThen = over((some) => dropOf(some, 'then'));
  return {
    ...base,
    dropThen,
    dropNow: over((some) => dropOf(some, 'now')),
    dropLess: over((some) => dropOf(some, 'then') - dropOf(some, 'now')),
    // Resamples below this are in the tail that is cut; they only must stay finite.
    dropRatio:
      dropThen.low < minDrop
        ? null
        : over((some) => dropOf(some, 'now') / Math.max(minDrop, dropOf(some, 'then'))),
    cleanLoss: over((some) => 1 - lengthOf(some, 'now', 'clean') / lengthOf(some, 'then', 'clean')),
    pValue: testSignedRanks(dropsOf('now'), dropsOf('then'), 'less').pValue,
    pLarger: testSignedRanks(dropsOf('now'), dropsOf('then'), 'greater').pValue,
  };
}

type Effect = 'smaller' | 'larger' | 'unclear' | 'unknown';

/** Interval and test must agree. */
export function judgeDrop({ dropLess, pValue, pLarger }: HardenedChange): Effect {
  if (dropLess === null || pValue === null || pLarger === null) return 'unknown';
  if (dropLess.low > 0 && pValue < significance) return 'smaller';
  return dropLess.high < 0 && pLarger < significance ? 'larger' : 'unclear';
}
