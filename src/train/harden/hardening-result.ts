/** The result of a hardening run, for result.json and reports. */
import type { PairedTest } from '../../audit/result.js';
import type { describeMachine } from '../../measure/machine.js';
import type { ExampleCounts } from '../data/examples.js';
import type { HardenRequest } from './harden-request.js';
import type { HardeningAudit } from './hardening-settings.js';
import type { ModelIdentity } from '../../runs/identity.js';
import type { Interval } from '../../measure/bootstrap.js';

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
  readonly texts: HardeningTexts;
  /** [role][round]; empty for a baseline that was not requested. */
  readonly rounds: Readonly<Record<TrainedRole | 'paraphrase', readonly RoundRecord[]>>;
  readonly audits: readonly AuditComparison[];
  readonly times: HardeningTimes;
  readonly device: string;
  readonly machine: ReturnType<typeof describeMachine>;
}

export interface HardeningTexts {
  readonly conversations: number;
  readonly training: ExampleCounts;
  readonly heldOut: ExampleCounts;
}

/** Over all starts of the run, without the target's clean answers. */
export interface HardeningTimes {
  readonly searchMs: number;
  readonly trainingMs: number;
  readonly auditMs: number;
}

export interface RoundRecord {
  /** Attacked prompts, those with at least one suffix, and their suffixes. */
  readonly prompts: number;
  readonly found: number;
  readonly suffixes: number;
  /** 0 for baselines. */
  readonly searchSteps: number;
  /** Mean accepted length along clean answers under the found suffixes; null for baselines. */
  readonly attackedLength: number | null;
  readonly updates: number;
  /** On clean held-out texts, before and after training. */
  readonly cleanBefore: number | null;
  readonly cleanAfter: number | null;
}

export interface AuditComparison {
  readonly audit: HardeningAudit;
  readonly objective: string;
  readonly steps: number;
  readonly suffixLength: number;
  readonly prompts: number;
  readonly rows: readonly HardenedRow[];
  readonly changes: readonly HardenedChange[];
}

export interface HardenedRow {
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
