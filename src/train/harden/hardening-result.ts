import * as z from '../../core/schema.js';
import type { AuditResult, DrafterResult, PromptResult } from '../../audit/result.js';
import {
  acceptedLengthOf,
  jackknifeInterval,
  type Interval,
  poolCounts,
  type StepCounts,
  testSignedRanks,
} from '../../measure/statistics.js';
import { describeMachine } from '../../runs/run-device.js';
import { nameDevice } from '../../runtime/device-choice.js';
import type { TrainingTexts } from '../training-run.js';
import type { HardenRequest } from './harden-request.js';
import { type HardeningAudit, baselineNames } from './hardening-settings.js';

export const hardeningResultVersion = 'mistletoe-hardening/1';

export const trainedRoles = ['hardened', 'random', 'clean'] as const;
export type TrainedRole = (typeof trainedRoles)[number];
export const drafterRoles = ['before', ...trainedRoles] as const;
export type DrafterRole = (typeof drafterRoles)[number];

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

/** Below this drop a ratio is noise. */
const minDrop = 0.01;
const significance = 0.05;

export type AuditComparison = Readonly<ReturnType<typeof compareAudit>>;

/**
 * Compares two drafters under one audit. Prompts are the independent unit: they are paired, and tested as pairs, with their seeds pooled. `roles`: one per drafter of the result.
 */
export function compareAudit(
  audit: HardeningAudit,
  { setup, drafters }: AuditResult,
  roles: readonly DrafterRole[],
) {
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
        : [comparePrompts(role, against, pairPrompts(then, now))];
    }),
  };
}

const comparedRoles: readonly (readonly [TrainedRole, DrafterRole])[] = [
  ['hardened', 'before'],
  ...baselineNames.map((name) => [name, 'before'] as const),
  ...baselineNames.map((name) => ['hardened', name] as const),
];

function describeRow(role: DrafterRole, { summary }: DrafterResult) {
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
    /** Prompts on which the search found nothing within its bounds; they count as no drop. */
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
  const others = new Map(now.prompts.map((prompt) => [prompt.promptId, measuredOf(prompt)]));
  return then.prompts.flatMap((prompt) => {
    const [left, right] = [measuredOf(prompt), others.get(prompt.promptId)];
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

export type HardenedChange = Readonly<ReturnType<typeof comparePrompts>>;

/** One drafter against another over the prompts that both have. Intervals and p are null if there are none. */
function comparePrompts(role: TrainedRole, against: DrafterRole, pairs: readonly PromptPair[]) {
  const over = (statistic: (some: readonly PromptPair[]) => number): Interval | null =>
    pairs.length === 0 ? null : jackknifeInterval(pairs, statistic);
  const dropsOf = (side: Side): number[] => pairs.map((pair) => dropOf([pair], side));
  const test = (alternative: 'less' | 'greater'): number | null =>
    pairs.length === 0 ? null : testSignedRanks(dropsOf('now'), dropsOf('then'), alternative).pValue;
  const dropThen = over((some) => dropOf(some, 'then'));
  const hasRatio = dropThen !== null && dropThen.low >= minDrop;
  // Without one prompt it may fall below this, and must stay finite.
  const ratioOf = (some: readonly PromptPair[]): number =>
    dropOf(some, 'now') / Math.max(minDrop, dropOf(some, 'then'));
  return {
    role,
    against,
    prompts: pairs.length,
    dropThen,
    dropNow: over((some) => dropOf(some, 'now')),
    /** Positive if the drop is smaller now. */
    dropLess: over((some) => dropOf(some, 'then') - dropOf(some, 'now')),
    /** Null if the drop then is too close to 0. */
    dropRatio: hasRatio ? over(ratioOf) : null,
    cleanLoss: over((some) => 1 - lengthOf(some, 'now', 'clean') / lengthOf(some, 'then', 'clean')),
    /** One-sided: the drop is smaller now. */
    pValue: test('less'),
    /** One-sided: the drop is larger now. */
    pLarger: test('greater'),
  };
}

type Effect = 'smaller' | 'larger' | 'unclear' | 'unknown';

/** Interval and test must agree. */
export function judgeDrop({ dropLess, pValue, pLarger }: HardenedChange): Effect {
  if (dropLess === null || pValue === null || pLarger === null) return 'unknown';
  if (dropLess.low > 0 && pValue < significance) return 'smaller';
  return dropLess.high < 0 && pLarger < significance ? 'larger' : 'unclear';
}

interface HardenedRounds extends Readonly<Record<'searchMs' | 'trainingMs', number>> {
  readonly rounds: readonly RoundRecord[];
}

export type HardeningResult = ReturnType<typeof describeResult>;

export function describeResult(
  request: HardenRequest,
  texts: Pick<TrainingTexts, 'conversations' | 'trainingCounts' | 'heldOutCounts'>,
  made: { readonly hardened: HardenedRounds } & Partial<Readonly<Record<TrainedRole, HardenedRounds>>>,
  { audits, auditMs }: { readonly audits: readonly AuditComparison[]; readonly auditMs: number },
) {
  const { version, target, system, from, training, hardening, baselines, data, audit, device } = request;
  const sum = (name: 'searchMs' | 'trainingMs'): number =>
    Object.values(made).reduce((total, rounds) => total + rounds[name], 0);
  return {
    schema: hardeningResultVersion,
    version,
    target,
    system,
    from: { name: from.name, parameterCount: from.parameterCount, sha256: from.sha256 },
    request: { training, hardening, baselines, data },
    audit: { ...audit, prompts: audit.prompts.length },
    texts: {
      conversations: texts.conversations,
      training: texts.trainingCounts,
      heldOut: texts.heldOutCounts,
    },
    rounds: {
      hardened: made.hardened.rounds,
      random: made.random?.rounds ?? [],
      clean: made.clean?.rounds ?? [],
      paraphrase: [], // a baseline of earlier versions
    },
    audits,
    /** Over all starts of the run, without the target's clean answers. */
    times: { searchMs: sum('searchMs'), trainingMs: sum('trainingMs'), auditMs },
    device: nameDevice(device),
    machine: describeMachine(device),
  } as const;
}
