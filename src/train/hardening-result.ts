/** What hardening did, in numbers: each drafter under each audit, and what changed against the drafter before it. */
import type {
  AuditResult,
  DrafterResult,
  Interval,
  ModelIdentity,
  PairedTest,
  PromptResult,
} from '../audit/result.js';
import { bootstrapInterval } from '../measure/bootstrap.js';
import type { describeMachine } from '../measure/machine.js';
import { testSignedRanks } from '../measure/wilcoxon.js';
import type { HardeningAudit, HardenRequest } from './harden-request.js';

export const hardeningResultVersion = 'mistletoe-hardening/1';

export type DrafterRole = 'before' | 'hardened' | 'random';

export interface HardeningResult {
  readonly schema: typeof hardeningResultVersion;
  readonly version: string;
  readonly target: ModelIdentity;
  readonly system: string;
  readonly from: ModelIdentity;
  readonly request: Pick<HardenRequest, 'training' | 'hardening' | 'baseline' | 'data'>;
  /** [kind of suffixes][round] */
  readonly rounds: Readonly<Record<'hardened' | 'random', readonly RoundRecord[]>>;
  readonly audits: readonly AuditComparison[];
  readonly elapsedMs: number;
  readonly device: string;
  readonly machine: ReturnType<typeof describeMachine>;
}

export interface RoundRecord {
  /** Prompts that were attacked, those of them that gave suffixes, and the suffixes. */
  readonly prompts: number;
  readonly found: number;
  readonly suffixes: number;
  /** Mean accepted length along clean answers under the suffixes found; null for random ones. */
  readonly attackedLength: number | null;
  /** On clean held-out texts, before and after the round's training. */
  readonly cleanBefore: number | null;
  readonly cleanAfter: number | null;
}

export interface AuditComparison {
  readonly audit: HardeningAudit;
  readonly objective: string;
  readonly steps: number;
  readonly rows: readonly HardenedRow[];
  readonly changes: readonly HardenedChange[];
}

export interface HardenedRow {
  readonly role: DrafterRole;
  readonly clean: Interval;
  readonly attacked: Interval;
  readonly drop: Interval;
  readonly tests: readonly PairedTest[];
  readonly promptsAudited: number;
}

/** Against the drafter before, over the prompts that count for both. */
export interface HardenedChange {
  readonly role: Exclude<DrafterRole, 'before'>;
  readonly prompts: number;
  /** 1 - clean length now / then. */
  readonly cleanLoss: Interval;
  /** Drop now / drop then. */
  readonly dropRatio: Interval;
  /** That the drop of a prompt is smaller now, one-sided. */
  readonly pValue: number;
}

const roles: readonly DrafterRole[] = ['before', 'hardened', 'random'];

export function compareAudit(
  audit: HardeningAudit,
  { setup, drafters }: AuditResult,
  seed: number,
): AuditComparison {
  const [before, ...others] = drafters as [DrafterResult, ...DrafterResult[]];
  return {
    audit,
    objective: String(setup.options.objective ?? ''),
    steps: Number(setup.options.steps ?? 0),
    rows: drafters.map((drafter, index) => describeRow(roles[index]!, drafter)),
    changes: others.map((other, index) =>
      compareDrafters(roles[index + 1] as HardenedChange['role'], before, other, seed),
    ),
  };
}

function describeRow(role: DrafterRole, { summary }: DrafterResult): HardenedRow {
  const lengthOf = (arm: string): Interval =>
    summary.arms.find((row) => row.arm === arm)?.sameAnswer ?? { estimate: NaN, low: NaN, high: NaN, n: 0 };
  const { drop, tests, promptsAudited } = summary;
  return { role, clean: lengthOf('clean'), attacked: lengthOf('attack'), drop, tests, promptsAudited };
}

interface Counts {
  readonly steps: number;
  readonly accepted: number;
}
interface PromptPair {
  readonly before: { readonly clean: Counts; readonly attacked: Counts };
  readonly after: { readonly clean: Counts; readonly attacked: Counts };
}

function compareDrafters(
  role: HardenedChange['role'],
  before: DrafterResult,
  after: DrafterResult,
  seed: number,
): HardenedChange {
  const pairs = before.prompts.flatMap((prompt): PromptPair[] => {
    const other = after.prompts.find(({ promptId }) => promptId === prompt.promptId);
    const [left, right] = [countsOf(prompt), other === undefined ? undefined : countsOf(other)];
    return left === undefined || right === undefined ? [] : [{ before: left, after: right }];
  });
  const pooled = (some: readonly PromptPair[], side: 'before' | 'after', arm: 'clean' | 'attacked'): number =>
    lengthOf(
      some.reduce<Counts>(
        (sum, pair) => ({
          steps: sum.steps + pair[side][arm].steps,
          accepted: sum.accepted + pair[side][arm].accepted,
        }),
        { steps: 0, accepted: 0 },
      ),
    );
  const dropOf = (some: readonly PromptPair[], side: 'before' | 'after'): number =>
    1 - pooled(some, side, 'attacked') / pooled(some, side, 'clean');
  const options = { seed: `hardening ${seed} ${role}` };
  const dropsOf = (side: 'before' | 'after'): number[] => pairs.map((pair) => dropOf([pair], side));
  return {
    ...{ role, prompts: pairs.length },
    cleanLoss: bootstrapInterval(
      pairs,
      (some) => 1 - pooled(some, 'after', 'clean') / pooled(some, 'before', 'clean'),
      options,
    ),
    dropRatio: bootstrapInterval(
      pairs,
      (some) => dropOf(some, 'after') / Math.max(1e-9, dropOf(some, 'before')),
      options,
    ),
    pValue: testSignedRanks(dropsOf('after'), dropsOf('before'), 'less').pValue,
  };
}

const lengthOf = ({ steps, accepted }: Counts): number => 1 + accepted / Math.max(1, steps);

function countsOf({ skipped, arms }: PromptResult): PromptPair['before'] | undefined {
  const of = (name: string): Counts | undefined => {
    const found = arms.filter(({ arm }) => arm === name);
    if (found.length === 0) return undefined;
    return {
      steps: found.reduce((sum, { sameAnswer }) => sum + sameAnswer.steps, 0),
      accepted: found.reduce((sum, { sameAnswer }) => sum + sameAnswer.accepted, 0),
    };
  };
  const [clean, attacked] = [of('clean'), of('attack')];
  return skipped !== null || clean === undefined || attacked === undefined ? undefined : { clean, attacked };
}
