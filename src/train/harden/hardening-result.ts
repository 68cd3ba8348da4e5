/** What a hardening run says of itself, for result.json, the report and callers. */
import type { PairedTest } from '../../audit/result.js';
import type { describeMachine } from '../../measure/machine.js';
import type { ExampleCounts } from '../data/examples.js';
import type { HardenRequest } from './harden-request.js';
import type { HardeningAudit } from './hardening-settings.js';
import type { ModelIdentity } from '../../runs/identity.js';
import type { Interval } from '../../measure/bootstrap.js';

export const hardeningResultVersion = 'mistletoe-hardening/1';

/** Drafters that a run trains: on searched suffixes, and as baselines. Runs up to version 0.2 could have `paraphrase`. */
export const trainedRoles = ['hardened', 'random', 'paraphrase'] as const;
export type TrainedRole = (typeof trainedRoles)[number];
/** In the order of the audits. */
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
  /** [kind of texts][round]; none of a baseline that was not asked for. */
  readonly rounds: Readonly<Record<TrainedRole, readonly RoundRecord[]>>;
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

/** All starts of the run together; the target's clean answers are not among them. */
export interface HardeningTimes {
  readonly searchMs: number;
  readonly trainingMs: number;
  readonly auditMs: number;
}

export interface RoundRecord {
  /** Prompts that were attacked or reworded, those of them that gave texts, and these texts. */
  readonly prompts: number;
  readonly found: number;
  readonly suffixes: number;
  /** Of a search; 0 of a baseline. */
  readonly searchSteps: number;
  /** Mean accepted length along clean answers under the suffixes found; null of a baseline. */
  readonly attackedLength: number | null;
  readonly updates: number;
  /** On clean held-out texts, before and after the round's training. */
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
  /** Null where no prompt could be audited. */
  readonly clean: Interval | null;
  readonly attacked: Interval | null;
  readonly drop: Interval;
  readonly tests: readonly PairedTest[];
  readonly promptsAudited: number;
  /** Those of them on which the search found nothing inside its bounds: they count as no drop. */
  readonly promptsWithoutSuffix: number;
}

/** One drafter against another, over the prompts that count for both; intervals are over these prompts. */
export interface HardenedChange {
  readonly role: TrainedRole;
  readonly against: DrafterRole;
  readonly prompts: number;
  /** Null where no prompt counts for both, as all of the following. */
  readonly dropThen: Interval | null;
  readonly dropNow: Interval | null;
  /** Drop then - drop now: above 0 the drop is smaller. */
  readonly dropLess: Interval | null;
  /** Drop now / drop then; null also where the drop then is too near 0 for a ratio to mean anything. */
  readonly dropRatio: Interval | null;
  /** 1 - clean length now / then: the price. */
  readonly cleanLoss: Interval | null;
  /** That the drop of a prompt is smaller now, one-sided. */
  readonly pValue: number | null;
  /** That it is larger, one-sided. */
  readonly pLarger: number | null;
}
